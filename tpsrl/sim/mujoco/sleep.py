"""Which trees of bodies sleep: written from outside, which MuJoCo's own interface cannot."""

from __future__ import annotations

import mujoco
import numpy as np

_STATIC, _ASLEEP, _AWAKE = (
    int(state)
    for state in (
        mujoco.mjtSleepState.mjS_STATIC,
        mujoco.mjtSleepState.mjS_ASLEEP,
        mujoco.mjtSleepState.mjS_AWAKE,
    )
)


def write_sleep(model: mujoco.MjModel, data: mujoco.MjData, asleep: np.ndarray) -> None:
    """Write (t,) ``tree_asleep`` and all that MuJoCo derives from it.

    What sleeps keeps what was last computed of it: positions have to be up to date.
    """
    data.tree_asleep[:] = asleep
    data.tree_awake[:] = asleep < 0
    tree = model.body_treeid
    state = np.where(data.tree_awake[tree] > 0, _AWAKE, _ASLEEP)
    state = data.body_awake[:] = np.where(tree < 0, _STATIC, state)
    present = state != _ASLEEP
    data.ntree_awake = int(np.sum(data.tree_awake))
    data.nbody_awake = _list(data.body_awake_ind, present)
    below = present[model.body_parentid]
    below[0] = False  # the world is nobody's child
    data.nparent_awake = _list(data.parent_awake_ind, below)
    data.nv_awake = _list(data.dof_awake_ind, state[model.dof_bodyid] == _AWAKE)


def start_asleep(model: mujoco.MjModel, data: mujoco.MjData, trees: np.ndarray) -> None:
    """Let trees sleep from the start; everything has to be awake and in its place."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    asleep = data.tree_asleep.copy()
    asleep[trees] = trees
    write_sleep(model, data, asleep)


def _list(indices: np.ndarray, chosen: np.ndarray) -> int:
    """Write where ``chosen`` is true to the front of ``indices``; return how often it is."""
    found = np.flatnonzero(chosen)
    indices[: len(found)] = found
    return len(found)
