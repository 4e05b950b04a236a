"""What of the furniture stands out into the room, and the free space that it leaves."""

from __future__ import annotations

import numpy as np

from skills.tasks.places import link_pose
from skills.tasks.tolerances import STANDS_OUT
from tpsrl.geometry.arrays import yaw_of
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import Navigation

_DOOR_THICKNESS = 0.06
_DOOR_WIDTH = 1.12
"""Of the distance of its handle from the hinge."""


def free_space(sim: Simulator, env_id: int) -> Navigation:
    """Return the free space with open drawers and doors taken out."""
    navigation = sim.scene(env_id).navigation
    parts = open_parts(sim, env_id)
    return navigation.with_obstacles(parts) if parts else navigation


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
            low = np.array([-_DOOR_THICKNESS / 2, _DOOR_WIDTH * offset[1]])
            high = np.array([offset[0], 0.0])
        else:
            low, high = low[:2] - 0.02, np.array([high[0] + 0.06, high[1] + 0.02])
        corners = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
        world = np.column_stack([corners, np.zeros(4)]) @ rotation.T + pos
        outlines.append(world[:, :2])
    return outlines


def open_door(sim: Simulator, env_id: int, joint: int) -> np.ndarray:
    """Return the door of a furniture joint as a row of ``Goal.door``, zeros unless it is open."""
    name = sim.joint_names[joint] if joint >= 0 else ""
    if name not in sim.scene(env_id).container_static:
        return np.zeros(5)
    if float(sim.state().joint_pos[env_id][joint]) < STANDS_OUT:
        return np.zeros(5)
    pos, rotation = link_pose(sim, env_id, joint)
    edge = pos + rotation @ np.array([0.0, _DOOR_WIDTH * handle_offset(sim, env_id, joint)[1], 0.0])
    heading = yaw_of(np, np.asarray(sim.state().link_quat[env_id][joint]))
    return np.array([*pos[:2], *edge[:2], heading])


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
