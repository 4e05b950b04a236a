"""Goals from the present state of a world: what a grounded skill call wants."""

from __future__ import annotations

import dataclasses

import numpy as np

from skills.interface import SkillCall
from skills.tasks.articulated import ArticulatedTask
from skills.tasks.base import Task
from skills.tasks.places import link_pose, place_of, rotation_matrix
from skills.tasks.state import GoalRow
from tpsrl.errors import UserError, nearest
from tpsrl.sim.door import Simulator

FRONT_DISTANCE = 1.5
"""How far before a handle the way to it begins, m."""


def goal_for_call(task: Task, sim: Simulator, env_id: int, call: SkillCall) -> GoalRow:
    """Return the goal of a skill that starts in the present state.

    Learned policies use it when a plan calls them; environments when an episode starts. For a
    target that is held, ``place="start"`` is where it lay at reset (see :class:`SkillCall`).

    Args:
        task: of the called skill.
        sim: whose world it is.
        env_id: which world.
        call: ``call.target``, ``call.place`` and ``call.joint`` are read.

    Raises:
        UserError: the call lacks what the skill needs, or names an unknown joint.
    """
    row = GoalRow(start_pose=_row(sim.state().base_pose, env_id))
    if isinstance(task, ArticulatedTask):
        return _articulated(task, sim, env_id, call.joint or task.joint_name, row)
    if task.name == "navigate" and call.target is None and call.joint is not None:
        joint, marker = joint_and_marker(sim, call.joint, "")
        position = _row(sim.state().marker_pos, env_id)[marker]
        if call.place == "front":
            position = front_point(sim, env_id, call.joint)
        return dataclasses.replace(row, joint=joint, marker=marker, position=position)
    if call.target is None:
        raise UserError(f"the skill '{task.name}' was called without a target; give one.")
    return _object(task, sim, env_id, call, row)


def _object(task: Task, sim: Simulator, env_id: int, call: SkillCall, row: GoalRow) -> GoalRow:
    episode = sim.episode(env_id)
    assert call.target is not None
    target = episode.targets[call.target]
    index = target.object_index
    if task.frozen_start:
        start = np.asarray(episode.objects[index].pos, dtype=np.float64)
    else:
        start = _row(sim.state().object_pos, env_id)[index]
    wanted = np.asarray(target.goal_pos, dtype=np.float64)
    held = int(sim.state().held_object[env_id]) == index
    if held and call.place == "start":  # it goes back to where it lay
        wanted = np.asarray(episode.objects[index].pos, dtype=np.float64)
    elif task.name == "navigate" and call.place != "goal":
        wanted = start
    return dataclasses.replace(
        row,
        target=index,
        object_start=start,
        position=wanted,
        start_place=place_of(sim, env_id, start),
        goal_place=place_of(sim, env_id, wanted),
    )


def _articulated(
    task: ArticulatedTask, sim: Simulator, env_id: int, name: str, row: GoalRow
) -> GoalRow:
    wanted = task.marker_name if name == task.joint_name else ""
    joint, marker = joint_and_marker(sim, name, wanted)
    where = _row(sim.state().marker_pos, env_id)[marker]
    return dataclasses.replace(
        row, joint=joint, marker=marker, joint_goal=task.goal, position=where
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
