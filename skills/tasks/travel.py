"""Travel time of a robot that is slow near obstacles: one field, read by rewards and drivers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import skfmm
from scipy import ndimage

from tpsrl.sim.scene import Navigation

RESOLUTION = 0.05
"""Of the grid, m."""
_ASIDE = 0.12
"""With less free floor than this beside it, a robot that does not slide steers away from it, m."""


@dataclass(frozen=True)
class Pace:
    """How fast the robot likes to be beside obstacles; in the open its speed is 1.

    Attributes:
        comfort: clearance beyond the robot's radius that costs nothing, m.
        slowest: speed of a robot that touches furniture.
    """

    comfort: float
    slowest: float


def nearest_known(known: np.ndarray) -> np.ndarray:
    """Return for each node of an (nx, ny) grid the flat index of the nearest that is ``known``."""
    where = ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)
    return np.ravel_multi_index(tuple(where), known.shape)


class SpeedMap:
    """Where the robot can be, and how fast it likes to be there, on a grid.

    Args:
        navigation: free space.
        low: (2,) corner of the region looked at, m.
        high: (2,) the opposite corner, m.
        pace: of the robot.

    Attributes:
        low: (2,) the first node, m.
        nodes: (nx, ny, 2), m.
        free: (nx, ny) bool.
        clearance: (nx, ny) distance to what is not free, m.
        speed: (nx, ny).
    """

    def __init__(
        self, navigation: Navigation, low: np.ndarray, high: np.ndarray, pace: Pace
    ) -> None:
        self.low = low
        count = np.ceil((high - low) / RESOLUTION).astype(int) + 1
        axes = (low[k] + RESOLUTION * np.arange(count[k]) for k in range(2))
        self.nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        self.free = navigation.is_navigable(self.nodes)
        self.clearance = ndimage.distance_transform_edt(self.free) * RESOLUTION
        self.speed = np.clip(self.clearance / pace.comfort, pace.slowest, 1.0)
        self._known = np.zeros(0, dtype=bool)
        self._nearest = np.zeros(0, dtype=np.int64)

    @cached_property
    def aside(self) -> np.ndarray:
        """(nx, ny, 2): away from what is not free, of length 1 where that begins, 0 in the open."""
        inside = ndimage.distance_transform_edt(~self.free) * RESOLUTION
        gap = self.clearance - inside
        normal = np.stack(np.gradient(gap, RESOLUTION), axis=-1)
        normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-9)
        return normal * np.clip(1.0 - gap / _ASIDE, 0.0, 1.0)[..., None]

    def travel_time(self, goal: np.ndarray, radius: float, only_free: bool = True) -> np.ndarray:
        """Return the (nx, ny) time to a goal; infinite where there is no way.

        Args:
            goal: (2,), m.
            radius: every node so near to the goal is an end of the way, m.
            only_free: whether those that are not free are no ends.
        """
        gap = np.linalg.norm(self.nodes - goal, axis=-1) - radius
        near = gap <= 0.0
        if only_free:
            near &= self.free
        front = np.ma.MaskedArray(gap, ~(self.free | near))
        time = skfmm.travel_time(front, self.speed, dx=RESOLUTION)
        return np.where(near, 0.0, np.ma.filled(time, np.inf))

    def filled(self, time: np.ndarray) -> np.ndarray:
        """Return (nx, ny) times, where one is infinite that of the nearest node with a way.

        The robot may stand between a free node and one that is not. Which node is nearest is kept:
        the ways to most goals reach the same nodes.
        """
        known = np.isfinite(time)
        if not np.array_equal(known, self._known):
            self._known, self._nearest = known, nearest_known(known)
        return time.ravel()[self._nearest]

    def time_to(self, ends: np.ndarray, window: tuple[slice, slice]) -> np.ndarray:
        """Return the time to the nearest end inside a part of the grid; infinite without a way.

        Args:
            ends: bool, nodes of the window that are free.
            window: which nodes are looked at; ways lie inside it.
        """
        free = self.free[window]
        if not (ndimage.binary_dilation(ends) & free & ~ends).any():  # there is no front to move
            return np.where(ends, 0.0, np.inf)
        front = np.ma.MaskedArray(np.where(ends, -0.5, 0.5) * RESOLUTION, ~free)
        speed = np.ascontiguousarray(self.speed[window])  # skfmm reads past the rows of a view
        time = skfmm.travel_time(front, speed, dx=RESOLUTION)
        return np.where(ends, 0.0, np.ma.filled(time, np.inf))
