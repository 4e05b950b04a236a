"""Which trees of bodies sleep: written from outside, which MuJoCo's own interface cannot."""

from __future__ import annotations

import mujoco
import numpy as np

from tpsrl.compiled import compiled

_STATIC, _ASLEEP, _AWAKE = (
    int(state)
    for state in (
        mujoco.mjtSleepState.mjS_STATIC,
        mujoco.mjtSleepState.mjS_ASLEEP,
        mujoco.mjtSleepState.mjS_AWAKE,
    )
)


def write_sleep(model: mujoco.MjModel, data: mujoco.MjData, asleep: np.ndarray) -> None:
    """Write (t,) ``tree_asleep`` and what follows from it, as MuJoCo's ``mj_updateSleep`` does.

    What sleeps keeps what was last computed of it: positions have to be up to date.
    """
    data.tree_asleep[:] = asleep
    data.ntree_awake, data.nbody_awake, data.nparent_awake, data.nv_awake = _update(
        data.tree_asleep, data.tree_awake, data.body_awake, data.body_awake_ind,
        data.parent_awake_ind, data.dof_awake_ind,
        model.body_treeid, model.body_parentid, model.dof_bodyid,
    )  # fmt: skip


def start_asleep(model: mujoco.MjModel, data: mujoco.MjData, trees: np.ndarray) -> None:
    """Let trees sleep from the start; everything has to be awake and in its place."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    asleep = data.tree_asleep.copy()
    asleep[trees] = trees
    write_sleep(model, data, asleep)


@compiled
def _update(
    tree_asleep: np.ndarray,
    tree_awake: np.ndarray,
    body_awake: np.ndarray,
    bodies: np.ndarray,
    parents: np.ndarray,
    dofs: np.ndarray,
    tree_of: np.ndarray,
    parent_of: np.ndarray,
    body_of: np.ndarray,
) -> tuple[int, int, int, int]:
    trees = count = above = moving = 0
    for tree in range(len(tree_asleep)):
        tree_awake[tree] = tree_asleep[tree] < 0
        trees += tree_awake[tree]
    for body in range(len(tree_of)):
        tree = tree_of[body]
        if tree < 0:
            body_awake[body] = _STATIC
        else:
            body_awake[body] = _AWAKE if tree_awake[tree] else _ASLEEP
        if body_awake[body] != _ASLEEP:
            bodies[count] = body
            count += 1
        if body and body_awake[parent_of[body]] != _ASLEEP:
            parents[above] = body
            above += 1
    for dof in range(len(body_of)):
        body = body_of[dof]
        if tree_of[body] >= 0 and body_awake[body] == _AWAKE:
            dofs[moving] = dof
            moving += 1
    return trees, count, above, moving
