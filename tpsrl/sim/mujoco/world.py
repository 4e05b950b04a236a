"""One apartment with one robot: its model and its state; its control step is in ``steps``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.geometry.rotations import planar_frame, transform, wrap, yaw_quat
from tpsrl.robot import fetch
from tpsrl.sim.mujoco import native, states
from tpsrl.sim.mujoco.contacts import robot_overlap
from tpsrl.sim.mujoco.driving import LOCKED
from tpsrl.sim.mujoco.forms import Forms
from tpsrl.sim.mujoco.model import ModelIndex
from tpsrl.sim.mujoco.nearby import Nearby
from tpsrl.sim.mujoco.shared import SharedModel
from tpsrl.sim.mujoco.sleep import start_asleep
from tpsrl.sim.mujoco.snapshots import freeze, thaw
from tpsrl.sim.mujoco.states import Counters
from tpsrl.sim.mujoco.steps import MAX_SPEED
from tpsrl.sim.mujoco.suction import Suction
from tpsrl.sim.mujoco.table import StepTable
from tpsrl.sim.navigation import GridNavigation
from tpsrl.sim.scene import SceneInfo

_START_TRIES = 50


class World:
    """Its part of a model (furniture poses and collision bits change) and its data.

    Args:
        shared: compiled by ``tpsrl.sim.mujoco.model.build``; worlds take turns in it.
        index: ids of its parts.
        forms: of the objects' types.
    """

    def __init__(self, shared: SharedModel, index: ModelIndex, forms: Forms) -> None:
        self._shared, self._own = shared, shared.fresh()
        self.index, self._forms = index, forms
        model = self.model
        model.dof_armature[index.base_dof], model.dof_frictionloss[index.base_dof] = LOCKED, 0.0
        self.data = mujoco.MjData(model)
        self.suction = Suction(lambda: self.model, self._own, self.data, index)
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
        self._speeds, self._places = self.data.qvel, self.data.qpos
        self._joint_qpos = model.jnt_qposadr[index.joint_ids]
        self.near = Nearby(model, self.data)
        self.pool = {form: len(bodies) for form, bodies in index.pool.items() if bodies}
        pool = [body for bodies in index.pool.values() for body in bodies]
        joints = {body: model.body_jntadr[body] for body in pool}
        self._free = {b: (model.jnt_qposadr[j], model.jnt_dofadr[j]) for b, j in joints.items()}
        self._pool_trees = np.zeros(model.ntree, dtype=bool)
        self._pool_trees[model.body_treeid[np.array(pool, dtype=np.int64)]] = True
        self._others = np.setdiff1d(np.arange(1, model.nbody), pool)
        self._objects = np.zeros(1 + len(pool), dtype=np.int32)
        own = self.base, self.count.values, self._objects
        self.addresses = states.addresses(model, self.data, index, self.suction, own)
        self.steps = StepTable(
            model, self.data, index, self._own, self.base, self.count, self.suction
        )

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
        self.count.values[:] = 0.0
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
        unused = self._pool_trees.copy()
        unused[model.body_treeid[self.object_bodies]] = False
        start_asleep(model, data, np.flatnonzero(unused))
        if episode.start is not None:
            self._write_base(np.asarray(episode.start, dtype=float))
            mujoco.mj_forward(model, data)
        else:
            self._sample_start(rng)

    def grip(self, command: float) -> None:
        """Let the cup act in the middle of a step: below 0 it lets go, else it grasps."""
        if command < 0:
            changed = self.suction.release()
        else:
            changed = not self.suction.holding and self.suction.grasp_on_contact()
        if changed:
            mujoco.mj_step1(self.model, self.data)

    def look_after(self) -> None:
        """Begin anew what has diverged in a step, let go what has come loose."""
        if self.count.values[states.DIVERGED]:
            self._recover()
            return
        if self.suction.violated():
            self.count.values[states.VIOLATION] = 1.0
            self.suction.release()
        self.suction.restore_collisions()

    def settle(self, seconds: float) -> None:
        """Run physics with the robot's targets as they are."""
        model = self.model
        model.opt.jacobian = native.DENSE if self.suction.holding else native.AUTO
        mujoco.mj_step(model, self.data, nstep=max(1, round(seconds * fetch.PHYSICS_HZ)))
        model.opt.jacobian = native.AUTO
        if states.is_broken(self._speeds, self._places, MAX_SPEED):
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

    def set_objects(self, indices: Sequence[int], pos: np.ndarray, quat: np.ndarray) -> None:
        """Teleport objects to (k, 3) and (k, 4), at rest."""
        for index, *pose in zip(indices, pos, quat, strict=True):
            self._write_object(int(self.object_bodies[index]), *pose)
        mujoco.mj_forward(self.model, self.data)

    def snap(self, index: int, pose: np.ndarray | None = None) -> None:
        """Teleport an object under the cup, its top against it or to a (7,) pose, and hold it."""
        assert self.episode is not None
        body = int(self.object_bodies[index])
        if pose is None:
            half = self._forms.types[self.episode.objects[index].type].half_size
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
        return {
            **freeze(self.model, self.data),
            "pool": self.pool,
            "episode": self.episode,
            "seed": self.seed,
            "suction": self.suction.capture(),
            "base": self.base.copy(),
            "count": self.count.values.copy(),
        }

    def restore(self, saved: Mapping[str, Any], scene: SceneInfo) -> None:
        """Put back what :meth:`capture` returned, also of another world with the same pool."""
        if scene is not self.scene:
            self._furnish(scene)
        self.episode, self.seed = saved["episode"], int(saved["seed"])
        self._choose(saved["episode"])
        self.suction.reset()
        thaw(self.model, self.data, saved)
        self.suction.restore(saved["suction"])
        self.base[:], self.count.values[:] = saved["base"], saved["count"]

    def _furnish(self, scene: SceneInfo) -> None:
        model, self.scene = self.model, scene
        for name, pose in scene.furniture_pose.items():
            root = self.index.roots[name]
            model.body_pos[root] = (pose[0], pose[1], 0.0)
            model.body_quat[root] = yaw_quat(pose[2])
        assert isinstance(scene.navigation, GridNavigation)
        self.steps.furnish(scene.navigation)

    def _choose(self, episode: Episode) -> None:
        model = self.model
        self.object_bodies = self._forms.choose(self.index.pool, episode)
        self._own.become(self.object_bodies, [item.type for item in episode.objects])
        count = self._objects[0] = len(self.object_bodies)
        self._objects[1 : 1 + count] = self.object_bodies
        self.near.look_at(model, np.concatenate([self._others, self.object_bodies]))

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
        self.base[:] = x, y, wrap(yaw)
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
            "step": int(self.count.values[states.STEPS]),
        }
        self.count.divergences.append(event)
        self.load(self.episode, self.scene, self.seed)
        self.count.values[states.DIVERGED] = 1.0
