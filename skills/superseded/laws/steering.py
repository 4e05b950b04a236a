"""How a law drives: along a way, its speed a smooth function of the heading error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skills.motion.moves import GiveUpError
from skills.motion.view import look
from skills.tasks.travel import RESOLUTION, Pace, SpeedMap
from tpsrl.geometry.rotations import wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR
from tpsrl.sim.door import Navigation, Simulator

_PACE = Pace(comfort=0.5, slowest=0.2, creep=0.25)
_EIGHT = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)])

_TURN_ONLY, _FULL_SPEED = 0.7, 0.25
"""A law drives not at all, and with full speed, at these heading errors, rad: in between the speed
changes little by little, which is easier to imitate than a switch."""
_SOFT_TURN = 1.5
"""A law turns slower than it could once this many steps of turning are left."""


class LawField:
    """Time to a goal for a robot that is slow near obstacles, on a grid.

    Args:
        navigation: free space.
        goal: (2,) a free point.
        start: (2,) must lie inside the grid.
        extent: (2, 2) corners of the region looked at, m.
        radius: if positive, every free point within it is a goal and ``goal`` need not be free, m.
        margin: nearer to obstacles than this it is slower still, and the straight line to a point
            ahead keeps this distance where the path does, m.
    """

    def __init__(
        self,
        navigation: Navigation,
        goal: np.ndarray,
        start: np.ndarray,
        extent: np.ndarray,
        radius: float = 0.0,
        margin: float = 0.0,
    ) -> None:
        self.navigation, self.goal, self.radius, self.margin = navigation, goal, radius, margin
        low = np.minimum(extent[0], np.minimum(goal, start)) - 0.3
        high = np.maximum(extent[1], np.maximum(goal, start)) + 0.3
        speed_map = SpeedMap(navigation, low, high, replace(_PACE, margin=margin))
        self._low, self._room = speed_map.low, speed_map.clearance
        self._shape = np.array(self._room.shape)
        edge = radius if radius > 0.0 else 1.5 * RESOLUTION
        self._time = speed_map.travel_time(goal, edge, only_free=radius > 0.0)

    def lookahead(self, here: np.ndarray, distance: float) -> np.ndarray | None:
        """Return a (2,) point ahead on the best path, straight in sight, ``None`` if cut off."""
        gap = np.linalg.norm(self.goal - here)
        if self.radius <= 0.0 and gap <= distance and self._sees(here, self.goal):
            return self.goal
        node = self._enter(here)
        if node is None:
            return None
        trail, walked = [node], 0.0
        while walked < distance and self._time[tuple(node)] > 0.0:
            after = node + _EIGHT
            after = after[np.all((after >= 0) & (after < self._shape), axis=1)]
            run = np.linalg.norm(after - node, axis=1)
            drop = (self._time[tuple(node)] - self._time[after[:, 0], after[:, 1]]) / run
            best = int(np.argmax(drop))
            if not drop[best] > 0.0:
                break
            node, walked = after[best], walked + float(run[best]) * RESOLUTION
            trail.append(node)
        points = [self._low + RESOLUTION * node for node in reversed(trail)]
        points = [point for point in points if np.linalg.norm(point - here) > 1e-6]
        if self.margin > 0.0:
            least = np.minimum.accumulate([self._room[tuple(node)] for node in trail])[::-1]
            for point, room in zip(points, least, strict=False):
                if self._sees(here, point, float(room)):
                    return point
        return next((point for point in points if self._sees(here, point)), None)

    def _enter(self, here: np.ndarray) -> np.ndarray | None:
        centre = np.round((here - self._low) / RESOLUTION).astype(int)
        for reach in (1, 2, 5):
            low = np.maximum(centre - reach, 0)
            high = np.minimum(centre + reach + 1, self._shape)
            index = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), -1)
            index = index.reshape(-1, 2)
            times = self._time[index[:, 0], index[:, 1]]
            for k in np.argsort(times, kind="stable"):
                if not np.isfinite(times[k]):
                    break
                if self._sees(here, self._low + RESOLUTION * index[k]):
                    return index[k]
        return None

    def _sees(self, start: np.ndarray, end: np.ndarray, room: float = 0.0) -> bool:
        """Return whether the straight line is free, with a margin if the path has that room."""
        wanted = min(self.margin, room)
        if wanted > 0.0:
            count = int(np.linalg.norm(end - start) / RESOLUTION) + 2
            points = np.linspace(start, end, count)[1:]
            index = np.round((points - self._low) / RESOLUTION).astype(int)
            index = np.clip(index, 0, self._shape - 1)
            if self._room[index[:, 0], index[:, 1]].min() < wanted:
                return False
        return bool(np.linalg.norm(self.navigation.clamp_motion(start, end) - end) < 1e-6)


def field_around(
    sim: Simulator,
    env_id: int,
    navigation: Navigation,
    goal: np.ndarray,
    radius: float = 0.0,
    margin: float = 0.0,
) -> LawField:
    """Return the field of ways from anywhere in the apartment to within ``radius`` of (2,) goal.

    Args:
        sim: the simulator.
        env_id: its world.
        navigation: free space.
        goal: need not be free.
        radius: see :class:`LawField`.
        margin: see there.
    """
    here = look(sim, env_id).base[:2]
    poses = np.array(list(sim.scene(env_id).furniture_pose.values())).reshape(-1, 3)
    points = np.concatenate([poses[:, :2], here[None]])
    extent = np.array([points.min(axis=0) - 0.5, points.max(axis=0) + 0.5])
    return LawField(navigation, goal, here, extent, radius, margin)


def pursue(field: LawField, base: np.ndarray, distance: float) -> tuple[float, float]:
    """Steer towards a point ahead on the way: pure pursuit.

    Args:
        field: the way.
        base: (3,) pose of the robot.
        distance: how far along the way that point lies, m.

    Returns:
        The heading error, rad, left positive, and the part of full speed it allows, 0 to 1.

    Raises:
        GiveUpError: no way leads from here.
    """
    ahead = field.lookahead(base[:2], distance)
    if ahead is None:
        raise GiveUpError("no path to the target")
    gap = ahead - base[:2]
    error = wrap(float(np.arctan2(gap[1], gap[0])) - base[2])
    eager = np.clip((_TURN_ONLY - abs(error)) / (_TURN_ONLY - _FULL_SPEED), 0.0, 1.0)
    return error, float(eager)


def soft_turn(angle: float) -> float:
    """Return the turning action; slower near the end, which is easier to imitate."""
    return float(np.clip(angle / (_SOFT_TURN * BASE_DELTA_ANGULAR), -1.0, 1.0))
