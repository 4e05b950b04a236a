"""One apartment with one robot: its model, its state and one control step of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.geometry.rotations import planar_frame, transform, wrap, yaw_quat
from tpsrl.robot import fetch
from tpsrl.scenes.description import ObjectType
from tpsrl.sim.door import ACTION_BASE, ACTION_GRIP, SceneInfo
from tpsrl.sim.mujoco import states
from tpsrl.sim.mujoco.contacts import MIN_FORCE, robot_contacts, robot_force, robot_overlap
from tpsrl.sim.mujoco.model import ModelIndex
from tpsrl.sim.mujoco.nearby import Nearby
from tpsrl.sim.mujoco.pool import choose
from tpsrl.sim.mujoco.shared import SharedModel
from tpsrl.sim.mujoco.sleep import start_asleep
from tpsrl.sim.mujoco.snapshots import freeze, thaw
from tpsrl.sim.mujoco.states import Counters
from tpsrl.sim.mujoco.suction import Suction

_SUBSTEPS = fetch.PHYSICS_HZ // fetch.CONTROL_HZ
_MAX_SPEED = 200.0
"""Faster than anything real: such a world has diverged. m/s or rad/s."""
_START_TRIES = 50

DRIVE_FORCE = 200.0
"""What the drive holds against before the base slides, N; about 0.2 of Fetch's weight."""
DRIVE_TORQUE = 60.0
"""The same for turning, N m."""
PUSH_FORCE, PUSH_DEPTH = 350.0, 0.03
"""A motion of the base that would press the robot harder on or deeper into anything is shortened,
N and m."""
_HALVINGS = 5
"""How finely the longest part of a motion is sought that does not press, halvings."""
_LOCKED = 1e6
"""Inertia of a base that nothing touches, kg and kg m^2: the arm's swings do not move it."""


