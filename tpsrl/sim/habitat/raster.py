"""Free space from the raster of a navigation mesh, already shrunk by the robot's radius."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpsrl.data.load.stage import rectangles
from tpsrl.robot.fetch import BASE_RADIUS
from tpsrl.scenes.geometry import convex_outline
from tpsrl.sim.navigation import GridNavigation

_RADIUS = 0.01
"""The point that the raster speaks of, with a little breadth for the geometry, m."""
_CORNERS = 12


class RasterNavigation(GridNavigation):
    """Free space of the robot's centre; obstacles that come later are grown by its radius."""

    def with_obstacles(self, polygons: Sequence[np.ndarray]) -> GridNavigation:
        """Return the same free space less convex ``polygons`` ((v, 2) each), e.g. open doors."""
        return super().with_obstacles([_grown(np.asarray(p, dtype=float)) for p in polygons])


def navigation_of(free: np.ndarray, origin: Sequence[float], cell: float) -> RasterNavigation:
    """Return free space.

    Args:
        free: (a, b) bool, navigable at ``origin + cell * (i, j)``.
        origin: (2,) xy of the first sample, m.
        cell: distance of samples, m.
    """
    corner = np.asarray(origin, dtype=np.float64)
    low = corner - cell / 2
    blocked = [
        _box(low + cell * np.array([i0, j0]), low + cell * np.array([i1, j1]))
        for i0, j0, i1, j1 in rectangles(~np.asarray(free, dtype=bool))
    ]
    bounds = np.stack([low, low + cell * np.array(free.shape)])
    return RasterNavigation(blocked, bounds, radius=_RADIUS)


def _box(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])


def _grown(polygon: np.ndarray) -> np.ndarray:
    angle = np.arange(_CORNERS) * 2 * np.pi / _CORNERS
    # Circumscribed, so that the straight sides do not cut into the disc.
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) / np.cos(np.pi / _CORNERS)
    return convex_outline((polygon[:, None, :] + BASE_RADIUS * ring).reshape(-1, 2))
