"""Whether a robot that stands in free space can get its hand to an object or a goal."""

from __future__ import annotations

import numpy as np
import shapely

from tpsrl.generation.prisms import Prism, Solids, corridor
from tpsrl.sim.scene import Navigation

REACH = 0.85
"""Largest horizontal distance from the robot's centre to a thing that it is to handle, m."""
ARM_WIDTH = 0.14
"""Width of the strip that must be free for the hand and wrist, m."""
HEADROOM = 0.5
"""Free height above a thing that is taken from above, m."""
LIP = 0.2
"""The hand is lifted over edges up to this far above the top of a thing, m."""
HAND = 0.15
"""Height of the hand and wrist, m."""
_RADII = np.arange(0.35, REACH + 1e-9, 0.05)
_ANGLES = np.arange(48) * 2.0 * np.pi / 48


def standing_points(navigation: Navigation, xy: np.ndarray) -> np.ndarray:
    """Return (k, 2) navigable points within reach of (2,) ``xy``, nearest first."""
    ring = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=-1)
    points = (xy + _RADII[:, None, None] * ring).reshape(-1, 2)
    return points[navigation.is_navigable(points)]


def from_above(thing: Prism, furniture: Solids) -> bool:
    """Whether nothing covers a thing, so that the hand can come from above."""
    return not furniture.near(thing.polygon, thing.top + 0.005, thing.top + HEADROOM)


def approach(
    thing: Prism, navigation: Navigation, furniture: Solids, objects: Solids
) -> np.ndarray | None:
    """Find a place to stand from which the hand reaches a thing.

    A thing that nothing covers is approached over its top: the strip of floor plan from the
    robot to it must be free of furniture above it, edges up to `LIP` aside. A covered one (on a
    fridge's shelf) is approached sideways: the strip must be free of furniture and of other
    objects at its height.

    Args:
        thing: outline of the object or goal, containers open.
        navigation: free space, containers open.
        furniture: solids, containers open.
        objects: other objects.

    Returns:
        A (2,) point of the largest island, ``None`` if there is none.
    """
    center = np.array(thing.polygon.centroid.coords[0])
    above = from_above(thing, furniture)
    middle = thing.bottom + 0.3 * (thing.top - thing.bottom)
    for point in standing_points(navigation, center):
        strip = _strip(point, center, thing)
        if above:
            free = _over_lips(strip, thing.top, furniture)
        else:
            free = not furniture.near(strip, middle, thing.top) and not objects.near(
                strip, middle, thing.top
            )
        if free and np.linalg.norm(navigation.snap(point) - point) < 1e-6:
            return point
    return None


def _over_lips(strip: shapely.Polygon, top: float, furniture: Solids) -> bool:
    """Whether the hand can pass above a strip: over a drawer's front, not over a sofa's back."""
    found = furniture.near(strip, top, top + LIP + HAND)
    height = max([top, *(p.top for p in found if p.top <= top + LIP)])
    return all(p.top <= height or p.bottom >= height + HAND for p in found)


def _strip(point: np.ndarray, center: np.ndarray, thing: Prism) -> shapely.Polygon:
    """Strip from the robot to a thing, wide enough for the hand and for the thing itself."""
    along = (center - point) / np.linalg.norm(center - point)
    across = (np.array(thing.polygon.exterior.coords) - center) @ np.array([-along[1], along[0]])
    return corridor(point, center, max(ARM_WIDTH, 2.0 * float(np.abs(across).max()) + 0.01))
