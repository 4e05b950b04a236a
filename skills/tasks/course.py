"""The comfortable way to a place, which a reward of training can measure progress along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from skills.tasks.outlines import open_parts
from skills.tasks.places import detour, door_moved
from skills.tasks.state import GoalRow, View
from skills.tasks.travel import RESOLUTION, Pace, SpeedMap, nearest_known
from tpsrl.geometry.arrays import Array, wrap
from tpsrl.geometry.tables import read_between
from tpsrl.robot import fetch
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import Navigation, SceneInfo

_PACE = Pace(comfort=0.3, slowest=0.3)
_NEAR = 1.1
"""Every free point so near to the goal is an end of the way, m."""
_BEYOND = 0.1
"""Where there is none, ends are this much less near than the nearest free point, m."""
_BORDER = 0.5
_LEAN = 0.6
"""How much of the way leads away from an edge of free space at that edge."""
FAN = 16
"""Directions in which it is looked from where a robot could reach a point."""
_LIFT = 0.3
"""How far above the point, m: a drawer's walls and what lies in front of it do not count."""
_AROUND, EVERYWHERE = 4.0, 100.0
"""How far from a point ways to it may lead, m."""
_HAND, _TURN = 0.8, 0.3
"""Distance that a hand counts as whose base does not, m, and what a radian is of it."""
_MOST = 1000
"""Courses to points that are kept of one apartment's layout."""


class Course:
    """Time to a goal at full speed 1, less near furniture, and the way to go.

    Args:
        scene: of the world.
        goal: (2,), need not be free, m.
        fan: (``FAN``,) as :func:`fan_of` returns it: the way then ends where a robot can stand
            and reach the goal, and not behind the wall or at the back of the fridge.
        parts: (4, 2) outlines of drawers and doors that stand open, which it leads around.
        around: ways to a goal with a fan stay within the square that reaches so far from it, m.
    """

    _maps: ClassVar[WeakKeyDictionary[Navigation, SpeedMap]] = WeakKeyDictionary()
    _known: ClassVar[WeakKeyDictionary[Navigation, dict[bytes, tuple[Any, ...]]]] = (
        WeakKeyDictionary()
    )

    def __init__(
        self,
        scene: SceneInfo,
        goal: np.ndarray,
        fan: np.ndarray | None = None,
        parts: Sequence[np.ndarray] = (),
        around: float = _AROUND,
    ) -> None:
        self.goal = np.asarray(goal, dtype=np.float64)[:2]
        if fan is not None:
            known = self._known.setdefault(scene.navigation, {})
            about = (self.goal, np.array(around), fan, *parts)
            key = b"".join(array.tobytes() for array in about)
            if key not in known:
                if len(known) >= _MOST:
                    known.clear()
                known[key] = _before(self._speeds(scene, parts), self.goal, fan, around)
            self._low, self._step, self._table = known[key]
            return
        speed_map = self._speeds(scene, ())
        least = float(np.linalg.norm(scene.navigation.snap(self.goal) - self.goal))
        length = speed_map.travel_time(self.goal, max(_NEAR, least + _BEYOND))
        self._low, self._step = speed_map.low, RESOLUTION
        self._table = _table(speed_map.filled(length), speed_map.aside)

    def _speeds(self, scene: SceneInfo, parts: Sequence[np.ndarray]) -> SpeedMap:
        if parts:
            return _speed_map(scene.navigation.with_obstacles(parts))
        known = self._maps.get(scene.navigation)
        if known is None:
            known = self._maps[scene.navigation] = _speed_map(scene.navigation)
        return known

    def look(self, place: np.ndarray) -> np.ndarray:
        """Return, from a (2,) place, the distance still to go, m, and the (2,) way to go."""
        found: np.ndarray = read_between(self._table, self._low, self._step, place)
        return found


def approach(view: View, hand: Array, way: float) -> Array:
    """Return (n,) m: how far a hand is from where it is to be, as far as the base lets it go there.

    Where the base stands within reach that is the distance of the hand. Elsewhere it is what is
    left of the way of the base, and by how much it has to turn towards that way: a base that faces
    what it is about stands still at a corner of the furniture, and turns away only at a loss of the
    hand.

    Args:
        view: of worlds that have a course.
        hand: (n,) distance of the hand, m.
        way: so many metres is one that is left of the way.
    """
    xp, course = view.xp, view.require("course")
    turn = wrap(xp, xp.atan2(course[:, 2], course[:, 1]) - view.state.base_pose[:, 2])
    base = _HAND + way * course[:, 0] + _TURN * xp.abs(turn)
    return hand + view.afar * (base - hand)


