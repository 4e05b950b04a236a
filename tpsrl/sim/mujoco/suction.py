"""The suction cup: contact-triggered grasps, a hold that can be violated, safe release.

An object is welded at the relative pose it had on contact; a handle is held by a ball joint at
its marker. While held, and after release until it is clear of the cup, an object does not collide
with the robot (habitat-lab's grasp manager does the same). A held handle does not collide with the
cup, which the ball joint presses against it, but still with the rest of the robot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from tpsrl.robot import fetch
from tpsrl.robot.mjcf import BIT_CUP, BIT_OBJECT, BIT_ROBOT
from tpsrl.sim.mujoco.contacts import suction_contacts
from tpsrl.sim.mujoco.model import ModelIndex
from tpsrl.sim.mujoco.shared import Own

_HANDLE_CLEARANCE = 0.06
"""Distance of the tip from a handle at which both collide again, m."""


class Suction:
    """Grasp state of one world.

    Args:
        model: returns the model as that of the world.
        own: what the world has of its own in it.
        data: of the world.
        index: ids.

    Attributes:
        grasp: (3,) int32, for compiled code: the body and the marker held, -1 for none, and how
            many released things do not collide with the cup yet.
    """

    def __init__(
        self,
        model: Callable[[], mujoco.MjModel],
        own: Own,
        data: mujoco.MjData,
        index: ModelIndex,
    ) -> None:
        self._take_model, self._own, self._data, self._index = model, own, data, index
        self.grasp = np.array([-1, -1, 0], dtype=np.int32)
        self._markers = list(index.markers.values())
        self.marker_bodies = index.joint_bodies[
            np.array([j for j, _, _ in self._markers], dtype=int)
        ]
        self.marker_offsets = np.array([offset for _, offset, _ in self._markers]).reshape(-1, 3)
        self._released: list[int] = []
        self._freed_markers: list[int] = []
        compiled = model()
        owner = compiled.geom_bodyid
        self._geoms = {b: np.flatnonzero(owner == b) for ids in index.pool.values() for b in ids}
        handles = [np.flatnonzero(owner == b) for b in self.marker_bodies]
        self._handle_geoms = [g[compiled.geom_contype[g] > 0] for g in handles]
        self._solid = {b: g[compiled.geom_contype[g] > 0] for b, g in self._geoms.items()}

    @property
    def _model(self) -> mujoco.MjModel:
        return self._take_model()

    @property
    def held_body(self) -> int:
        """The object that is held, -1 for none."""
        return int(self.grasp[0])

    @property
    def held_marker(self) -> int:
        """The handle that is held, -1 for none."""
        return int(self.grasp[1])

    @property
    def holding(self) -> bool:
        """Whether anything is held."""
        return bool(self.grasp[0] >= 0 or self.grasp[1] >= 0)

    def reset(self) -> None:
        """Hold nothing; every object collides with the robot again."""
        for body in [self.held_body, *self._released]:
            if body >= 0:
                self._collide(body, True)
        for marker in [self.held_marker, *self._freed_markers]:
            if marker >= 0:
                self._cup_collides(marker, True)
        self._own.hold = None
        self._released.clear()
        self._freed_markers.clear()
        self._note(-1, -1)
        self._data.eq_active[:] = 0

    def grasp_on_contact(self) -> bool:
        """Hold what touches the cup: objects before handles. Return whether it holds.

        The cup may touch a door far from its handle. It then takes no hold: the joint would throw
        the arm over to the handle.
        """
        geoms = suction_contacts(self._data, self._index)
        for geom in geoms:
            body = int(self._index.object_of_geom[geom])
            if body >= 0 and body not in self._released:
                self._hold(body)
                return True
        for geom in geoms:
            marker = int(self._index.marker_of_geom[geom])
            if marker >= 0 and self._reaches(marker):
                self._note(-1, marker)
                self._data.eq_active[self._markers[marker][2]] = 1
                self._cup_collides(marker, False)
                return True
        return False

    def snap(self, body: int, half_height: float) -> None:
        """Teleport an object so that its top touches the cup, and hold it.

        Args:
            body: of the object.
            half_height: half of its height, m.
        """
        rotation = self._data.site_xmat[self._index.ee_site].reshape(3, 3)
        # The object's z axis points back along the cup's x axis.
        frame = np.stack([rotation[:, 2], rotation[:, 1], -rotation[:, 0]], axis=1)
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(frame).ravel())
        position = self._tip() + rotation[:, 0] * (half_height + 0.002)
        self.hold_at(body, position, quat)

    def hold_at(self, body: int, position: np.ndarray, quat: np.ndarray) -> None:
        """Teleport an object to a world pose, (3,) and unit (4,), and hold it there."""
        self.release()
        self._write(body, position, quat)
        mujoco.mj_kinematics(self._model, self._data)
        self._hold(body)

    def release(self) -> bool:
        """Let go; a released object stays off the robot's collisions until it is clear.

        Returns:
            Whether anything was held.
        """
        held = self.holding
        if self.held_body >= 0:
            self._data.eq_active[self._index.weld[self.held_body]] = 0
            self._own.hold = None
            self._released.append(self.held_body)
        if self.held_marker >= 0:
            self._data.eq_active[self._markers[self.held_marker][2]] = 0
            self._freed_markers.append(self.held_marker)
        self._note(-1, -1)
        return held

    def violated(self) -> bool:
        """Return whether the held thing is too far from the tip (0.15 m)."""
        if self.held_body >= 0:
            gap = self._data.xpos[self.held_body] - self._tip()
            return bool(np.linalg.norm(gap) >= fetch.HOLD_THRESHOLD)
        return self.held_marker >= 0 and not self._reaches(self.held_marker)

    def restore_collisions(self) -> None:
        """Let released objects and handles that are clear of the cup collide again."""
        if not self._released and not self._freed_markers:
            return
        for marker in list(self._freed_markers):
            distance = np.linalg.norm(self.marker_positions()[marker] - self._tip())
            if marker == self.held_marker:
                self._freed_markers.remove(marker)
            elif distance > _HANDLE_CLEARANCE:
                self._freed_markers.remove(marker)
                self._cup_collides(marker, True)
        for body in list(self._released):
            geoms = self._solid[body]
            size = 2.0 * float(self._model.geom_rbound[geoms].max())
            if np.linalg.norm(self._data.xpos[body] - self._tip()) > size:
                self._released.remove(body)
                self._collide(body, True)
        self._note(self.held_body, self.held_marker)

    def marker_positions(self) -> np.ndarray:
        """Return (M, 3) the world positions of all handles."""
        rotation = self._data.xmat[self.marker_bodies].reshape(-1, 3, 3)
        offset = np.einsum("mij,mj->mi", rotation, self.marker_offsets)
        return self._data.xpos[self.marker_bodies] + offset

    def relative_pose(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the held object's pose in the gripper's frame, ``None`` if none is held."""
        if self.held_body < 0:
            return None
        data, gripper = self._data, self._index.gripper_body
        inverse, position, quat = np.empty(4), np.empty(3), np.empty(4)
        mujoco.mju_negQuat(inverse, data.xquat[gripper])
        mujoco.mju_rotVecQuat(position, data.xpos[self.held_body] - data.xpos[gripper], inverse)
        mujoco.mju_mulQuat(quat, inverse, data.xquat[self.held_body])
        return position, quat

    def follow(self, relative: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Put the held object at a pose in the gripper's frame after the arm was teleported."""
        if relative is None:
            return
        data, gripper = self._data, self._index.gripper_body
        position, quat = np.empty(3), np.empty(4)
        mujoco.mju_rotVecQuat(position, relative[0], data.xquat[gripper])
        mujoco.mju_mulQuat(quat, data.xquat[gripper], relative[1])
        self._write(self.held_body, data.xpos[gripper] + position, quat)

    def capture(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs."""
        return {
            "held_body": self.held_body,
            "held_marker": self.held_marker,
            "released": list(self._released),
            "freed_markers": list(self._freed_markers),
            "holds": {} if self._own.hold is None else dict([self._own.hold]),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Put back a captured grasp; which constraints are active is part of MuJoCo's state."""
        active = self._data.eq_active.copy()
        self.reset()
        self._data.eq_active[:] = active
        self._released = list(saved["released"])
        self._freed_markers = list(saved["freed_markers"])
        self._note(saved["held_body"], saved["held_marker"])
        for constraint, hold in saved["holds"].items():
            self._own.hold = constraint, hold
            self._model.eq_data[constraint] = hold
        for marker in [self.held_marker, *self._freed_markers]:
            if marker >= 0:
                self._cup_collides(marker, False)
        for body in [self.held_body, *self._released]:
            if body >= 0:
                self._collide(body, False)

    def _hold(self, body: int) -> None:
        if body in self._released:
            self._released.remove(body)
        self._note(body, -1)
        relative = self.relative_pose()
        assert relative is not None
        weld = self._index.weld[body]
        self._model.eq_data[weld, 3:6], self._model.eq_data[weld, 6:10] = relative
        self._own.hold = weld, self._model.eq_data[weld]
        self._data.eq_active[weld] = 1
        self._collide(body, False)

    def _note(self, body: int, marker: int) -> None:
        self.grasp[:] = body, marker, len(self._released) + len(self._freed_markers)

    def _collide(self, body: int, with_robot: bool) -> None:
        bits = BIT_OBJECT | (BIT_ROBOT | BIT_CUP if with_robot else 0)
        self._model.geom_conaffinity[self._solid[body]] = bits

    def _cup_collides(self, marker: int, yes: bool) -> None:
        bits = BIT_OBJECT | BIT_ROBOT | (BIT_CUP if yes else 0)
        self._model.geom_conaffinity[self._handle_geoms[marker]] = bits

    def _write(self, body: int, position: np.ndarray, quat: np.ndarray) -> None:
        joint = self._model.body_jntadr[body]
        address = self._model.jnt_qposadr[joint]
        self._data.qpos[address : address + 3] = position
        self._data.qpos[address + 3 : address + 7] = quat
        dof = self._model.jnt_dofadr[joint]
        self._data.qvel[dof : dof + 6] = 0.0

    def _reaches(self, marker: int) -> bool:
        gap = self.marker_positions()[marker] - self._tip()
        return bool(np.linalg.norm(gap) < fetch.HOLD_THRESHOLD)

    def _tip(self) -> np.ndarray:
        return self._data.site_xpos[self._index.ee_site]
