"""Driving across the apartment: shortest paths that keep away from furniture where they can."""

from __future__ import annotations

import numpy as np

from skills.motion.moves import Actions, GiveUpError, at_pose, move, still
from skills.motion.view import RobotView, WhatIf, look, what_if
from skills.tasks.travel import RESOLUTION, Pace, SpeedMap
from tpsrl.geometry.rotations import to_base, turn, unit, wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.sim.door import ACTION_BASE, Simulator
from tpsrl.sim.scene import Navigation

_PACE = Pace(comfort=0.5, slowest=0.2)
_LOOKAHEAD = 0.35
_SMALL_TURN = 0.3
"""A turn smaller than this is left to the steering, rad."""
_SWEEP_STEP = 0.17
_RUN_UP = (0.7, 0.55, 0.4)
"""The robot turns this far behind its goal and drives the rest straight, m."""
_MOST_STEPS = 290
"""Of a way, before the robot goes straight for its end."""
_EIGHT = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)])


class ComfortField:
    """Time to a goal for a robot that is slow near obstacles, on a grid.

    Args:
        navigation: free space.
        goal: (2,) a free point.
        start: (2,) must lie inside the grid.
        extent: (2, 2) corners of the region looked at, m.
    """

    def __init__(
        self, navigation: Navigation, goal: np.ndarray, start: np.ndarray, extent: np.ndarray
    ) -> None:
        self.navigation, self.goal = navigation, goal
        low = np.minimum(extent[0], np.minimum(goal, start)) - 0.3
        high = np.maximum(extent[1], np.maximum(goal, start)) + 0.3
        speed_map = SpeedMap(navigation, low, high, _PACE)
        self._low = speed_map.low
        self._shape = np.array(speed_map.free.shape)
        self._time = speed_map.travel_time(goal, 1.5 * RESOLUTION, only_free=False)

    def lookahead(self, here: np.ndarray, distance: float) -> np.ndarray | None:
        """Return a (2,) point ahead on the best path, straight in sight, ``None`` if cut off."""
        gap = np.linalg.norm(self.goal - here)
        if gap <= distance and self._sees(here, self.goal):
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

    def _sees(self, start: np.ndarray, end: np.ndarray) -> bool:
        """Return whether the straight line is free."""
        return bool(np.linalg.norm(self.navigation.clamp_motion(start, end) - end) < 1e-6)


def field_around(
    sim: Simulator, env_id: int, navigation: Navigation, goal: np.ndarray
) -> ComfortField:
    """Return the field of ways from anywhere in the apartment to a (2,) goal."""
    here = look(sim, env_id).base[:2]
    poses = np.array(list(sim.scene(env_id).furniture_pose.values())).reshape(-1, 3)
    points = np.concatenate([poses[:, :2], here[None]])
    extent = np.array([points.min(axis=0) - 0.5, points.max(axis=0) + 0.5])
    return ComfortField(navigation, goal, here, extent)


def drive_to(
    sim: Simulator,
    env_id: int,
    navigation: Navigation,
    goal: np.ndarray,
    near: float = 0.0,
) -> Actions:
    """Drive along a comfortable path to a (3,) pose.

    Args:
        sim: the simulator.
        env_id: its world.
        navigation: free space, open doors taken out.
        goal: (3,) pose.
        near: a robot this near to the goal only turns, m.

    Raises:
        GiveUpError: there is no path, or the base is blocked.
    """
    view = look(sim, env_id)
    if np.linalg.norm(goal[:2] - view.base[:2]) < near:
        goal = np.append(view.base[:2], goal[2])
    before = _run_up(navigation, view.base, goal)
    if before is not None:
        yield from _follow(sim, env_id, navigation, before)
        yield from move(sim, env_id, base=_facing(look(sim, env_id).base, before), limit=60)
        yield from turn_to(sim, env_id, navigation, float(before[2]))
    else:
        yield from _follow(sim, env_id, navigation, goal)
        view = look(sim, env_id)
        if np.linalg.norm(goal[:2] - view.base[:2]) > 0.02:
            facing = _facing(view.base, goal)
            yield from turn_to(sim, env_id, navigation, float(facing[2]))
            yield from move(sim, env_id, base=_facing(look(sim, env_id).base, goal), limit=60)
        yield from turn_to(sim, env_id, navigation, float(goal[2]))
    yield from move(sim, env_id, base=goal, limit=120)


def turn_to(sim: Simulator, env_id: int, navigation: Navigation, yaw: float) -> Actions:
    """Turn in place to a yaw, the way round that keeps the arm clear of things.

    Args:
        sim: the simulator.
        env_id: its world.
        navigation: free space.
        yaw: rad.
    """
    view = look(sim, env_id)
    short = wrap(yaw - view.base[2])
    if abs(short) < _SMALL_TURN:
        return
    long = short - 2 * np.pi * np.sign(short)
    left = short
    if _crowding(navigation, view, short) > 0:
        with what_if(sim, env_id) as world:
            costs = [_sweep_cost(navigation, view, world, a) for a in (short, long)]
        left = short if costs[0] <= costs[1] + 1 else long
    while abs(left) > 1e-3:
        action = still(look(sim, env_id))
        step = float(np.clip(left / BASE_DELTA_ANGULAR, -1.0, 1.0))
        action[ACTION_BASE] = np.array([0.0, step])
        left -= step * BASE_DELTA_ANGULAR
        yield action


def _sweep(view: RobotView, angle: float) -> np.ndarray:
    """Return the (k,) yaws that a turn by ``angle`` passes."""
    return view.base[2] + np.linspace(0.0, angle, max(int(abs(angle) / _SWEEP_STEP), 1) + 1)[1:]


