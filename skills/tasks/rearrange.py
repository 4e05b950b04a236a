"""A whole rearrangement by one policy (habitat-lab ``RearrangeCompositeTask-v0``, one object)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Progress, Task
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
from skills.tasks.tolerances import OBJECT_AT, RELEASED_AT
from tpsrl.geometry.arrays import Array
from tpsrl.sim.door import Simulator


@dataclass(frozen=True)
class RearrangeProgress(Progress):
    """What is remembered from the last step.

    Attributes:
        distance: (n,) end effector to object, or object to goal while it is held, m.
        held: (n,) bool, the object was held.
        picked: (n,) bool, it has been held in this episode.
        arrived: (n,) bool, it has been at its goal in this episode.
        released: (n,) bool, it has been let go there in this episode.
    """

    distance: Array
    held: Array
    picked: Array
    arrived: Array
    released: Array


@dataclass(frozen=True)
class RearrangeTask(Task[RearrangeProgress]):
    """Drive to the object, grasp it, bring it to its goal, let go and stop.

    The reward is habitat-lab's ``MoveObjectsReward``: first nearer to the object, then the object
    nearer to its goal. Success is the benchmark's: the object is at its goal and nothing is held
    when stop is called.

    Attributes:
        distance_reward: per metre.
        pick_reward: when the object is first held.
        place_reward: when the object is first at ``place_threshold`` from its goal.
        place_threshold: m.
        release_reward: when the object is first let go within ``goal_threshold`` of its goal.
        goal_threshold: farthest object from its goal at success, m.
        failed_stop_ends: whether a stop without success ends the episode. False is for training
            from scratch: otherwise stop is unlearned long before it could have succeeded.
        failed_stop_penalty: lost at such a stop.
        later: share of the episodes that begin later in the task, near the object, or near the goal
            with the object in the hand: for training from scratch.
    """

    distance_reward: float = 1.0
    pick_reward: float = 1.0
    place_reward: float = 1.0
    place_threshold: float = RELEASED_AT
    release_reward: float = 0.0
    goal_threshold: float = OBJECT_AT
    failed_stop_ends: bool = True
    failed_stop_penalty: float = 0.0
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
        return Start(replace(row, start_pose=pose), call)

    def about(self, goal: GoalRow) -> np.ndarray:
        """Where the object lies: it comes first."""
        return goal.object_start

    def carrier(self, goal: GoalRow) -> np.ndarray:
        """What the object lies on."""
        return goal.start_place

    def begin(self, view: View) -> RearrangeProgress:
        """See :meth:`Task.begin`."""
        return RearrangeProgress(
            **self.start_fields(view),
            distance=self._distance(view),
            held=view.holds_target,
            picked=view.holds_target,
            arrived=view.goal_distance < self.place_threshold,
            released=self.never(view),
        )

    def advance(self, view: View, progress: RearrangeProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp, held = view.xp, view.holds_target
        distance = self._distance(view)
        same = (held == progress.held) & (held | ~progress.arrived)
        there = view.goal_distance < self.place_threshold
        done = (view.goal_distance < self.goal_threshold) & ~view.holds
        left = done & progress.held
        reward = (
            self.distance_reward * xp.where(same, progress.distance - distance, 0.0)
            + self.pick_reward * (held & ~progress.picked)
            + self.place_reward * (there & ~progress.arrived)
            + self.release_reward * (left & ~progress.released)
        )
        failed = stop & ~done
        if self.failed_stop_penalty:
            reward = reward - self.failed_stop_penalty * failed
        return Advance(
            {
                "distance": distance,
                "held": held,
                "picked": progress.picked | held,
                "arrived": progress.arrived | there,
                "released": progress.released | left,
            },
            reward,
            stop & done,
            {"stop": failed} if self.failed_stop_ends else {},
            {"object_distance": view.object_distance, "goal_distance": view.goal_distance},
            failed,
        )

    def _distance(self, view: View) -> Array:
        return view.xp.where(view.holds_target, view.goal_distance, view.object_distance)
