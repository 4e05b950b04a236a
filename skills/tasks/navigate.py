"""Navigate (habitat-lab ``NavToObjTask-v0``) and PointNav (DD-PPO)."""

from __future__ import annotations

from dataclasses import dataclass

from skills.tasks.base import Advance, Progress, Task
from skills.tasks.state import View
from tpsrl.geometry.arrays import Array, change, norm, wrap


@dataclass(frozen=True)
class NavigateProgress(Progress):
    """Attributes: ``distance`` (n,) m and ``angle`` (n,) rad at the last step, NaN for none."""

    distance: Array
    angle: Array


@dataclass(frozen=True)
class NavigateTask(Task[NavigateProgress]):
    """Drive near a place, face it and stop.

    Attributes:
        distance_reward: per metre nearer to the goal.
        turn_reward: per radian towards the goal, within ``turn_distance``; where
            ``needs_geodesic="course"`` towards the way to it until ``facing_distance``.
        turn_distance: m.
        facing_distance: m.
        success_distance: farthest base from the goal at success, m.
        success_angle: largest bearing at success, rad.
        min_start_distance: least straight distance to the goal at the start, m.
        holding_probability: of starting with the target in the hand; the goal is then its goal.
        failed_stop_ends: whether a stop without success ends the episode. False is for training
            from scratch: otherwise stop is unlearned, or ends episodes, before driving is learned.
        failed_stop_penalty: lost at such a stop.
    """

    distance_reward: float = 1.0
    turn_reward: float = 1.0
    turn_distance: float = 3.0
    facing_distance: float = 1.4
    success_distance: float = 1.5
    success_angle: float = 0.261799
    min_start_distance: float = 3.0
    holding_probability: float = 0.167
    failed_stop_ends: bool = True
    failed_stop_penalty: float = 0.0

    def begin(self, view: View) -> NavigateProgress:
        """See :meth:`Task.begin`."""
        near = view.heading[0] < self.turn_distance
        return NavigateProgress(
            **self.start_fields(view),
            distance=self._distance(view),
            angle=view.xp.where(near, self._turn(view), float("nan")),
        )

    def grip(self, view: View, command: Array) -> Array:
        """What is held stays held; nothing is grasped on the way."""
        return view.xp.where(view.holds, 1.0, -1.0)

    def advance(self, view: View, progress: NavigateProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp = view.xp
        flat, bearing = view.heading
        distance, angle = self._distance(view), xp.abs(bearing)
        near, turn = flat < self.turn_distance, self._turn(view)
        turned = xp.where(near, change(xp, progress.angle, turn), 0.0)
        reward = self.distance_reward * (progress.distance - distance) + self.turn_reward * turned
        there = (flat < self.success_distance) & (angle < self.success_angle)
        failed = stop & ~there
        if self.failed_stop_penalty:
            reward = reward - self.failed_stop_penalty * failed
        return Advance(
            {"distance": distance, "angle": xp.where(near, turn, progress.angle)},
            reward,
            there & stop,
            {"stop": failed} if self.failed_stop_ends else {},
            {"distance": flat, "angle": angle},
        )

    def _distance(self, view: View) -> Array:
        return view.heading[0] if view.geodesic is None else view.geodesic

    def _turn(self, view: View) -> Array:
        """Return the (n,) angle, rad, by which the base still has to turn."""
        xp, (flat, bearing) = view.xp, view.heading
        facing = xp.abs(bearing)
        if view.course is None:
            return facing
        way = xp.atan2(view.course[:, 2], view.course[:, 1])
        along = xp.abs(wrap(xp, way - view.state.base_pose[:, 2]))
        return xp.where(flat < self.facing_distance, facing, along)


@dataclass(frozen=True)
class PathProgress(Progress):
    """What is remembered from the last step.

    Attributes:
        distance: (n,) geodesic distance to the goal, m.
        place: (n, 2) base position.
        path: (n,) length driven so far, m.
    """

    distance: Array
    place: Array
    path: Array


@dataclass(frozen=True)
class PointNavTask(Task[PathProgress]):
    """Drive to a point and stop within ``success_distance`` (DD-PPO, section 5).

    Attributes:
        distance_reward: per metre of geodesic distance.
        spl_reward: times SPL at success.
        success_distance: farthest geodesic distance at success, m.
        min_start_distance: least geodesic distance to the goal at the start, m.
    """

    distance_reward: float = 1.0
    spl_reward: float = 2.5
    success_distance: float = 0.2
    min_start_distance: float = 1.0

    def begin(self, view: View) -> PathProgress:
        """See :meth:`Task.begin`."""
        place = view.state.base_pose[:, :2]
        zero = view.xp.zeros_like(place[:, 0])
        return PathProgress(
            **self.start_fields(view), distance=view.geodesic, place=place, path=zero
        )

    def grip(self, view: View, command: Array) -> Array:
        """Nothing is grasped on the way."""
        return view.xp.full_like(command, -1.0)

    def advance(self, view: View, progress: PathProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp, distance = view.xp, view.require_geodesic()
        place = view.state.base_pose[:, :2]
        path = progress.path + norm(xp, place - progress.place)
        success = stop & (distance < self.success_distance)
        shortest = view.goal.scale
        spl = success * shortest / xp.maximum(xp.maximum(path, shortest), xp.full_like(path, 1e-6))
        reward = self.distance_reward * (progress.distance - distance)
        reward = reward + self.spl_reward * spl
        return Advance(
            {"distance": distance, "place": place, "path": path},
            reward,
            success,
            {"stop": stop},
            {"distance": distance, "spl": spl, "path_length": path},
        )
