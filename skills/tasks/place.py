"""Place (habitat-lab ``RearrangePlaceTask-v0``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Task
from skills.tasks.course import Lead
from skills.tasks.pick import PickProgress
from skills.tasks.starts import Spawn, Start, draw_target, open_around, put_near
from skills.tasks.state import View
from skills.tasks.tolerances import AT_REST, RELEASED_AT
from tpsrl.geometry.arrays import Array, to_milli
from tpsrl.sim.door import Simulator


@dataclass(frozen=True)
class PlaceProgress(PickProgress):
    """Attributes: ``resting`` (n,) bool, the last distance was that to the resting position."""

    resting: Array


@dataclass(frozen=True)
class PlaceTask(Task[PlaceProgress]):
    """Bring the held object to its goal, release it and return to the resting position.

    Attributes:
        distance_reward: per metre that the object comes nearer to its goal, and, after a correct
            release, the end effector to its resting position.
        detour: so many metres of distance is one that the straight way leaves out, see
            :func:`skills.tasks.places.detour`: for training.
        way: until the base stands within reach of the goal, so many metres of distance is one that
            is left of its way there, and ``shut``: see :class:`~skills.tasks.pick.PickTask`.
        strays_end: an object that is farther than ``off_slack`` beyond ``goal_threshold`` after its
            release ends the episode, as a wrong release does, and takes ``place_reward`` back: for
            training. It rolls, or falls off, and nothing brings it home.
        place_reward: at the first correct release; one elsewhere ends the episode.
        off_penalty: lost at a correct release, per metre that the object is then farther from its
            goal than ``off_slack``. Who knows that distance exactly otherwise lets go at
            ``goal_threshold``, and who learns from that and knows it less well lets go too early.
        off_slack: m.
        goal_threshold: farthest object centre from the goal, m.
        min_distance: no distance reward while the object is nearer to its goal than this, m.
        rest_threshold: farthest end effector from its resting position at success, m.
    """

    distance_reward: float = 2.0
    detour: float = 0.0
    way: float = 0.0
    shut: float = 0.0
    strays_end: bool = False
    place_reward: float = 5.0
    off_penalty: float = 0.0
    off_slack: float = 0.05
    goal_threshold: float = RELEASED_AT
    min_distance: float = RELEASED_AT
    rest_threshold: float = AT_REST

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: near the goal, facing it; a shut container is opened."""
        call = SkillCall(self.name, target=draw_target(sim, env_id, rng, self.name))
        row = self.goal_for(sim, env_id, call)
        if open_around(sim, env_id, self.about(row)):
            row = self.goal_for(sim, env_id, call)  # the way leads around the door
        pose = put_near(sim, env_id, rng, self.about(row)[:2], spawn)
        sim.snap_object(row.target, env_id)
        return Start(replace(row, start_pose=pose), call)

    def at_end(self, view: View) -> Array:
        """Nothing is held and the arm is at rest."""
        return ~view.holds & (view.rest_distance < self.rest_threshold)

    def begin(self, view: View) -> PlaceProgress:
        """See :meth:`Task.begin`."""
        resting = self._resting(view)
        return PlaceProgress(
            **self.start_fields(view),
            distance=self._distance(view, resting),
            held=view.holds,
            resting=resting,
        )

    def grip(self, view: View, command: Array) -> Array:
        """What was released cannot be grasped again."""
        return view.xp.where(view.holds, command, -1.0)

    @property
    def grip_rule(self) -> str:
        """See :meth:`Task.grip_rule`."""
        return "less than 0 lets go; once nothing is held nothing is grasped, whatever this says"

    def advance(self, view: View, progress: PlaceProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp = view.xp
        at_goal = view.goal_distance < self.goal_threshold
        released = progress.held & ~view.holds
        right, wrong = released & at_goal, released & ~at_goal
        resting = self._resting(view)
        distance = self._distance(view, resting)
        counts = (resting == progress.resting) & (resting | (distance >= self.min_distance))
        nearer = to_milli(xp, xp.where(counts, progress.distance - distance, 0.0))
        reward = self.distance_reward * nearer + self.place_reward * right
        if self.off_penalty:
            off = view.goal_distance - self.off_slack
            reward = reward - self.off_penalty * xp.where(right & (off > 0.0), off, 0.0)
        if self.strays_end:
            off = view.goal_distance > self.goal_threshold + self.off_slack
            strayed = ~view.holds & ~progress.held & off
            reward = reward - self.place_reward * strayed
            wrong = wrong | strayed
        success = ~view.holds & at_goal & (view.rest_distance < self.rest_threshold)
        return Advance(
            {"distance": distance, "held": view.holds, "resting": resting},
            reward,
            success,
            {"wrong_release": wrong},
            {"goal_distance": view.goal_distance, "rest_distance": view.rest_distance},
        )

    def _resting(self, view: View) -> Array:
        return ~view.holds & (view.goal_distance < self.goal_threshold)

    def _distance(self, view: View, resting: Array) -> Array:
        lead, goal = Lead(self.detour, self.way, self.shut), view.goal
        ends = view.object_pos, goal.position
        distance = lead.along(view, view.goal_distance, *ends, goal.goal_place)
        return view.xp.where(resting, view.rest_distance, distance)
