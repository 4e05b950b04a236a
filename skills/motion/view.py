"""What a scripted skill reads from the simulator, one world at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from skills.tasks.places import link_pose
from skills.tasks.tolerances import STANDS_OUT
from tpsrl.geometry.rotations import rotation_matrix, to_base
from tpsrl.robot.fetch import RESTING_POSITION
from tpsrl.sim.door import Simulator

_DOOR_THICKNESS = 0.06


@dataclass(frozen=True)
class RobotView:
    """State of one world.

    Attributes:
        base: (3,) x, y, yaw.
        qpos, target: (7,) arm joints and motor targets, rad.
        tip: (3,) cup in the world, m.
        tip_rotation: (3, 3).
        held_object, held_marker: indices, -1 for none.
        objects: (O, 3) centres, m.
        object_quats: (O, 4).
        joints: (J,) furniture joints.
        markers: (M, 3) handles, m.
    """

    base: np.ndarray
    qpos: np.ndarray
    target: np.ndarray
    tip: np.ndarray
    tip_rotation: np.ndarray
    held_object: int
    held_marker: int
    objects: np.ndarray
    object_quats: np.ndarray
    joints: np.ndarray
    markers: np.ndarray

    @property
    def holding(self) -> bool:
        """Whether anything is held."""
        return self.held_object >= 0 or self.held_marker >= 0

    @property
    def rest_distance(self) -> float:
        """Distance of the cup from its resting position, m."""
        return float(np.linalg.norm(to_base(self.base, self.tip) - RESTING_POSITION))


def look(sim: Simulator, env_id: int) -> RobotView:
    """Return the present state of one world."""
    s = sim.state()
    return RobotView(
        base=np.asarray(s.base_pose[env_id], dtype=np.float64),
        qpos=np.asarray(s.arm_qpos[env_id], dtype=np.float64),
        target=np.asarray(s.arm_target[env_id], dtype=np.float64),
        tip=np.asarray(s.ee_pos[env_id], dtype=np.float64),
        tip_rotation=rotation_matrix(np.asarray(s.ee_quat[env_id], dtype=np.float64)),
        held_object=int(s.held_object[env_id]),
        held_marker=int(s.held_marker[env_id]),
        objects=np.asarray(s.object_pos[env_id], dtype=np.float64),
        object_quats=np.asarray(s.object_quat[env_id], dtype=np.float64),
        joints=np.asarray(s.joint_pos[env_id], dtype=np.float64),
        markers=np.asarray(s.marker_pos[env_id], dtype=np.float64),
    )


def open_parts(sim: Simulator, env_id: int) -> list[np.ndarray]:
    """Return (4, 2) outlines on the floor of drawers and doors that stand open."""
    scene, state = sim.scene(env_id), sim.state()
    outlines = []
    for j, name in enumerate(sim.joint_names):
        if float(state.joint_pos[env_id][j]) < STANDS_OUT or name not in scene.containers:
            continue
        pos, rotation = link_pose(sim, env_id, j)
        low, high = scene.containers[name]
        if name in scene.container_static:
            offset = handle_offset(sim, env_id, j)
            low = np.array([-_DOOR_THICKNESS / 2, 1.12 * offset[1]])
            high = np.array([offset[0], 0.0])
        else:
            low, high = low[:2] - 0.02, np.array([high[0] + 0.06, high[1] + 0.02])
        corners = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
        world = np.column_stack([corners, np.zeros(4)]) @ rotation.T + pos
        outlines.append(world[:, :2])
    return outlines


def handle_offset(sim: Simulator, env_id: int, joint: int) -> np.ndarray:
    """Return the (3,) handle of a joint's link in the link's frame.

    Raises:
        ValueError: the joint has no handle.
    """
    pos, rotation = link_pose(sim, env_id, joint)
    marker = np.asarray(sim.state().marker_pos[env_id][handle_index(sim, joint)])
    return rotation.T @ (marker - pos)


def handle_index(sim: Simulator, joint: int) -> int:
    """Return the index of the handle that moves with a joint.

    Raises:
        ValueError: the joint has no handle.
    """
    if joint not in sim.marker_joints:
        name = sim.joint_names[joint]
        known = ", ".join(sim.joint_names[j] for j in sim.marker_joints)
        raise ValueError(f"The joint '{name}' has no handle; those with one are {known}.")
    return sim.marker_joints.index(joint)


class WhatIf:
    """Asks the simulator whether the robot would touch anything in other postures.

    Privileged: it moves the robot and looks; :func:`what_if` puts everything back.
    """

    def __init__(self, sim: Simulator, env_id: int) -> None:
        self._sim, self._env_id = sim, env_id

    def remove(self, index: int) -> None:
        """Take an object out of the way."""
        pos = np.array([0.0, 0.0, 10.0])
        self._sim.set_object(index, pos, np.array([1.0, 0.0, 0.0, 0.0]), self._env_id)

    def touches(self, base: np.ndarray, qpos: np.ndarray) -> bool:
        """Return whether the robot at a (3,) base pose with a (7,) arm posture is in contact."""
        quick = getattr(self._sim, "robot_touches_at", None)  # engines may offer it
        if quick is not None:
            return bool(quick(base, qpos, self._env_id))
        self._sim.set_base(np.asarray(base)[None], [self._env_id])
        self._sim.set_arm(np.asarray(qpos)[None], [self._env_id])
        return self._sim.robot_contacts(self._env_id)


@contextmanager
def what_if(sim: Simulator, env_id: int) -> Iterator[WhatIf]:
    """Try postures out on a world and put its state back afterwards, exactly."""
    saved = sim.capture(env_id)
    try:
        yield WhatIf(sim, env_id)
    finally:
        sim.restore(saved, env_id)
