"""The comfortable way to a place, which a reward of training can measure progress along."""

from __future__ import annotations

from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import skfmm
from scipy import ndimage

from tpsrl.sim.door import Navigation, SceneInfo

_RESOLUTION = 0.05
_COMFORT = 0.3
"""Clearance beyond the robot's radius that costs nothing, m."""
_SLOWEST = 0.3
"""Speed of a robot that touches furniture; 1 is that in the open."""
_NEAR = 1.1
"""Every free point so near to the goal is an end of the way, m."""
_BEYOND = 0.1
"""Where there is none, ends are this much less near than the nearest free point, m."""
_BORDER = 0.5


class Room:
    """Where the robot can be, and how fast it likes to be there, on a grid.

    Args:
        scene: free space and furniture.
    """

    def __init__(self, scene: SceneInfo) -> None:
        places = np.array(list(scene.furniture_pose.values())).reshape(-1, 3)[:, :2]
        self.low = places.min(axis=0) - _BORDER
        count = np.ceil((places.max(axis=0) + _BORDER - self.low) / _RESOLUTION).astype(int) + 1
        axes = (self.low[k] + _RESOLUTION * np.arange(count[k]) for k in range(2))
        self.nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        self.free = scene.navigation.is_navigable(self.nodes)
        clear = ndimage.distance_transform_edt(self.free) * _RESOLUTION
        self.speed = np.clip(clear / _COMFORT, _SLOWEST, 1.0)


class Course:
    """Time to a goal at full speed 1, less near furniture, and the way to go.

    Args:
        scene: of the world.
        goal: (2,), need not be free, m.
    """

    _rooms: ClassVar[WeakKeyDictionary[Navigation, Room]] = WeakKeyDictionary()

    def __init__(self, scene: SceneInfo, goal: np.ndarray) -> None:
        room = self._rooms.get(scene.navigation)
        if room is None:
            room = self._rooms[scene.navigation] = Room(scene)
        self.goal, self._low = np.asarray(goal, dtype=np.float64)[:2], room.low
        least = float(np.linalg.norm(scene.navigation.snap(self.goal) - self.goal))
        gap = np.linalg.norm(room.nodes - self.goal, axis=-1) - max(_NEAR, least + _BEYOND)
        near = (gap <= 0.0) & room.free
        time = skfmm.travel_time(np.ma.MaskedArray(gap, ~room.free), room.speed, dx=_RESOLUTION)
        length = np.where(near, 0.0, np.ma.filled(time, np.inf))
        # The robot may stand between a free node and one that is not.
        known = np.isfinite(length)
        nearest = ndimage.distance_transform_edt(
            ~known, return_distances=False, return_indices=True
        )
        length = length[tuple(nearest)]
        slope = np.gradient(length, _RESOLUTION)
        self._table = np.stack([length, -slope[0], -slope[1]], axis=-1)

    def look(self, place: np.ndarray) -> np.ndarray:
        """Return, from a (2,) place, the distance still to go, m, and the (2,) way to go."""
        cell = np.clip(
            (place - self._low) / _RESOLUTION, 0, np.array(self._table.shape[:2]) - 1.001
        )
        i, j = cell.astype(int)
        a, b = cell - (i, j)
        table = self._table
        low = (1 - a) * table[i, j] + a * table[i + 1, j]
        high = (1 - a) * table[i, j + 1] + a * table[i + 1, j + 1]
        return np.asarray((1 - b) * low + b * high)
