"""Parts of goals: what a grounded skill call is about, in the present state of a world."""

from __future__ import annotations

import numpy as np

from skills.interface import SkillCall
from skills.tasks.places import link_pose, place_of
from skills.tasks.state import GoalRow
from tpsrl.errors import UserError, nearest
from tpsrl.geometry.rotations import rotation_matrix
from tpsrl.sim.door import Simulator

FRONT_DISTANCE = 1.5
"""How far before a handle the way to it begins, m."""


def object_goal(
    sim: Simulator,
    env_id: int,
    call: SkillCall,
    *,
    frozen_start: bool = False,
    to_object: bool = False,
) -> GoalRow:
    """Return the goal of a skill that is about a target object.

    Args:
        sim: whose world it is.
        env_id: which world.
        call: for a target that is held, ``place="start"`` is where it lay at reset.
        frozen_start: see :class:`skills.tasks.base.Task`.
        to_object: what is wanted is where the object lies, unless the call's place is ``"goal"``.

    Raises:
        UserError: the call has no target.
    """
    if call.target is None:
        raise UserError(f"the skill '{call.skill}' was called without a target; give one.")
    episode = sim.episode(env_id)
    target = episode.targets[call.target]
    index = target.object_index
    lay = np.asarray(episode.objects[index].pos, dtype=np.float64)
    start = lay if frozen_start else _row(sim.state().object_pos, env_id)[index]
    wanted = np.asarray(target.goal_pos, dtype=np.float64)
    if call.place == "start" and int(sim.state().held_object[env_id]) == index:
        wanted = lay  # it goes back
    elif to_object and call.place != "goal":
        wanted = start
    return GoalRow(
        start_pose=_row(sim.state().base_pose, env_id),
        target=index,
        object_start=start,
        position=wanted,
        start_place=place_of(sim, env_id, start),
        goal_place=place_of(sim, env_id, wanted),
    )


def handle_goal(sim: Simulator, env_id: int, joint: str, marker: str = "") -> GoalRow:
    """Return the goal of a skill that is about a handle, the joint's first one by default.

    Raises:
        UserError: unknown joint or marker, or a joint without a handle.
    """
    index, handle = joint_and_marker(sim, joint, marker)
    return GoalRow(
        start_pose=_row(sim.state().base_pose, env_id),
        joint=index,
        marker=handle,
        position=_row(sim.state().marker_pos, env_id)[handle],
    )


def joint_and_marker(sim: Simulator, joint: str, marker: str) -> tuple[int, int]:
    """Return the indices of a joint and of its handle, the first one if ``marker`` is empty.

    Raises:
        UserError: unknown joint or marker, or a joint without a handle.
    """
    if joint not in sim.joint_names:
        raise UserError(f"unknown furniture joint '{joint}'{nearest(joint, sim.joint_names)}")
    index = sim.joint_names.index(joint)
    own = [k for k, owner in enumerate(sim.marker_joints) if owner == index]
    if marker:
        own = [k for k in own if sim.marker_names[k] == marker]
    if not own:
        raise UserError(f"the joint '{joint}' has no handle '{marker}'; choose another joint.")
    return index, own[0]


def front_point(sim: Simulator, env_id: int, joint: str) -> np.ndarray:
    """Return the (3,) point ``FRONT_DISTANCE`` before the handle of a furniture joint.

    It lies before where the handle is when shut: an open door's is at its side, and who comes from
    there shuts the door. How far the door or drawer stands out is added.

    Raises:
        UserError: unknown joint, or one without a handle.
    """
    index, marker = joint_and_marker(sim, joint, "")
    handle = _row(sim.state().marker_pos, env_id)[marker]
    pos, rotation = link_pose(sim, env_id, index)
    rest, quat = sim.scene(env_id).link_rest[joint]
    shut = rotation_matrix(np.asarray(quat))
    closed = np.asarray(rest) + shut @ rotation.T @ (handle - pos)
    ahead = np.array([shut[0, 0], shut[1, 0], 0.0])
    out = max(float((handle - closed) @ ahead), 0.0)
    return closed + (FRONT_DISTANCE + out) * ahead


def _row(values: object, env_id: int) -> np.ndarray:
    return np.asarray(values)[env_id]