@dataclass(frozen=True)
class Lead:
    """How a distance is measured so that its reward leads around what stands between.

    Attributes:
        detour, way, shut: of a task, see :class:`skills.tasks.pick.PickTask`.
    """

    detour: float
    way: float
    shut: float

    def along(self, view: View, distance: Array, hand: Array, point: Array, place: Array) -> Array:
        """Return (n,) m: a straight distance, and what the way to its end is longer.

        Args:
            view: of the worlds.
            distance: (n,) m, from ``hand`` to ``point``.
            hand: (n, 3) in the world, m.
            point: (n, 3) in the world, m.
            place: (n, 4) what carries the point, rows of ``Goal.start_place``.
        """
        if self.detour:
            distance = distance + self.detour * detour(view, hand, point, place)
        if self.way:
            distance = approach(view, distance, self.way)
        if self.shut:
            distance = distance + self.shut * door_moved(view)
        return distance


def fan_of(sim: Simulator, env_id: int, point: np.ndarray) -> np.ndarray:
    """Measure how far it is from a (3,) point to walls and furniture all around, a little above it.

    Returns:
        (``FAN``,) float64, counter-clockwise from x of the world, m; ``inf`` where nothing is.

    Raises:
        UserError: the engine casts no rays.
    """
    room = float(sim.cast(point[None], np.array([0.0, 0.0, 1.0]), env_id)[0])
    eye = point + np.array([0.0, 0.0, min(_LIFT, room / 2.0)])
    angles = 2.0 * np.pi * np.arange(FAN) / FAN
    rays = np.stack([np.cos(angles), np.sin(angles), np.zeros(FAN)], axis=1)
    return np.array([sim.cast(eye[None], ray, env_id)[0] for ray in rays])


def with_way(sim: Simulator, env_id: int, row: GoalRow, point: np.ndarray) -> GoalRow:
    """Return a goal that knows what decides the way to its (3,) point in the present state.

    Raises:
        UserError: the engine casts no rays.
    """
    fan, parts = fan_of(sim, env_id, point), tuple(open_parts(sim, env_id))
    return replace(row, fan=fan, parts=parts)


def _before(
    speed_map: SpeedMap, goal: np.ndarray, fan: np.ndarray, around: float
) -> tuple[Any, ...]:
    """Return low corner, spacing and table of the way to where a robot can reach ``goal``."""
    window = _window(speed_map, goal, around)
    gap = speed_map.nodes[window] - goal
    far = np.linalg.norm(gap, axis=-1)
    towards = np.rint(np.arctan2(gap[..., 1], gap[..., 0]) / (2.0 * np.pi) * FAN).astype(int)
    seen = speed_map.free[window] & (far <= fetch.FARTHEST_REACH) & (fan[towards % FAN] >= far)
    if not seen.any():
        seen = speed_map.free[window]
    ends = seen & (far <= max(fetch.REACH, float(far[seen].min(initial=np.inf)) + _BEYOND))
    length = speed_map.time_to(ends, window) if ends.any() else np.zeros(far.shape)
    length = length.ravel()[nearest_known(np.isfinite(length))]
    # Half as many nodes: hundreds of these tables are kept.
    table = _table(length, speed_map.aside[window])[::2, ::2].astype(np.float32)
    return speed_map.nodes[window][0, 0], 2.0 * RESOLUTION, table


def _window(speed_map: SpeedMap, goal: np.ndarray, around: float) -> tuple[slice, slice]:
    """Return the nodes of the square around ``goal``; of a goal off the map around its edge."""
    goal = np.clip(goal, speed_map.low, speed_map.nodes[-1, -1])
    low = np.maximum(((goal - around - speed_map.low) / RESOLUTION).astype(int), 0)
    high = ((goal + around - speed_map.low) / RESOLUTION).astype(int) + 1
    window = slice(low[0], max(high[0], low[0] + 4)), slice(low[1], max(high[1], low[1] + 4))
    return window if speed_map.free[window].any() else (slice(None), slice(None))


def _table(length: np.ndarray, aside: np.ndarray) -> np.ndarray:
    """Return (nx, ny, 3): the length of the way, and where it leads.

    A base stops at the edge of free space and does not slide along it, so there the way leads a
    little away from it.

    Args:
        length: (nx, ny) of the way, m.
        aside: (nx, ny, 2) of the map.
    """
    way = -np.stack(np.gradient(length, RESOLUTION), axis=-1)
    way += _LEAN * np.linalg.norm(way, axis=-1, keepdims=True) * aside
    return np.concatenate([length[..., None], way], axis=-1)


def _speed_map(navigation: Navigation) -> SpeedMap:
    low, high = navigation.bounds
    return SpeedMap(navigation, low - _BORDER, high + _BORDER, _PACE)
