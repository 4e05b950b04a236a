"""Navigate (habitat-lab ``NavToObjTask-v0``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Progress
from skills.tasks.course import EVERYWHERE, Course, with_way
from skills.tasks.goals import front_point, handle_goal, object_goal
from skills.tasks.outlines import open_door
from skills.tasks.places import container_of, door_moved
from skills.tasks.starts import NoStartError, Spawn, Start, draw_target, free_poses
from skills.tasks.state import GoalRow, View
from skills.tasks.stops import StoppedTask
from skills.tasks.tolerances import ARRIVED, FACING, ROBOT_AT
from tpsrl.geometry.arrays import Array, change, wrap
from tpsrl.sim.door import Simulator


@dataclass(frozen=True)
class NavigateProgress(Progress):
    """Attributes: ``distance`` (n,) m and ``angle`` (n,) rad at the last step, NaN for none."""

    distance: Array
    angle: Array


@dataclass(frozen=True)
class NavigateTask(StoppedTask[NavigateProgress]):
    """Drive near a place, face it and stop.

    Attributes:
        distance_reward: per metre nearer to the goal.
        turn_reward: per radian towards the goal, within ``turn_distance``; where
            ``needs_geodesic="course"`` towards the way to it until ``facing_distance``.
        turn_distance: m.
        facing_distance: of the way, m.
        left_penalty: lost at a stop that succeeds, per metre of the way that is left beyond
            ``left_slack``; where ``needs_geodesic="course"``.
        left_slack: m.
        most_left: at a stop with more of the way left than this, m, the goal is near and the next
            skill does not reach it, from behind a wall or an open door: it is one in vain. Where
            ``needs_geodesic="course"``.
        shut: so many metres of distance is one by which the edge of the open door was moved behind
            which the goal lies, or before which the robot shall stand, see
            :func:`skills.tasks.places.door_moved`: the next skill has to reach in there.
        success_distance: farthest base from the goal at success, m.
        success_angle: largest bearing at success, rad.
        min_start_distance: least straight distance to the goal at the start, m.
        holding_probability: of starting with the target in the hand; the goal is then its goal.
    """

    distance_reward: float = 1.0
    turn_reward: float = 1.0
    turn_distance: float = 3.0
    facing_distance: float = 0.6
    left_penalty: float = 0.0
    left_slack: float = 0.5
    most_left: float = math.inf
    shut: float = 0.0
    success_distance: float = ARRIVED
    success_angle: float = FACING
    min_start_distance: float = 3.0
    holding_probability: float = 0.167

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: far from the goal, sometimes holding the target."""
        target = draw_target(sim, env_id, rng, self.name)
        holding = bool(rng.random() < self.holding_probability)
        call = SkillCall(self.name, target=target, place="goal" if holding else "start")
        row = self.goal_for(sim, env_id, call)

        def far(xy: np.ndarray) -> bool:
            gap = np.linalg.norm(np.append(xy, 0.0) - row.position)
            return bool(gap > self.min_start_distance)

        for pose in free_poses(sim, env_id, rng, far):
            if holding:
                sim.snap_object(row.target, env_id)
            return Start(replace(row, start_pose=pose), call)
        raise NoStartError(f"no free start {self.min_start_distance} m away from the goal")

    def goal_for(self, sim: Simulator, env_id: int, call: SkillCall) -> GoalRow:
        """See :meth:`Task.goal_for`: a target, or the handle of a joint, or a point before it."""
        if call.target is not None or call.joint is None:
            frozen = self.frozen_start
            row = object_goal(sim, env_id, call, frozen_start=frozen, to_object=True)
            behind = container_of(sim, env_id, row.position)
        else:
            row = handle_goal(sim, env_id, call.joint)
            behind = -1
            if call.place == "front":
                row = replace(row, position=front_point(sim, env_id, call.joint))
                behind = row.joint
        if not self.shows_way:
            return row
        row = replace(row, container=behind, door=open_door(sim, env_id, behind))
        return with_way(sim, env_id, row, row.position)

    def course(self, sim: Simulator, env_id: int, goal: GoalRow) -> Course:
        """Return the way to where the goal can be reached, from anywhere."""
        return Course(sim.scene(env_id), goal.position, goal.fan, goal.parts, EVERYWHERE)

    def told(self, goal: GoalRow) -> np.ndarray:
        """See :meth:`Task.told`: distance and bearing say where it is on the map, not how high."""
        return np.append(goal.position[:2], np.inf)

    def stop_counts(self, view: View) -> Array:
        """It counts where a plan takes the robot to be at its goal (VER, appendix B)."""
        return view.heading[0] <= ROBOT_AT

    def begin(self, view: View) -> NavigateProgress:
        """See :meth:`Task.begin`."""
        near = view.heading[0] < self.turn_distance
        return NavigateProgress(
            **self.start_fields(view),
            distance=self._left(view),
            angle=view.xp.where(near, self._turn(view), float("nan")),
        )

    def advance(self, view: View, progress: NavigateProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp = view.xp
        flat, bearing = view.heading
        distance, angle = self._left(view), xp.abs(bearing)
        near, turn = flat < self.turn_distance, self._turn(view)
        turned = xp.where(near, change(xp, progress.angle, turn), 0.0)
        reward = self.distance_reward * (progress.distance - distance) + self.turn_reward * turned
        there = (flat < self.success_distance) & (angle < self.success_angle)
        if self.needs_geodesic == "course":
            there = there & (distance <= self.most_left)
        failed = stop & ~there
        reward, ends = self.after_stops(reward, failed)
        if self.left_penalty and self.needs_geodesic == "course":
            lost = self.left_penalty * (distance - self.left_slack)
            reward = reward - xp.where(there & stop & (lost > 0.0), lost, 0.0)
        return Advance(
            {"distance": distance, "angle": xp.where(near, turn, progress.angle)},
            reward,
            there & stop,
            ends,
            {"distance": flat, "angle": angle},
            failed,
        )

    def _left(self, view: View) -> Array:
        distance = self._distance(view)
        return distance + self.shut * door_moved(view) if self.shut else distance

    def _distance(self, view: View) -> Array:
        return view.heading[0] if view.geodesic is None else view.geodesic

    def _turn(self, view: View) -> Array:
        """Return the (n,) angle, rad, by which the base still has to turn."""
        xp, facing = view.xp, view.xp.abs(view.heading[1])
        if view.course is None or self.needs_geodesic != "course":
            return facing
        way = xp.atan2(view.course[:, 2], view.course[:, 1])
        along = xp.abs(wrap(xp, way - view.state.base_pose[:, 2]))
        return xp.where(self._distance(view) < self.facing_distance, facing, along)
