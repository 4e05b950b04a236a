"""Free space from the raster of a navigation mesh, already shrunk by the robot's radius."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from tpsrl.habitat.load.stage import rectangles
from tpsrl.robot.fetch import BASE_RADIUS
from tpsrl.scenes.geometry import convex_outline
from tpsrl.sim.navigation import GridNavigation

_CORNERS = 12


class RasterNavigation(GridNavigation):
    """Free space of the robot's disc; obstacles that come later are grown to the full radius."""

    def with_obstacles(self, polygons: Sequence[np.ndarray]) -> GridNavigation:
        """Return the same free space less convex ``polygons`` ((v, 2) each), e.g. open doors."""
        missing = BASE_RADIUS - self.radius
        return super().with_obstacles(
            [_grown(np.asarray(p, dtype=float), missing) for p in polygons]
        )


def navigation_of(free: np.ndarray, origin: Sequence[float], cell: float) -> RasterNavigation:
    """Return free space.

    What blocks is the blocked part of the raster less a margin as wide as the disc: the disc then
    comes to exactly those samples that are free, and motion along a wall stays smooth.

    Args:
        free: (a, b) bool, navigable at ``origin + cell * (i, j)``.
        origin: (2,) xy of the first sample, m.
        cell: distance of samples, m.
    """
    margin = int(np.ceil(BASE_RADIUS / cell)) + 1
    blocked = np.pad(~np.asarray(free, dtype=bool), margin, constant_values=True)
    low = np.asarray(origin, dtype=np.float64) - cell * (margin + 0.5)
    # Narrower than the mesh's disc, so that what blocks has some breadth behind thin walls, too;
    # and a corner of a solid sample is 0.71 cells from its centre.
    radius = BASE_RADIUS - 2.0 * cell
    solid = ndimage.distance_transform_edt(blocked, sampling=cell) >= radius + 0.75 * cell
    polygons = [
        _box(low + cell * np.array([i0, j0]), low + cell * np.array([i1, j1]))
        for i0, j0, i1, j1 in rectangles(solid)
    ]
    bounds = np.stack([low, low + cell * np.array(blocked.shape)])
    return RasterNavigation(polygons, bounds, radius=radius)


def _box(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])


def _grown(polygon: np.ndarray, by: float) -> np.ndarray:
    angle = np.arange(_CORNERS) * 2 * np.pi / _CORNERS
    # Circumscribed, so that the straight sides do not cut into the disc.
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) * by / np.cos(np.pi / _CORNERS)
    return convex_outline((polygon[:, None, :] + ring).reshape(-1, 2))
