"""What a scripted skill reads from the simulator, one world at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tpsrl.geometry.rotations import rotation_matrix, to_base
from tpsrl.robot.fetch import RESTING_POSITION
from tpsrl.sim.door import Simulator


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