class World:
    """Its part of a model (furniture poses and collision bits change) and its data.

    Args:
        shared: compiled by ``tpsrl.sim.mujoco.model.build``; worlds take turns in it.
        index: ids of its parts.
        types: object descriptions, for their sizes.
    """

    def __init__(
        self, shared: SharedModel, index: ModelIndex, types: Mapping[str, ObjectType]
    ) -> None:
        self._shared, self._own = shared, shared.fresh()
        self.index, self.types = index, types
        model = self.model
        self.data = mujoco.MjData(model)
        self.suction = Suction(lambda: self.model, self._own.holds, self.data, index)
        self.count = Counters()
        self.base = np.zeros(3)
        self.object_bodies = np.zeros(0, dtype=np.int64)
        self.episode: Episode | None = None
        self.scene: SceneInfo | None = None
        self.seed = 0
        first = int(index.base_dof[0])
        self._base_qpos, self._base_qvel = (
            values[first : first + 3] for values in (self.data.qpos, self.data.qvel)
        )
        self._ctrl, self._speeds, self._places = self.data.ctrl, self.data.qvel, self.data.qpos
        self._gives_way = True
        self._joint_qpos = model.jnt_qposadr[index.joint_ids]
        self._let_give_way(False)
        self._nearby = Nearby(model, self.data)
        pool = [body for bodies in index.pool.values() for body in bodies]
        joints = {body: model.body_jntadr[body] for body in pool}
        self._free = {b: (model.jnt_qposadr[j], model.jnt_dofadr[j]) for b, j in joints.items()}
        self._pool_trees = model.body_treeid[np.array(pool, dtype=np.int64)]
        self._others = np.setdiff1d(np.arange(1, model.nbody), pool)
        self.addresses = states.addresses(model, self.data, index, self.suction)

    @property
    def model(self) -> mujoco.MjModel:
        """The model as that of this world, until another world asks for it."""
        return self._shared.of(self._own)

    def load(self, episode: Episode, scene: SceneInfo, seed: int) -> None:
        """Put the world in the episode's start state and the robot at its start pose."""
        model, data = self.model, self.data
        if scene is not self.scene:
            self._furnish(scene)
        self.episode, self.seed = episode, seed
        self.count = Counters(divergences=self.count.divergences)
        self.suction.reset()
        mujoco.mj_resetData(model, data)
        self._choose(episode)
        for body, item in zip(self.object_bodies.tolist(), episode.objects, strict=True):
            self._write_object(body, item.pos, item.quat)
        for name, value in episode.joints.items():
            data.qpos[self._joint_qpos[self.index.joint_names.index(name)]] = value
        rng = np.random.default_rng(seed)
        noise = rng.normal(0.0, fetch.ARM_INIT_NOISE, fetch.ARM_DOF)
        self._write_arm(fetch.ARM_INIT + noise)
        used = model.body_treeid[self.object_bodies]
        start_asleep(model, data, np.setdiff1d(self._pool_trees, used))
        if episode.start is not None:
            self._write_base(np.asarray(episode.start, dtype=float))
            mujoco.mj_forward(model, data)
        else:
            self._sample_start(rng)

    def step(self, action: np.ndarray) -> None:
        """Move the base, set the arm's targets and work the cup.

        Physics follows with :meth:`integrate`; the head camera looks in between.

        Args:
            action: (10,) in [-1, 1].
        """
        model, data = self.model, self.data
        self.count.diverged = False
        begin = self.base
        forward, turn = action[ACTION_BASE].tolist()
        if forward != 0.0 or turn != 0.0:
            self._drive(forward * fetch.BASE_DELTA_LINEAR, turn * fetch.BASE_DELTA_ANGULAR)
        self._nearby.keep()
        mujoco.mj_step1(model, data)
        if len(robot_contacts(data, self.index)):
            self._meet(begin)
        self._ctrl += action[: fetch.ARM_DOF] * fetch.ARM_DELTA
        if action[ACTION_GRIP] < 0:
            changed = self.suction.release()
        else:
            changed = not self.suction.holding and self.suction.grasp_on_contact()
        if changed:
            mujoco.mj_step1(model, data)

    def integrate(self) -> None:
        """Run the physics of one control step, begun by :meth:`step`, and what depends on it."""
        model, data, count = self.model, self.data, self.count
        mujoco.mj_step2(model, data)
        mujoco.mj_step(model, data, nstep=_SUBSTEPS - 1)
        self._nearby.all()
        count.steps += 1
        gave_way = self._gives_way
        self._let_give_way(False)
        if states.is_broken(self._speeds, self._places, _MAX_SPEED):
            self._recover()
            return
        if gave_way:
            end = self._clamp(self._base_qpos[:2].copy())
            self._write_base(np.append(end, self._base_qpos[2]))
        else:
            self._put_base()
        mujoco.mj_kinematics(model, data)
        before, count.force = count.force, robot_force(model, data, self.index)
        increase = count.force - before
        count.force_sum += increase if increase > MIN_FORCE else 0.0
        count.violation = self.suction.violated()
        if count.violation:
            self.suction.release()
        self.suction.restore_collisions()

    def settle(self, seconds: float) -> None:
        """Run physics with the robot's targets as they are."""
        mujoco.mj_step(self.model, self.data, nstep=max(1, round(seconds * fetch.PHYSICS_HZ)))
        if states.is_broken(self._speeds, self._places, _MAX_SPEED):
            self._recover()
        self._put_base()
        mujoco.mj_forward(self.model, self.data)

    def set_base(self, pose: np.ndarray) -> None:
        """Teleport the robot; what it holds comes along."""
        self._move_base(np.asarray(pose, dtype=float))
        mujoco.mj_forward(self.model, self.data)

    def set_arm(self, qpos: np.ndarray) -> None:
        """Teleport the arm and its targets; a held object comes along."""
        carry = self.suction.relative_pose()
        self._write_arm(np.asarray(qpos, dtype=float))
        mujoco.mj_forward(self.model, self.data)
        self.suction.follow(carry)
        mujoco.mj_forward(self.model, self.data)

    def set_joint(self, name: str, value: float) -> None:
        """Teleport a furniture joint; objects inside a moving container come along."""
        assert self.scene is not None
        j = self.index.joint_names.index(name)
        body = int(self.index.joint_bodies[j])
        inside = self._inside(name, body)
        before = transform(self.data.xpos[body], self.data.xmat[body])
        self.data.qpos[self._joint_qpos[j]] = value
        self.data.qvel[self.model.jnt_dofadr[self.index.joint_ids[j]]] = 0.0
        mujoco.mj_forward(self.model, self.data)
        motion = transform(self.data.xpos[body], self.data.xmat[body]) @ np.linalg.inv(before)
        for other in inside:
            self._transform_object(other, motion)
        mujoco.mj_forward(self.model, self.data)

    def set_object(self, index: int, pos: np.ndarray, quat: np.ndarray) -> None:
        """Teleport an object, at rest."""
        self._write_object(int(self.object_bodies[index]), pos, quat)
        mujoco.mj_forward(self.model, self.data)

    def snap(self, index: int, pose: np.ndarray | None = None) -> None:
        """Teleport an object under the cup, its top against it or to a (7,) pose, and hold it."""
        assert self.episode is not None
        body = int(self.object_bodies[index])
        if pose is None:
            half = self.types[self.episode.objects[index].type].half_size
            self.suction.snap(body, half[2])
        else:
            self.suction.hold_at(body, pose[:3], pose[3:] / np.linalg.norm(pose[3:]))
        mujoco.mj_forward(self.model, self.data)

    def touches(self) -> bool:
        """Return whether the robot touches anything it does not hold."""
        mujoco.mj_forward(self.model, self.data)
        return robot_overlap(self.data, self.index) > 0.0

    def touches_from(self, pose: np.ndarray) -> bool:
        """Return whether the robot, holding nothing, would touch anything at another base pose."""
        model, data = self.model, self.data
        x, y, yaw = pose.tolist()
        self._base_qpos[:] = x, y, wrap(yaw)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        touches = robot_overlap(data, self.index) > 0.0
        self._put_base()
        mujoco.mj_kinematics(model, data)
        return touches

    def touches_at(self, pose: np.ndarray, qpos: np.ndarray) -> bool:
        """Return whether the robot would touch anything in another posture.

        Leaves the world there with its dynamics undefined: :meth:`restore` has to follow.
        """
        carry = self.suction.relative_pose()
        self._move_base(np.asarray(pose, dtype=float))
        self._write_arm(np.asarray(qpos, dtype=float))
        mujoco.mj_kinematics(self.model, self.data)
        self.suction.follow(carry)
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_collision(self.model, self.data)
        return robot_overlap(self.data, self.index) > 0.0

    def capture(self) -> dict[str, Any]:
        """Return what decides the future of this world, but for the layout of its apartment."""
        count = self.count
        return {
            **freeze(self.model, self.data),
            "episode": self.episode,
            "seed": self.seed,
            "suction": self.suction.capture(),
            "base": self.base.copy(),
            "count": (count.steps, count.force, count.force_sum, count.violation, count.diverged),
        }

    def restore(self, saved: Mapping[str, Any], scene: SceneInfo) -> None:
        """Put back what :meth:`capture` returned, also of another world of the same pool."""
        if scene is not self.scene:
            self._furnish(scene)
        self.episode, self.seed = saved["episode"], int(saved["seed"])
        self._choose(saved["episode"])
        self.suction.reset()
        thaw(self.model, self.data, saved)
        self.suction.restore(saved["suction"])
        self.base = np.array(saved["base"])
        steps, force, total, violation, diverged = saved["count"]
        kept = self.count.divergences
        self.count = Counters(steps, force, total, violation, diverged, kept)

    def _furnish(self, scene: SceneInfo) -> None:
        model, self.scene = self.model, scene
        for name, pose in scene.furniture_pose.items():
            root = self.index.roots[name]
            model.body_pos[root] = (pose[0], pose[1], 0.0)
            model.body_quat[root] = yaw_quat(pose[2])

    def _choose(self, episode: Episode) -> None:
        self.object_bodies = choose(self.index.pool, episode)
        self._nearby.look_at(np.concatenate([self._others, self.object_bodies]))

    def _write_object(self, body: int, pos: np.ndarray, quat: np.ndarray) -> None:
        place, speed = self._free[body]
        self._places[place : place + 3] = pos
        self._places[place + 3 : place + 7] = quat / math.sqrt(quat.dot(quat))
        self._speeds[speed : speed + 6] = 0.0

    def _transform_object(self, body: int, motion: np.ndarray) -> None:
        pose = motion @ transform(self.data.xpos[body], self.data.xmat[body])
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(pose[:3, :3]).ravel())
        self._write_object(body, pose[:3, 3], quat)

    def _inside(self, name: str, body: int) -> list[int]:
        assert self.scene is not None
        if name in self.scene.container_static or name not in self.scene.containers:
            return []
        low, high = self.scene.containers[name]
        rotation = self.data.xmat[body].reshape(3, 3)
        local = (self.data.xpos[self.object_bodies] - self.data.xpos[body]) @ rotation
        mask = np.all((local >= low) & (local <= high), axis=1)
        return [int(b) for b in self.object_bodies[mask]]

    def _write_arm(self, qpos: np.ndarray) -> None:
        self.data.qpos[self.index.arm_qpos] = np.clip(qpos, fetch.ARM_LOWER, fetch.ARM_UPPER)
        self.data.qvel[self.index.arm_dof] = 0.0
        self.data.ctrl[:] = self.data.qpos[self.index.arm_qpos]

    def _write_base(self, pose: np.ndarray) -> None:
        x, y, yaw = pose.tolist()
        self.base = np.array([x, y, wrap(yaw)])
        self._put_base()

    def _put_base(self) -> None:
        self._base_qpos[:], self._base_qvel[:] = self.base, 0.0

    def _sample_start(self, rng: np.random.Generator) -> None:
        assert self.scene is not None
        for _ in range(_START_TRIES):
            xy = self.scene.navigation.sample(rng)
            if xy is None:
                break
            self._write_base(np.array([xy[0], xy[1], rng.uniform(-np.pi, np.pi)]))
            if not self.touches():
                return
        mujoco.mj_forward(self.model, self.data)

    def _drive(self, forward: float, turn: float) -> None:
        x, y, yaw = self.base.tolist()
        end = self._clamp(np.array([x + forward * np.cos(yaw), y + forward * np.sin(yaw)]))
        self._move_base(np.array([*end.tolist(), yaw + turn]))

    def _clamp(self, end: np.ndarray) -> np.ndarray:
        assert self.scene is not None
        return self.scene.navigation.clamp_motion(self.base[:2], end)

    def _meet(self, begin: np.ndarray) -> None:
        """Let the base give way in this step, its motion so far shortened where it presses."""
        model, data, end = self.model, self.data, self.base
        self._let_give_way(True)
        mujoco.mj_step1(model, data)
        if end is begin:
            return
        motion = np.append(end[:2] - begin[:2], wrap(end[2] - begin[2]))
        free, blocked = 0.0, 1.0
        if not self._presses():
            return
        for _ in range(_HALVINGS):
            part = (free + blocked) / 2
            self._move_base(begin + part * motion)
            mujoco.mj_step1(model, data)
            free, blocked = (free, part) if self._presses() else (part, blocked)
        if free != part:
            self._move_base(begin + free * motion)
            mujoco.mj_step1(model, data)

    def _presses(self) -> bool:
        """Return whether the robot would press harder than the drive may, and than it did."""
        model, data = self.model, self.data
        if robot_overlap(data, self.index) > PUSH_DEPTH:
            return True
        mujoco.mj_forwardSkip(model, data, mujoco.mjtStage.mjSTAGE_VEL, 1)
        return robot_force(model, data, self.index) > max(PUSH_FORCE, self.count.force)

    def _let_give_way(self, yes: bool) -> None:
        """Hold the base by the drive's force alone, or as if it stood on rails."""
        if yes == self._gives_way:
            return
        self._gives_way = yes
        dof, model = self.index.base_dof, self.model
        model.dof_armature[dof] = 0.0 if yes else _LOCKED
        model.dof_frictionloss[dof] = (DRIVE_FORCE, DRIVE_FORCE, DRIVE_TORQUE) if yes else 0.0

    def _move_base(self, pose: np.ndarray) -> None:
        held = self.suction.held_body
        if held >= 0:
            old = planar_frame(self.base)
            motion = planar_frame(pose) @ np.linalg.inv(old)
            self._transform_object(held, motion)
        self._write_base(pose)

    def _recover(self) -> None:
        """Note a diverged world and start its episode again; the caller sees ``diverged``."""
        assert self.episode is not None and self.scene is not None
        event = {
            "episode_id": self.episode.episode_id,
            "layout": self.episode.layout,
            "seed": self.seed,
            "step": self.count.steps,
        }
        self.count.divergences.append(event)
        self.load(self.episode, self.scene, self.seed)
        self.count.diverged = True
