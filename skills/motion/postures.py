"""Arm postures: tables of the planar closed form, resting postures."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from tpsrl.robot.fetch import ARM_DELTA, ARM_INIT, RESTING_POSITION
from tpsrl.robot.kinematics import arm_kinematics

PAN = -0.2
"""Shoulder pan of reaching postures, rad: near ``ARM_INIT``'s, so little time goes into it."""


_REST_WITHIN = 0.11
"""How near to the resting position a resting posture brings the cup, m (success: 0.15)."""


def arm_steps(start: np.ndarray, goal: np.ndarray) -> float:
    """Return how many control steps the slowest joint needs, the last, free one left out."""
    return float(np.abs(goal - start)[:-1].max()) / ARM_DELTA


@cache
def _rest_postures() -> np.ndarray:
    """Return (k, 7) postures that hold the cup near its resting position.

    With the elbow swung out by the rolls, such a posture is nearer to a stretched arm.
    """
    kinematics = arm_kinematics()
    grid = itertools.product(
        np.linspace(-1.0, 0.3, 10),
        (-1.2, -1.0),
        np.linspace(0.0, 0.8, 5),
        np.linspace(0.7, 1.6, 8),
        (0.0, 0.3, 0.6),
        np.linspace(0.9, 2.0, 10),
    )
    postures = np.array([(*joints, 0.0) for joints in grid])
    tips = np.array([kinematics.forward(qpos).pos for qpos in postures])
    return postures[np.linalg.norm(tips - RESTING_POSITION, axis=1) < _REST_WITHIN]


def rest_posture(qpos: np.ndarray) -> np.ndarray:
    """Return the (7,) resting posture that is reached soonest from ``qpos``.

    Among postures reached about as soon, the one nearest to ``ARM_INIT``.

    Args:
        qpos: (7,) rad.
    """
    postures = _rest_postures()
    steps = np.abs(postures - qpos).max(axis=1)
    home = np.abs(postures - ARM_INIT).max(axis=1)
    return postures[int(np.argmin(steps + 0.15 * home))].copy()
