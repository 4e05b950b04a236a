"""What a task is: start, goal, observations, actions, reward, success and the robot-side end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from array_api_compat import array_namespace, device
from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.around import with_surroundings
from skills.tasks.course import Course, with_way
from skills.tasks.goals import object_goal
from skills.tasks.layout import ActionLayout
from skills.tasks.outlines import open_door
from skills.tasks.places import container_of
from skills.tasks.sensors import shows_course
from skills.tasks.starts import Spawn, Start
from skills.tasks.state import CAUSE, GoalRow, Outcome, View
from tpsrl.episodes.types import Episode
from tpsrl.geometry.arrays import Array
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

NOWHERE = np.zeros(3)
"""Start of the robot in episodes whose start a task draws itself."""


@dataclass(frozen=True)
class Progress:
    """How an episode stands, beside the state; tasks add what they must remember.

    Attributes:
        steps: (n,) int64, steps of the task.
        force_sum: (n,) float64, accumulated force at the last step, N.
        mastery: (n,) float64, share of the episodes before this one that succeeded.
    """

    steps: Array
    force_sum: Array
    mastery: Array


P = TypeVar("P", bound=Progress)


@dataclass
class Advance:
    """What a task computes itself in a step, before force, time and success are added.

    Attributes:
        memory: new values of the task's own ``Progress`` fields.
        reward: (n,) shaped reward.
        success: (n,) bool.
        ends: cause -> (n,) bool; the first that applies is reported.
        metrics: name -> (n,).
        mistakes: (n,) bool, stops in vain, whether they end the episode or not.
    """

    memory: dict[str, Array]
    reward: Array
    success: Array
    ends: dict[str, Array] = field(default_factory=dict)
    metrics: dict[str, Array] = field(default_factory=dict)
    mistakes: Array | None = None


@dataclass(frozen=True)
class Task(ABC, Generic[P]):
    """A skill's contract as pure functions of batched state.

    Attributes:
        name: of the skill.
        sensors: names of the observations.
        layout: of the flat action.
        horizon: most steps of an episode.
        scenario: whose episodes it is trained on.
        slack_reward: added in every step.
        success_reward: added at success.
        end_on_success: whether success ends the episode.
        stops_itself: stop is called in every step, and one without success changes nothing: the
            skill ends when it is done, whatever the policy knows of stopping.
        force_penalty: reward lost per newton of accumulated force.
        max_force_penalty: most of it in a step.
        max_force_sum, max_force: limits that end the episode, N; ``None`` for no limit.
        force_end_penalty: reward lost then.
        violation_penalty: reward lost when the hold is violated.
        mistake_penalty: lost at an end that is neither success nor time and at a stop in vain,
            times the share of the last episodes that succeeded: for training from scratch. Who
            cannot do anything yet must dare to touch, release and stop; who can, not to gamble.
        haste: lost in every step, times that share: whoever stands still to make no mistake loses.
        pressing: lost per newton of accumulated force, times that share: how much of the force that
            ends an episode has been spent is not sensed, so each newton costs its part of that end.
        blocked_penalty: lost in a step in which the base is told to drive at full speed and stays
            where it is, in proportion where it is told less or moves a little.
        needs_geodesic: what ``View.geodesic`` measures the distance to: ``""``, ``"goal"`` or
            ``"start"``; ``"course"``: along a way that keeps clear of furniture, to the goal of
            Navigate, else to where the robot can reach what the skill is about.
        frozen_start: the object is looked for where it lay when the *episode* began, even if the
            drawer it lies in has been opened since.
    """

    name: str
    sensors: tuple[str, ...]
    layout: ActionLayout
    horizon: int
    scenario: str = "rearrange_easy"
    slack_reward: float = 0.0
    success_reward: float = 10.0
    end_on_success: bool = True
    stops_itself: bool = False
    force_penalty: float = 0.0
    max_force_penalty: float = 0.0
    max_force_sum: float | None = None
    max_force: float | None = None
    force_end_penalty: float = 0.0
    violation_penalty: float = 0.0
    mistake_penalty: float = 0.0
    haste: float = 0.0
    pressing: float = 0.0
    blocked_penalty: float = 0.0
    needs_geodesic: str = ""
    frozen_start: bool = False

    def draw_start(
        self, sim: Simulator, env_id: int, episode: Episode, seed: int, spawn: Spawn = "hab"
    ) -> Start:
        """Load an episode into a world and put the robot at a start state.

        Args:
            sim: simulator.
            env_id: which world.
            episode: to load; its own robot start is not used.
            seed: decides everything random.
            spawn: how near to the target Pick and Place start.

        Raises:
            NoStartError: no start state was found.
        """
        if episode.start is not NOWHERE:  # the engine would draw a start pose of its own
            episode = replace(episode, start=NOWHERE)
        sim.reset([episode], [seed], [env_id])
        return self.start_state(sim, env_id, np.random.default_rng([seed, 1]), spawn)

    @abstractmethod
    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """Put the robot of a world whose episode was just loaded at a start state.

        Raises:
            NoStartError: none was found.
        """

    def goal_for(self, sim: Simulator, env_id: int, call: SkillCall) -> GoalRow:
        """Return the goal of a use of the skill that starts in the present state.

        Learned policies use it when a plan calls them; environments when an episode starts.

        Raises:
            UserError: the call lacks what the skill needs, or names an unknown joint.
        """
        row = object_goal(sim, env_id, call, frozen_start=self.frozen_start)
        return self.look_around(sim, env_id, row)

    def look_around(self, sim: Simulator, env_id: int, row: GoalRow) -> GoalRow:
        """Return a goal with what its sensors and its reward show of the point that it is about."""
        point, place = self.about(row), self.carrier(row)
        if self.shows_way:
            behind = container_of(sim, env_id, point)
            row = replace(row, container=behind, door=open_door(sim, env_id, behind))
            row = with_way(sim, env_id, row, point)
        return with_surroundings(sim, env_id, row, point, place, self.sensors)

    @property
    def shows_way(self) -> bool:
        """Whether a way to the goal is observed or rewarded."""
        return shows_course(self.sensors) or self.needs_geodesic == "course"

    def course(self, sim: Simulator, env_id: int, goal: GoalRow) -> Course:
        """Return the way to where the robot can reach what a use of the skill is about."""
        return Course(sim.scene(env_id), self.about(goal), goal.fan, goal.parts)

    def about(self, goal: GoalRow) -> np.ndarray:
        """Return the (3,) point that a use of the skill is about."""
        return goal.position

    def told(self, goal: GoalRow) -> np.ndarray:
        """Return (3,) that point as the contract tells it: its height is inf where it does not."""
        return self.about(goal)

    def carrier(self, goal: GoalRow) -> np.ndarray:
        """Return (4,) what carries that point: a row of ``Goal.start_place``."""
        return goal.goal_place

    def goes_on(self, view: View) -> Array:
        """Return (n,) bool: from now on it is about its next point, see :meth:`go_on`."""
        return self.never(view)

    def go_on(self, sim: Simulator, env_id: int, goal: GoalRow) -> GoalRow:
        """Return the goal of a use of the skill that goes on to its next point."""
        return self.look_around(sim, env_id, replace(goal, leg=goal.leg + 1))

    @abstractmethod
    def begin(self, view: View) -> P:
        """Return the progress at the start of an episode."""

    @abstractmethod
    def advance(self, view: View, progress: P, stop: Array) -> Advance:
        """Compute the task's own part of a step."""

    def stop_counts(self, view: View) -> Array:
        """Return (n,) bool: a stop called now ends the skill in a chain."""
        return ~self.never(view)

    def under_way(self, view: View, resting: Array) -> Array:
        """Return (n,) bool: it has got so far that :meth:`at_end` can be believed from now on.

        Args:
            view: present state.
            resting: (n, 3) ``view.resting`` when the skill began.
        """
        return ~self.never(view)

    def at_end(self, view: View) -> Array:
        """Return (n,) bool: the robot senses that the skill has ended in a chain."""
        return self.never(view)

    def grip(self, view: View, command: Array) -> Array:
        """Return the (n,) grip command that reaches the robot instead of ``command``.

        Where the action has no grip, what is held stays held and nothing is grasped.
        """
        return command if self.layout.grip else view.xp.where(view.holds, 1.0, -1.0)

    @property
    def grip_rule(self) -> str:
        """What :meth:`grip` does, in the words of a policy's card: other robots go by these."""
        return "0 or more grasps on contact, less lets go"

    def robot_action(self, view: View, action: Array) -> tuple[Array, Array]:
        """Split a flat action.

        Args:
            view: state before the step.
            action: (n, ``layout.size``) in [-1, 1].

        Returns:
            (n, 10) robot action (see ``Simulator.step``) and (n,) bool, whether stop is called.
        """
        xp, n = view.xp, action.shape[0]
        parts, k, where = [], 0, device(action)

        def take(wanted: bool, size: int) -> Any:
            nonlocal k
            if not wanted:
                return xp.zeros((n, size), dtype=action.dtype, device=where)
            k += size
            return action[:, k - size : k]

        parts.append(take(self.layout.arm, 7))
        command = take(self.layout.grip, 1)
        parts.append(xp.astype(self.grip(view, command[:, 0]), action.dtype)[:, None])
        parts.append(take(self.layout.base, 2))
        stop = take(self.layout.stop, 1)[:, 0] > 0
        if self.stops_itself:
            stop = xp.ones_like(stop)
        return xp.concat(parts, axis=1), stop

    def flat_action(self, robot: Array, stop: Array) -> Array:
        """Return the flat action that asks for a robot action, e.g. of a scripted skill.

        Args:
            robot: (n, 10) robot action; what the layout lacks is dropped.
            stop: (n,) bool.

        Returns:
            (n, ``layout.size``), with -1 or 1 for stop.
        """
        xp, layout = array_namespace(robot), self.layout
        parts = [robot[:, ACTION_ARM]] if layout.arm else []
        parts += [robot[:, ACTION_GRIP, None]] if layout.grip else []
        parts += [robot[:, ACTION_BASE]] if layout.base else []
        parts += [xp.where(stop, 1.0, -1.0)[:, None]] if layout.stop else []
        return xp.concat([xp.astype(part, robot.dtype) for part in parts], axis=1)

    def step(self, view: View, progress: P, stop: Array) -> tuple[P, Outcome]:
        """Judge one step.

        Args:
            view: state after the step.
            progress: before it.
            stop: (n,) bool, the policy called stop in this step.

        Returns:
            The new progress, and rewards, ends and metrics.
        """
        xp, state = view.xp, view.state
        result = self.advance(view, progress, stop)
        ends = {k: v for k, v in result.ends.items() if k != "stop" or not self.stops_itself}
        reward = result.reward + self.slack_reward
        pressed = xp.clip(state.force_sum - progress.force_sum, 0.0, None)
        if self.force_penalty and self.max_force_penalty:
            reward = reward - xp.clip(self.force_penalty * pressed, None, self.max_force_penalty)
        if self.violation_penalty:
            reward = reward - self.violation_penalty * xp.astype(state.hold_violation, reward.dtype)
        too_strong = self._too_strong(view)
        if too_strong is not None:
            ends = {"force": too_strong, **ends}
            reward = reward - self.force_end_penalty * xp.astype(too_strong, reward.dtype)
        if self.mistake_penalty:
            cost = self.mistake_penalty * progress.mastery
            mistakes = [*ends.values()]
            if result.mistakes is not None and not self.stops_itself:  # else every stop is its own
                mistakes.append(result.mistakes)
            wrong = xp.any(xp.stack([self.never(view), *mistakes]), axis=0)
            reward = reward - xp.where(wrong, cost, 0.0)
        if self.haste:
            reward = reward - self.haste * progress.mastery
        if self.pressing:
            reward = reward - self.pressing * progress.mastery * pressed
        if self.blocked_penalty:
            reward = reward - self.blocked_penalty * view.blocked
        success = result.success & ~state.diverged
        reward = xp.where(state.diverged, 0.0, reward + self.success_reward * success)
        if self.end_on_success:
            ends = {"success": success, **ends}
        steps = progress.steps + 1
        outcome = self._outcome(view, reward, success, ends, steps, result.metrics)
        kept = {"steps": steps, "force_sum": state.force_sum, "mastery": progress.mastery}
        new = type(progress)(**kept, **result.memory)
        return new, outcome

    def _too_strong(self, view: View) -> Array | None:
        over = None
        if self.max_force_sum is not None:
            over = view.state.force_sum > self.max_force_sum
        if self.max_force is not None:
            instant = view.state.force > self.max_force
            over = instant if over is None else over | instant
        return over

    def _outcome(
        self,
        view: View,
        reward: Array,
        success: Array,
        ends: dict[str, Array],
        steps: Array,
        metrics: dict[str, Array],
    ) -> Outcome:
        xp, diverged = view.xp, view.state.diverged
        cause = xp.where(steps >= self.horizon, CAUSE["time"], 0)
        for name in reversed(ends):  # the first that applies is written last
            cause = xp.where(ends[name], CAUSE[name], cause)
        cause = xp.where(diverged, CAUSE["diverged"], cause)
        truncated = (cause == CAUSE["time"]) | diverged
        return Outcome(reward, success, (cause > 0) & ~truncated, truncated, cause, metrics)

    def start_fields(self, view: View) -> dict[str, Array]:
        """Return the common ``Progress`` fields at the start."""
        state = view.state
        return {
            "steps": view.xp.zeros_like(state.held_object),
            "force_sum": state.force_sum,
            "mastery": view.xp.zeros_like(state.force_sum),
        }

    def never(self, view: View) -> Array:
        """Return (n,) False."""
        return view.state.diverged & ~view.state.diverged
