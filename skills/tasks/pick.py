"""Pick (habitat-lab ``RearrangePickTask-v0``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Progress, Task
from skills.tasks.course import Lead
from skills.tasks.places import kind_of
from skills.tasks.starts import Spawn, Start, draw_target, drop, open_around, put_near
from skills.tasks.state import GoalRow, View
from skills.tasks.tolerances import AT_REST
from tpsrl.geometry.arrays import Array, to_milli
from tpsrl.sim.door import Simulator


@dataclass(frozen=True)
class PickProgress(Progress):
    """Attributes: ``distance`` (n,) m and ``held`` (n,) bool at the last step."""

    distance: Array
    held: Array


@dataclass(frozen=True)
class PickTask(Task[PickProgress]):
    """Grasp the target object and bring the end effector to its resting position.

    Attributes:
        distance_reward: per metre that the end effector comes nearer to the object, then to its
            resting position.
        detour: so many metres of distance is one that the straight way leaves out, see
            :func:`skills.tasks.places.detour`: for training.
        way: until the base stands within reach of the object, so many metres of distance is one
            that is left of its way there, see :func:`skills.tasks.course.approach`; with
            ``needs_geodesic="course"``, for training.
        shut: so many metres of distance is one by which the edge of the open door that the object
            lies behind was moved, see :func:`skills.tasks.places.door_moved`: who shuts it cannot
            reach in, and while the base drives nothing else would tell; for training. It counts
            where a way is rewarded or observed (:attr:`Task.shows_way`).
        pick_reward: when the right object is grasped.
        wrong_penalty: when anything else is grasped; ends the episode.
        drop_penalty: when what is held is lost; ends the episode.
        suction_penalty: in a step in which an empty cup sucks where it could not hold the object,
            ``HOLD_THRESHOLD`` and more from it: there it can only catch what is not wanted.
        rest_threshold: farthest end effector from its resting position at success, m.
        fallen: in this share of the episodes about an open place the object lies on the floor near
            it, as after a release in the wrong place: for training of a robot that can drive.
    """

    distance_reward: float = 2.0
    detour: float = 0.0
    way: float = 0.0
    shut: float = 0.0
    pick_reward: float = 2.0
    wrong_penalty: float = 0.5
    drop_penalty: float = 0.5
    suction_penalty: float = 0.0
    rest_threshold: float = AT_REST
    fallen: float = 0.0

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: near the object, facing it; a shut container is opened."""
        call = SkillCall(self.name, target=draw_target(sim, env_id, rng, self.name))
        row = self.goal_for(sim, env_id, call)
        if open_around(sim, env_id, self.about(row)):
            row = self.goal_for(sim, env_id, call)  # the drawer may have taken it along
        falls = self.fallen and self.layout.base and kind_of(row.start_place) == "open"
        if falls and rng.random() < self.fallen and drop(sim, env_id, rng, row.target):
            row = self.goal_for(sim, env_id, call)
        pose = put_near(sim, env_id, rng, self.about(row)[:2], spawn)
        return Start(replace(row, start_pose=pose), call)

    def about(self, goal: GoalRow) -> np.ndarray:
        """Where the object lies."""
        return goal.object_start

    def carrier(self, goal: GoalRow) -> np.ndarray:
        """What the object lies on."""
        return goal.start_place

    def at_end(self, view: View) -> Array:
        """Something is held at rest."""
        return view.holds & (view.rest_distance < self.rest_threshold)

    def begin(self, view: View) -> PickProgress:
        """See :meth:`Task.begin`."""
        return PickProgress(
            **self.start_fields(view),
            distance=self._distance(view),
            held=view.holds,
        )

    def grip(self, view: View, command: Array) -> Array:
        """A held object cannot be released."""
        return view.xp.where(view.holds, 1.0, command)

    @property
    def grip_rule(self) -> str:
        """See :meth:`Task.grip_rule`."""
        return "0 or more grasps on contact; while something is held it is kept, whatever this says"

    def advance(self, view: View, progress: PickProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp = view.xp
        grasped = view.holds & ~progress.held
        dropped = ~view.holds & progress.held
        right = grasped & view.holds_target
        wrong = grasped & ~view.holds_target
        distance = self._distance(view)
        nearer = to_milli(xp, xp.where(grasped | dropped, 0.0, progress.distance - distance))
        reward = (
            self.distance_reward * nearer
            + self.pick_reward * right
            - self.wrong_penalty * wrong
            - self.drop_penalty * dropped
        )
        if self.suction_penalty:
            reward = reward - self.suction_penalty * view.sucks_in_vain
        success = (
            view.holds_target
            & ~view.state.hold_violation
            & (view.rest_distance < self.rest_threshold)
        )
        return Advance(
            {"distance": distance, "held": view.holds},
            reward,
            success,
            {"wrong_object": wrong, "dropped": dropped},
            {"object_distance": view.object_distance, "rest_distance": view.rest_distance},
        )

    def _distance(self, view: View) -> Array:
        lead, place = Lead(self.detour, self.way, self.shut), view.goal.start_place
        ends = view.state.ee_pos, view.object_pos
        distance = lead.along(view, view.object_distance, *ends, place)
        return view.xp.where(view.holds, view.rest_distance, distance)
