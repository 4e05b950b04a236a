"""Pick and Place (habitat-lab ``RearrangePickTask-v0`` and ``RearrangePlaceTask-v0``)."""

from __future__ import annotations

from dataclasses import dataclass

from skills.tasks.base import Advance, Progress, Task
from skills.tasks.state import View
from tpsrl.geometry.arrays import Array, to_milli


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
        pick_reward: when the right object is grasped.
        wrong_penalty: when anything else is grasped; ends the episode.
        drop_penalty: when what is held is lost; ends the episode.
        rest_threshold: farthest end effector from its resting position at success, m.
    """

    distance_reward: float = 2.0
    pick_reward: float = 2.0
    wrong_penalty: float = 0.5
    drop_penalty: float = 0.5
    rest_threshold: float = 0.15

    def begin(self, view: View) -> PickProgress:
        """See :meth:`Task.begin`."""
        return PickProgress(
            **self.start_fields(view), distance=self._distance(view), held=view.holds
        )

    def grip(self, view: View, command: Array) -> Array:
        """A held object cannot be released."""
        return view.xp.where(view.holds, 1.0, command)

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
        return view.xp.where(view.holds, view.rest_distance, view.object_distance)


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
        place_reward: at the first correct release.
        drop_penalty: at a release elsewhere, which ends the episode.
        goal_threshold: farthest object centre from the goal, m.
        min_distance: no distance reward while the object is nearer to its goal than this, m.
        rest_threshold: farthest end effector from its resting position at success, m.
    """

    distance_reward: float = 2.0
    place_reward: float = 5.0
    drop_penalty: float = 0.0
    goal_threshold: float = 0.15
    min_distance: float = 0.15
    rest_threshold: float = 0.15

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

    def spoils(self, view: View, action: Array) -> Array:
        """A release away from the goal ends the episode."""
        releases = action[:, self.layout.grip_index] < 0
        return releases & view.holds & (view.goal_distance >= self.goal_threshold)

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
        reward = (
            self.distance_reward * nearer + self.place_reward * right - self.drop_penalty * wrong
        )
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
        return view.xp.where(resting, view.rest_distance, view.goal_distance)
