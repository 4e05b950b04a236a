"""A whole rearrangement by one policy (habitat-lab ``RearrangeCompositeTask-v0``, one object)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Progress
from skills.tasks.course import EVERYWHERE, Course, Lead
from skills.tasks.starts import (
    NoStartError,
    Spawn,
    Start,
    draw_target,
    free_poses,
    open_around,
    put_near,
)
from skills.tasks.state import GoalRow, View
from skills.tasks.stops import StoppedTask
from skills.tasks.tolerances import OBJECT_AT, RELEASED_AT
from tpsrl.geometry.arrays import Array
from tpsrl.sim.door import Simulator


@dataclass(frozen=True)
class RearrangeProgress(Progress):
    """What is remembered from the last step.

    Attributes:
        distance: (n,) end effector to object, or object to goal while it is held, m.
        leg: (n,) int64, ``Goal.leg`` that this was measured in.
        held: (n,) bool, the object was held.
        empty: (n,) bool, nothing was held.
        picked: (n,) bool, it has been held in this episode.
        arrived: (n,) bool, it has been at its goal in this episode.
        released: (n,) bool, it has been let go there in this episode.
    """

    distance: Array
    leg: Array
    held: Array
    empty: Array
    picked: Array
    arrived: Array
    released: Array


@dataclass(frozen=True)
class RearrangeTask(StoppedTask[RearrangeProgress]):
    """Drive to the object, grasp it, bring it to its goal, let go and stop.

    The reward is habitat-lab's ``MoveObjectsReward``: first nearer to the object, then the object
    nearer to its goal. Success is the benchmark's: the object is at its goal and nothing is held
    when stop is called. It is about where the object lies, and as soon as something is held about
    where that belongs, for good: sensors and rewards of a way, and of what stands around, are of
    that point. The robot senses that it holds something, and not what: so ``way`` and ``shut`` go
    with ``mistakes_end``.

    Attributes:
        distance_reward: per metre.
        detour, way, shut: see :class:`~skills.tasks.pick.PickTask`, here to the object and then to
            the goal.
        suction_penalty: see there.
        pick_reward: when the object is first held.
        place_reward: when the object is first at ``place_threshold`` from its goal.
        place_threshold: m.
        release_reward: when the object is first let go within ``goal_threshold`` of its goal.
        goal_threshold: farthest object from its goal at success, m.
        mistakes_end: whether another object or a handle in the hand, or an object that is let go
            away from its goal, ends the episode, and takes ``mistake_cost``: for training.
        mistake_cost: whatever is mastered, unlike ``mistake_penalty``.
        later: share of the episodes that begin later in the task, near the object, or near the goal
            with the object in the hand: for training from scratch.
    """

    distance_reward: float = 1.0
    detour: float = 0.0
    way: float = 0.0
    shut: float = 0.0
    suction_penalty: float = 0.0
    pick_reward: float = 1.0
    place_reward: float = 1.0
    place_threshold: float = RELEASED_AT
    release_reward: float = 0.0
    goal_threshold: float = OBJECT_AT
    mistakes_end: bool = False
    mistake_cost: float = 2.0
    later: float = 0.0

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: anywhere."""
        call = SkillCall(self.name, target=draw_target(sim, env_id, rng, self.name))
        row = self.goal_for(sim, env_id, call)
        if self.later and rng.random() < self.later:
            return self._later(sim, env_id, rng, call, row)
        for pose in free_poses(sim, env_id, rng):
            return Start(replace(row, start_pose=pose), call)
        raise NoStartError("no free start in the apartment")

    def _later(
        self, sim: Simulator, env_id: int, rng: Generator, call: SkillCall, row: GoalRow
    ) -> Start:
        """Begin as Pick or Place does, as likely the one as the other."""
        holding = bool(rng.random() < 0.5)
        if open_around(sim, env_id, row.position if holding else row.object_start):
            row = self.goal_for(sim, env_id, call)  # the drawer may have taken it along
        point = row.position if holding else row.object_start
        pose = put_near(sim, env_id, rng, point[:2], "hab")
        if holding:
            sim.snap_object(row.target, env_id)
            row = self.go_on(sim, env_id, row)
        return Start(replace(row, start_pose=pose), call)

    def about(self, goal: GoalRow) -> np.ndarray:
        """Where the object lies, then where it belongs."""
        return goal.position if goal.leg else goal.object_start

    def carrier(self, goal: GoalRow) -> np.ndarray:
        """What carries that point."""
        return goal.goal_place if goal.leg else goal.start_place

    def course(self, sim: Simulator, env_id: int, goal: GoalRow) -> Course:
        """Return the way to where that point can be reached, from anywhere."""
        return Course(sim.scene(env_id), self.about(goal), goal.fan, goal.parts, EVERYWHERE)

    def goal_for(self, sim: Simulator, env_id: int, call: SkillCall) -> GoalRow:
        """See :meth:`Task.goal_for`."""
        row = super().goal_for(sim, env_id, call)
        held = int(np.asarray(sim.state().held_object)[env_id]) >= 0
        return self.go_on(sim, env_id, row) if held else row

    def goes_on(self, view: View) -> Array:
        """Something is held for the first time."""
        return view.holds & (view.goal.leg == 0)

    def begin(self, view: View) -> RearrangeProgress:
        """See :meth:`Task.begin`."""
        return RearrangeProgress(
            **self.start_fields(view),
            distance=self._distance(view),
            leg=view.goal.leg,
            held=view.holds_target,
            empty=~view.holds,
            picked=view.holds_target,
            arrived=view.goal_distance < self.place_threshold,
            released=self.never(view),
        )

    def advance(self, view: View, progress: RearrangeProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp, held = view.xp, view.holds_target
        distance = self._distance(view)
        same = (held == progress.held) & (held | ~progress.arrived)
        if self.way or self.detour or self.shut:  # they are measured along another way
            same = same & (view.goal.leg == progress.leg)
        there = view.goal_distance < self.place_threshold
        done = (view.goal_distance < self.goal_threshold) & ~view.holds
        left = done & progress.held
        reward = (
            self.distance_reward * xp.where(same, progress.distance - distance, 0.0)
            + self.pick_reward * (held & ~progress.picked)
            + self.place_reward * (there & ~progress.arrived)
            + self.release_reward * (left & ~progress.released)
        )
        if self.suction_penalty:
            reward = reward - self.suction_penalty * view.sucks_in_vain
        failed = stop & ~done
        reward, ends = self.after_stops(reward, failed)
        if self.mistakes_end:
            other = view.holds & ~held & progress.empty
            lost = progress.held & ~held & ~done
            reward = reward - self.mistake_cost * (other | lost)
            ends |= {"wrong_object": other, "wrong_release": lost}
        return Advance(
            {
                "distance": distance,
                "leg": view.goal.leg,
                "held": held,
                "empty": ~view.holds,
                "picked": progress.picked | held,
                "arrived": progress.arrived | there,
                "released": progress.released | left,
            },
            reward,
            stop & done,
            ends,
            {"object_distance": view.object_distance, "goal_distance": view.goal_distance},
            failed,
        )

    def _distance(self, view: View) -> Array:
        xp, held, goal = view.xp, view.holds_target, view.goal
        distance = xp.where(held, view.goal_distance, view.object_distance)
        carried = held[:, None]
        hand = xp.where(carried, view.object_pos, view.state.ee_pos)
        point = xp.where(carried, goal.position, view.object_pos)
        place = xp.where(carried, goal.goal_place, goal.start_place)
        return Lead(self.detour, self.way, self.shut).along(view, distance, hand, point, place)