def _crowding(navigation: Navigation, view: RobotView, angle: float) -> int:
    """Count the yaws of a turn at which furniture is near the cup."""
    reach = to_base(view.base, view.tip)[:2]
    points = np.array([view.base[:2] + turn(a) @ (1.1 * reach) for a in _sweep(view, angle)])
    return int(np.sum(~navigation.is_navigable(points)))


def _sweep_cost(navigation: Navigation, view: RobotView, world: WhatIf, angle: float) -> float:
    """Return how bad a turn is: touches first, then closeness to things, then length."""
    poses = [np.append(view.base[:2], a) for a in _sweep(view, angle)]
    touches = sum(world.touches(pose, view.qpos) for pose in poses)
    near = 0.3 * _crowding(navigation, view, angle) if view.holding else 0.0
    return 3.0 * touches + near + abs(angle)


def _facing(base: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the goal pose with the yaw that the robot has when it drives there straight."""
    gap = goal[:2] - base[:2]
    if np.hypot(*gap) < 0.02:
        return np.append(goal[:2], base[2])
    bearing = float(np.arctan2(gap[1], gap[0]))
    backwards = abs(wrap(bearing - base[2])) > np.pi / 2 and np.hypot(*gap) < 0.8
    return np.append(goal[:2], wrap(bearing + np.pi) if backwards else bearing)


def _run_up(navigation: Navigation, base: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
    """Return a pose straight behind the goal to turn at, where the arm has room to swing.

    ``None`` if the robot comes from there anyway, is near, or no such pose has more room.
    """
    gap = goal[:2] - base[:2]
    if np.hypot(*gap) < _RUN_UP[-1] or abs(wrap(goal[2] - np.arctan2(gap[1], gap[0]))) < 0.3:
        return None
    best, least = None, _blocked_around(navigation, goal[:2])
    for back in _RUN_UP:
        pose = goal - back * np.append(unit(goal[2]), 0.0)
        if not navigation.is_navigable(pose[:2]):
            continue
        end = navigation.clamp_motion(pose[:2], goal[:2])
        blocked = _blocked_around(navigation, pose[:2])
        if np.linalg.norm(end - goal[:2]) < 1e-6 and blocked < least:
            best, least = pose, blocked
    return best


def _blocked_around(navigation: Navigation, xy: np.ndarray) -> int:
    """Count the directions, of eight, in which the arm has no room."""
    ring = np.array([unit(k * np.pi / 4) for k in range(8)])
    return int(np.sum(~navigation.is_navigable(xy + 0.5 * ring)))


def _follow(sim: Simulator, env_id: int, navigation: Navigation, goal: np.ndarray) -> Actions:
    """Drive along a comfortable path until the rest of the way is short and straight."""
    field: ComfortField | None = None
    backwards = False
    for _ in range(_MOST_STEPS):
        view = look(sim, env_id)
        left = float(np.linalg.norm(goal[:2] - view.base[:2]))
        if at_pose(view.base, goal) or _straight(navigation, view.base, goal, left):
            break
        if field is None:
            field = field_around(sim, env_id, navigation, goal[:2])
        ahead = field.lookahead(view.base[:2], _LOOKAHEAD)
        if ahead is None:
            raise GiveUpError("no path to the place to stand")
        gap = ahead - view.base[:2]
        heading = float(np.arctan2(gap[1], gap[0])) + (np.pi if backwards else 0.0)
        if abs(wrap(heading - view.base[2])) > 0.6:
            yield from turn_to(sim, env_id, navigation, heading)
            continue
        action = still(view)
        action[ACTION_BASE] = _steer(view.base, heading, float(np.hypot(*gap)), backwards)
        if not backwards and _would_touch(sim, env_id, navigation, view, action[ACTION_BASE]):
            backwards = True  # the arm trails behind
            continue
        yield action


def _would_touch(
    sim: Simulator, env_id: int, navigation: Navigation, view: RobotView, drive: np.ndarray
) -> bool:
    """Return whether two steps of a base action bring the arm into contact."""
    yaw = view.base[2] + 2 * drive[1] * BASE_DELTA_ANGULAR
    xy = view.base[:2] + 2 * drive[0] * BASE_DELTA_LINEAR * unit(view.base[2])
    tip = xy + turn(yaw) @ (1.1 * to_base(view.base, view.tip)[:2])
    if navigation.is_navigable(tip):
        return False
    with what_if(sim, env_id) as world:
        pose = np.append(navigation.clamp_motion(view.base[:2], xy), yaw)
        return world.touches(pose, view.qpos) and not world.touches(view.base, view.qpos)


def _straight(navigation: Navigation, base: np.ndarray, goal: np.ndarray, gap: float) -> bool:
    """Return whether the rest of the way is short and straight."""
    end = navigation.clamp_motion(base[:2], goal[:2])
    return gap < 0.7 and bool(np.linalg.norm(end - goal[:2]) < 1e-6)


def _steer(base: np.ndarray, heading: float, distance: float, backwards: bool) -> np.ndarray:
    """Return (2,) base action along a heading: turn first, then drive and turn together."""
    error = wrap(heading - base[2])
    rotate = np.clip(error / BASE_DELTA_ANGULAR, -1.0, 1.0)
    forward = 0.0
    if abs(error) < 0.35:
        forward = min(distance / BASE_DELTA_LINEAR, 1.0) * float(np.cos(error))
    return np.array([-forward if backwards else forward, rotate])
