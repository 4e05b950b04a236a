"""The comfortable way to a place, which a reward of training can measure progress along."""

from __future__ import annotations

from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import ndimage

from skills.tasks.travel import RESOLUTION, Pace, SpeedMap
from tpsrl.sim.door import Navigation, SceneInfo

_PACE = Pace(comfort=0.3, slowest=0.3)
_NEAR = 1.1
"""Every free point so near to the goal is an end of the way, m."""
_BEYOND = 0.1
"""Where there is none, ends are this much less near than the nearest free point, m."""
_BORDER = 0.5


class Course:
    """Time to a goal at full speed 1, less near furniture, and the way to go.

    Args:
        scene: of the world.
        goal: (2,), need not be free, m.
    """

    _maps: ClassVar[WeakKeyDictionary[Navigation, SpeedMap]] = WeakKeyDictionary()

    def __init__(self, scene: SceneInfo, goal: np.ndarray) -> None:
        speed_map = self._maps.get(scene.navigation)
        if speed_map is None:
            speed_map = self._maps[scene.navigation] = _speed_map(scene)
        self.goal, self._low = np.asarray(goal, dtype=np.float64)[:2], speed_map.low
        least = float(np.linalg.norm(scene.navigation.snap(self.goal) - self.goal))
        length = speed_map.travel_time(self.goal, max(_NEAR, least + _BEYOND))
        # The robot may stand between a free node and one that is not.
        known = np.isfinite(length)
        nearest = ndimage.distance_transform_edt(
            ~known, return_distances=False, return_indices=True
        )
        length = length[tuple(nearest)]
        slope = np.gradient(length, RESOLUTION)
        self._table = np.stack([length, -slope[0], -slope[1]], axis=-1)

    def look(self, place: np.ndarray) -> np.ndarray:
        """Return, from a (2,) place, the distance still to go, m, and the (2,) way to go."""
        cell = np.clip((place - self._low) / RESOLUTION, 0, np.array(self._table.shape[:2]) - 1.001)
        i, j = cell.astype(int)
        a, b = cell - (i, j)
        table = self._table
        low = (1 - a) * table[i, j] + a * table[i + 1, j]
        high = (1 - a) * table[i, j + 1] + a * table[i + 1, j + 1]
        return np.asarray((1 - b) * low + b * high)


def _speed_map(scene: SceneInfo) -> SpeedMap:
    places = np.array(list(scene.furniture_pose.values())).reshape(-1, 3)[:, :2]
    low, high = places.min(axis=0) - _BORDER, places.max(axis=0) + _BORDER
    return SpeedMap(scene.navigation, low, high, _PACE)
