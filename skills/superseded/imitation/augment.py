"""Variants of demonstrations of driving: what the mirror shows, and a camera that looks aside."""

from __future__ import annotations

import dataclasses

import numpy as np

from skills.superseded.imitation.demonstrations import Demonstration
from skills.tasks.scan import SCAN
from skills.tasks.sensors import DEPTH
from tpsrl.errors import UserError

_POLAR = "goal_to_agent_gps_compass"
_MIRRORED = {DEPTH, _POLAR, SCAN, "joint"}
_DRIVING = 3
"""Actions forward, turn, stop."""


def check_mirror(episode: Demonstration) -> None:
    """Refuse demonstrations that :func:`mirrored` does not understand.

    Raises:
        UserError: other observations or actions than Navigate's.
    """
    others = sorted(set(episode.observations) - _MIRRORED)
    if others or episode.actions.shape[1] != _DRIVING:
        what = f"observations {', '.join(others)}" if others else "actions of the arm"
        raise UserError(f"imitate.clone.mirror cannot mirror {what}; leave it at 0.")


def mirrored(episode: Demonstration) -> Demonstration:
    """Return the episode with left and right exchanged.

    The arm is not: its joints keep their values, and it appears on the other side of the picture.
    """
    seen, actions = dict(episode.observations), episode.actions.copy()
    actions[:, 1] *= -1.0
    if DEPTH in seen:
        seen[DEPTH] = np.ascontiguousarray(seen[DEPTH][:, :, ::-1])
    if SCAN in seen:
        seen[SCAN] = np.ascontiguousarray(seen[SCAN][:, ::-1])
    if _POLAR in seen:
        seen[_POLAR] = seen[_POLAR] * np.array([1.0, -1.0], np.float32)
    return dataclasses.replace(episode, observations=seen, actions=actions)


def shifted(episode: Demonstration, right: int, down: int) -> Demonstration:
    """Return the episode with its pictures moved by so many pixels, their edges repeated."""
    if DEPTH not in episode.observations or (right == 0 and down == 0):
        return episode
    picture = episode.observations[DEPTH]
    rows = np.clip(np.arange(picture.shape[1]) - down, 0, picture.shape[1] - 1)
    columns = np.clip(np.arange(picture.shape[2]) - right, 0, picture.shape[2] - 1)
    seen = {**episode.observations, DEPTH: picture[:, rows][:, :, columns]}
    return dataclasses.replace(episode, observations=seen)


def varied(
    episode: Demonstration, rng: np.random.Generator, mirror: float, shift: int
) -> Demonstration:
    """Return the episode mirrored with probability ``mirror`` and moved by up to ``shift``."""
    if rng.random() < mirror:
        episode = mirrored(episode)
    right, down = (int(k) for k in rng.integers(-shift, shift + 1, 2))
    return shifted(episode, right, down)
