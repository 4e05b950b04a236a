"""Arm postures: tables of the planar closed form, resting postures."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tpsrl.robot.fetch import ARM_DELTA, ARM_INIT, RESTING_POSITION
from tpsrl.robot.kinematics import arm_kinematics

PAN = -0.2
"""Shoulder pan of reaching postures, rad: near ``ARM_INIT``'s, so little time goes into it."""


def arm_steps(start: np.ndarray, goal: np.ndarray) -> float:
    """Return how many control steps the slowest joint needs."""
    return float(np.abs(goal - start).max()) / ARM_DELTA


@lru_cache(maxsize=1)
def _rest_postures() -> np.ndarray:
    """Return (k, 7) postures that hold the cup near its resting position."""
    kinematics = arm_kinematics()
    found = []
    for pan in np.linspace(-0.3, 0.3, 13):
        for radius in np.linspace(0.36, 0.60, 13):
            for height in np.linspace(0.90, 1.10, 11):
                for pitch in np.linspace(0.8, 2.0, 13):
                    qpos = kinematics.planar(pan, radius, height, pitch)
                    if qpos is None:
                        continue
                    offset = kinematics.forward(qpos).pos - RESTING_POSITION
                    if np.linalg.norm(offset) < 0.11:
                        found.append(qpos)
    return np.array(found)


def rest_posture(qpos: np.ndarray) -> np.ndarray:
    """Return the (7,) resting posture that is reached soonest from ``qpos``.

    Among postures reached about as soon, the one nearest to ``ARM_INIT``.
    """
    postures = _rest_postures()
    steps = np.abs(postures - qpos).max(axis=1)
    home = np.abs(postures - ARM_INIT).max(axis=1)
    return postures[int(np.argmin(steps + 0.3 * home))].copy()
