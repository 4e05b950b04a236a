"""Open and Close of drawers and doors (habitat-lab ``ArtObjReward``, ``ArtObjSuccess``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from skills.interface import SkillCall
from skills.tasks.base import Advance, Progress
from skills.tasks.goals import handle_goal, joint_and_marker
from skills.tasks.starts import YAW_NOISE, NoStartError, Spawn, Start, facing, put
from skills.tasks.state import GoalRow, View
from skills.tasks.stops import StoppedTask
from skills.tasks.tolerances import AT_REST, JOINT_AT
from tpsrl.geometry.arrays import Array, norm, yaw_of
from tpsrl.geometry.rotations import to_base
from tpsrl.robot import fetch
from tpsrl.sim.door import Simulator

EE_UPPER = np.array([1.2, 0.7, 1.5]) + 0.01
"""A handle beyond this in the base frame is out of reach, m."""
SETTLE_SECONDS = 5 / fetch.PHYSICS_HZ
SPAWN_SCALE = 0.2
"""Part by which the rectangle of starts is shrunk about its centre."""
START_RADIUS = 0.3
"""How far from where it began the end effector must have been before it may end, m."""
HANDLE_MOVED = 0.1
"""Or how far the handle must have come: some policies work nearer to where they begin, m."""


@dataclass(frozen=True)
class ArticulatedProgress(Progress):
    """What is remembered from the last step.

    Attributes:
        joint: (n,) distance of the joint from its wanted position, m or rad.
        handle: (n,) end effector to handle, m.
        rest: (n,) end effector to its resting position, m.
        held: (n,) bool, something was held.
        grasped: (n,) bool, the handle has been grasped in this episode.
        reached: (n,) bool, the joint has been where it is wanted in this episode.
    """

    joint: Array
    handle: Array
    rest: Array
    held: Array
    grasped: Array
    reached: Array


@dataclass(frozen=True)
class ArticulatedTask(StoppedTask[ArticulatedProgress]):
    """Bring a joint to a position, let go, return to the resting position and stop.

    Attributes:
        joint_name: furniture joint.
        marker_name: handle of it.
        start: (2,) least and most joint position at the start, m or rad.
        ajar: share of the episodes that begin with the joint anywhere on its way to the goal
            instead; for training from scratch.
        goal: wanted joint position.
        absolute: True: it must be within ``joint_threshold`` of the goal; False: at most that
            much below it.
        joint_threshold: m or rad.
        spawn_frame: ``"marker"`` or ``"furniture"``.
        spawn_x, spawn_y: where the base starts in that frame, m, in a rectangle that is shrunk by
            ``SPAWN_SCALE`` about its centre.
        suction: whether the grip command is obeyed.
        joint_reward: per m or rad towards the goal.
        reached_reward: when the joint first is where it is wanted.
        grasp_reward: when the handle is first grasped.
        handle_reward: per metre towards the handle while nothing is held.
        rest_reward: per metre towards the resting position once the joint is where it is wanted.
        wrong_penalty: when anything else is grasped; ends the episode.
        rest_threshold: farthest end effector from its resting position at success, m.
    """

    joint_name: str = ""
    marker_name: str = ""
    start: tuple[float, float] = (0.0, 0.0)
    ajar: float = 0.0
    goal: float = 0.0
    absolute: bool = True
    joint_threshold: float = JOINT_AT
    spawn_frame: str = "marker"
    spawn_x: tuple[float, float] = (0.8, 0.95)
    spawn_y: tuple[float, float] = (-0.35, 0.35)
    suction: bool = True
    joint_reward: float = 10.0
    reached_reward: float = 5.0
    grasp_reward: float = 0.0
    handle_reward: float = 1.0
    rest_reward: float = 1.0
    wrong_penalty: float = 5.0
    rest_threshold: float = AT_REST

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: before the handle; the piece's other joints are shut."""
        joint, marker = joint_and_marker(sim, self.joint_name, self.marker_name)
        wanted = {n: 0.0 for n in sim.joint_names if _piece(n) == _piece(self.joint_name)}
        wanted[self.joint_name] = float(rng.uniform(*self.start))
        if self.ajar and rng.random() < self.ajar:
            begun = wanted[self.joint_name]
            wanted[self.joint_name] = begun + float(rng.uniform(0.0, 1.0)) * (self.goal - begun)
        _set_joints(sim, env_id, wanted)
        call = SkillCall(self.name, joint=self.joint_name)
        origin = self._spawn_frame(sim, env_id, joint, marker)
        handle = np.asarray(sim.state().marker_pos)[env_id, marker]
        for _ in range(100):
            local = [_within(rng, span, SPAWN_SCALE) for span in (self.spawn_x, self.spawn_y)]
            cos, sin = np.cos(origin[2]), np.sin(origin[2])
            xy = origin[:2] + np.array(
                [cos * local[0] - sin * local[1], sin * local[0] + cos * local[1]]
            )
            xy = sim.scene(env_id).navigation.snap(xy)
            pose = np.array([*xy, facing(xy, handle[:2]) + rng.normal(0.0, YAW_NOISE)])
            if np.any(to_base(pose, handle) > EE_UPPER):
                continue
            if put(sim, env_id, pose):
                sim.settle(SETTLE_SECONDS, env_id)
                if not sim.robot_contacts(env_id):
                    return Start(self.goal_for(sim, env_id, call), call)
                _set_joints(sim, env_id, wanted)
                handle = np.asarray(sim.state().marker_pos)[env_id, marker]
        raise NoStartError(f"no free start before {self.joint_name}")

    def _spawn_frame(self, sim: Simulator, env_id: int, joint: int, marker: int) -> np.ndarray:
        """Return (3,) x, y, yaw of the frame in which the start rectangle is given."""
        if self.spawn_frame == "furniture":
            pose = sim.scene(env_id).furniture_pose[_piece(self.joint_name)]
            return np.asarray(pose, dtype=np.float64)
        state = sim.state()
        yaw = yaw_of(np, np.asarray(state.link_quat)[env_id, joint])
        return np.array([*np.asarray(state.marker_pos)[env_id, marker, :2], yaw])

    def goal_for(self, sim: Simulator, env_id: int, call: SkillCall) -> GoalRow:
        """See :meth:`Task.goal_for`; a call without a joint is about the task's own."""
        name = call.joint or self.joint_name
        marker = self.marker_name if name == self.joint_name else ""
        return replace(handle_goal(sim, env_id, name, marker), joint_goal=self.goal)

    def stop_counts(self, view: View) -> Array:
        """A chain ends it by what the robot senses, as habitat-baselines does."""
        return self.never(view)

    def under_way(self, view: View, resting: Array) -> Array:
        """The end effector or the handle has come away from where it was."""
        gone = norm(view.xp, view.resting - resting)
        came = norm(view.xp, view.marker_pos - view.goal.position)
        return (gone > START_RADIUS) | (came > HANDLE_MOVED)

    def at_end(self, view: View) -> Array:
        """Nothing is held and the arm is at rest."""
        return ~view.holds & (view.rest_distance < self.rest_threshold)

    def begin(self, view: View) -> ArticulatedProgress:
        """See :meth:`Task.begin`."""
        return ArticulatedProgress(
            **self.start_fields(view),
            joint=self._error(view),
            handle=view.marker_distance,
            rest=view.rest_distance,
            held=view.holds,
            grasped=self.never(view),
            reached=self.never(view),
        )

    def grip(self, view: View, command: Array) -> Array:
        """Without suction nothing is ever grasped."""
        return command if self.suction else view.xp.full_like(command, -1.0)

    @property
    def grip_rule(self) -> str:
        """See :meth:`Task.grip_rule`."""
        return super().grip_rule if self.suction else "nothing is ever grasped, whatever this says"

    def advance(self, view: View, progress: ArticulatedProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp, state = view.xp, view.state
        error, there = self._error(view), self._there(view)
        taken = view.holds & ~progress.held
        right = taken & (state.held_marker >= 0) & (state.held_marker == view.goal.marker)
        wrong = taken & ~right
        moved = xp.where(there, 0.0, progress.joint - error)
        rested = xp.where(there, progress.rest - view.rest_distance, 0.0)
        near = xp.where(there | view.holds, 0.0, progress.handle - view.marker_distance)
        reward = (
            self.joint_reward * moved
            + self.rest_reward * rested
            + self.handle_reward * near
            + self.reached_reward * (there & ~progress.reached)
            + self.grasp_reward * (right & ~progress.grasped)
            - self.wrong_penalty * wrong
        )
        success = there & ~view.holds & (view.rest_distance < self.rest_threshold) & stop
        failed = stop & ~success
        reward, ends = self.after_stops(reward, failed)
        ends = {"wrong_grasp": wrong, "hold_violation": state.hold_violation, **ends}
        return Advance(
            {
                "joint": error,
                "handle": view.marker_distance,
                "rest": view.rest_distance,
                "held": view.holds,
                "grasped": progress.grasped | right,
                "reached": progress.reached | there,
            },
            reward,
            success,
            ends,
            {
                "joint_error": error,
                "marker_distance": view.marker_distance,
                "rest_distance": view.rest_distance,
            },
            failed,
        )

    def _error(self, view: View) -> Array:
        return view.xp.abs(view.joint_pos - view.goal.joint_goal)

    def _there(self, view: View) -> Array:
        if self.absolute:
            return self._error(view) < self.joint_threshold
        return view.joint_pos > view.goal.joint_goal - self.joint_threshold


def _within(rng: Generator, span: Sequence[float], scale: float) -> float:
    middle, half = (span[0] + span[1]) / 2, scale * (span[1] - span[0]) / 2
    return float(rng.uniform(middle - half, middle + half))


def _piece(joint: str) -> str:
    return joint.rpartition("/")[0]


def _set_joints(sim: Simulator, env_id: int, wanted: Mapping[str, float]) -> None:
    now = np.asarray(sim.state().joint_pos)[env_id]
    for name, value in wanted.items():
        if abs(now[sim.joint_names.index(name)] - value) > 1e-6:
            sim.set_joint(name, value, [env_id])
