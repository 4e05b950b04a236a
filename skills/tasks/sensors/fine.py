"""Vectors told finely where they are short: beside a range of metres centimetres are not seen."""

from __future__ import annotations

from typing import Any

from skills.tasks.state import View
from tpsrl.geometry.arrays import Array, norm


def fine(view: View, sensed: Array, within: float) -> Array:
    """Return (n, 4): tanh of a way over 0.1 m, and of its length beyond ``within`` over 0.05 m."""
    xp = view.xp
    near = (norm(xp, sensed) - within) / 0.05
    return xp.tanh(xp.concat([sensed / 0.1, near[:, None]], axis=-1))


def finely(view: View, way: Array) -> Array:
    """Return (n, 3): tanh of a vector of the world's, in the base frame, over 0.1 m."""
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    ahead, left = turned(xp, yaw, way[:, 0], way[:, 1])
    return xp.tanh(xp.stack([ahead, left, way[:, 2]], axis=-1) / 0.1)


def turned(xp: Any, yaw: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return how far a vector of the world's goes ahead and to the left of a base."""
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    return cos * x + sin * y, cos * y - sin * x
