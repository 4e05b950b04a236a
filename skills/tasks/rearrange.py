"""A whole rearrangement by one policy (habitat-lab ``RearrangeCompositeTask-v0``, one object)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Progress, Task
from skills.tasks.starts import NoStartError, Spawn, Start, draw_target, free_poses
from skills.tasks.state import View
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
    """

    distance: Array
    held: Array
    picked: Array
    arrived: Array


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
        goal_threshold: farthest object from its goal at success, m.
    """

    distance_reward: float = 1.0
    pick_reward: float = 1.0
    place_reward: float = 1.0
    place_threshold: float = RELEASED_AT
    goal_threshold: float = OBJECT_AT

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: anywhere."""
        call = SkillCall(self.name, target=draw_target(sim, env_id, rng, self.name))
        row = self.goal_for(sim, env_id, call)
        for pose in free_poses(sim, env_id, rng):
            return Start(replace(row, start_pose=pose), call)
        raise NoStartError("no free start in the apartment")

    def begin(self, view: View) -> RearrangeProgress:
        """See :meth:`Task.begin`."""
        return RearrangeProgress(
            **self.start_fields(view),
            distance=self._distance(view),
            held=view.holds_target,
            picked=view.holds_target,
            arrived=view.goal_distance < self.place_threshold,
        )

    def advance(self, view: View, progress: RearrangeProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp, held = view.xp, view.holds_target
        distance = self._distance(view)
        same = (held == progress.held) & (held | ~progress.arrived)
        there = view.goal_distance < self.place_threshold
        reward = (
            self.distance_reward * xp.where(same, progress.distance - distance, 0.0)
            + self.pick_reward * (held & ~progress.picked)
            + self.place_reward * (there & ~progress.arrived)
        )
        success = stop & (view.goal_distance < self.goal_threshold) & ~view.holds
        return Advance(
            {
                "distance": distance,
                "held": held,
                "picked": progress.picked | held,
                "arrived": progress.arrived | there,
            },
            reward,
            success,
            {"stop": stop},
            {"object_distance": view.object_distance, "goal_distance": view.goal_distance},
        )

    def _distance(self, view: View) -> Array:
        return view.xp.where(view.holds_target, view.goal_distance, view.object_distance)
