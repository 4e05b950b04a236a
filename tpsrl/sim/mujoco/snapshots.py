"""What decides the future of a world, about 10 kB, and a world put back from it.

MuJoCo's own data is 1.6 MB, nearly all of it computed anew in every step. What sleeps, which
``mj_getState`` does not say, is kept here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from tpsrl.sim.mujoco.sleep import write_sleep

_STATE = mujoco.mjtState
_SPEC = int(
    _STATE.mjSTATE_TIME
    | _STATE.mjSTATE_QPOS
    | _STATE.mjSTATE_QVEL
    | _STATE.mjSTATE_WARMSTART
    | _STATE.mjSTATE_CTRL
    | _STATE.mjSTATE_EQ_ACTIVE
)
"""Forces of a user's own are not among them: nothing here applies any."""
_STALE = ("qacc", "qacc_smooth")
"""Of what sleeps these are as old as its sleep; the solver begins with them when it wakes."""


def freeze(model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, Any]:
    """Return the state of MuJoCo's data, picklable."""
    state = np.empty(mujoco.mj_stateSize(model, _SPEC))
    mujoco.mj_getState(model, data, state, _SPEC)
    state = np.concatenate([state, *(getattr(data, name) for name in _STALE)])
    moved = state.view(np.int64) != 0  # the speeds of most things are none
    return {
        "state": state[moved],
        "moved": np.packbits(moved),
        "asleep": data.tree_asleep.copy(),
    }


def thaw(model: mujoco.MjModel, data: mujoco.MjData, saved: Mapping[str, Any]) -> None:
    """Put back what :func:`freeze` returned; the furniture and the pool have to be the same."""
    mujoco.mj_resetData(model, data)
    size, most = mujoco.mj_stateSize(model, _SPEC), model.nv
    state = np.zeros(size + most * len(_STALE))
    state[np.unpackbits(saved["moved"], count=len(state)).astype(bool)] = saved["state"]
    mujoco.mj_setState(model, data, state[:size], _SPEC)
    # After a reset everything is awake: this computes what sleeps, too, as it was when it fell
    # asleep, and places the furniture.
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)
    for name, values in zip(_STALE, state[size:].reshape(-1, most), strict=True):
        getattr(data, name)[:] = values
    write_sleep(model, data, saved["asleep"])
