"""Turns Gymnasium spaces into flat array layouts.

Observations become a flat dictionary of arrays: a ``Dict`` space gives one array per leaf with the
path joined by dots, anything else gives the single key ``obs``. Boxes keep their shape (``float64``
is stored as ``float32``); discrete leaves are stored one-hot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ver_trainer.errors import SpaceError


@dataclass(frozen=True)
class ArraySpec:
    """Shape (without the batch axis) and dtype name of one array."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class ActionSpec:
    """What the policy must produce.

    ``kind`` is ``discrete`` (``size`` = number of choices) or ``continuous`` (``size`` = number of
    dimensions, ``shape`` the shape the environment wants, ``low``/``high`` its bounds, flattened).
    """

    kind: str
    size: int
    shape: tuple[int, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    start: int = 0

    @property
    def row(self) -> ArraySpec:
        """Layout of one action in the transfer buffers."""
        if self.kind == "discrete":
            return ArraySpec((), "int64")
        return ArraySpec((self.size,), "float32")


@dataclass(frozen=True)
class EnvSpec:
    """Layout of one environment: observations and action."""

    observations: dict[str, ArraySpec]
    action: ActionSpec


def describe(observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> EnvSpec:
    """Describes an environment's spaces.

    Raises:
        SpaceError: for action spaces other than Box and Discrete, and for observation leaves that
            are neither Box nor discrete.
    """
    return EnvSpec(dict(_leaves(observation_space, "")), describe_action(action_space))


def describe_action(space: gym.Space[Any]) -> ActionSpec:
    """Describes an action space; see :class:`ActionSpec`."""
    if isinstance(space, spaces.Discrete):
        return ActionSpec("discrete", int(space.n), (), start=int(space.start))
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        low, high = (tuple(map(float, bound.reshape(-1))) for bound in (space.low, space.high))
        return ActionSpec("continuous", int(np.prod(space.shape)), tuple(space.shape), low, high)
    raise SpaceError(
        f"the action space {space} is not supported: wrap the environment so that its actions are "
        "a Discrete or a floating-point Box space"
    )


def _leaves(space: gym.Space[Any], prefix: str) -> list[tuple[str, ArraySpec]]:
    name = prefix or "obs"
    if isinstance(space, spaces.Dict):
        if not space.spaces:
            raise SpaceError(f"the observation '{name}' is an empty Dict: give it at least one key")
        found: list[tuple[str, ArraySpec]] = []
        for key, child in space.spaces.items():
            found += _leaves(child, f"{prefix}.{key}" if prefix else str(key))
        return found
    if isinstance(space, spaces.Box):
        dtype = "uint8" if space.dtype == np.uint8 else "float32"
        return [(name, ArraySpec(tuple(space.shape), dtype))]
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return [(name, ArraySpec((spaces.flatdim(space),), "float32"))]
    raise SpaceError(
        f"the observation '{name}' has the space {space}, which is not supported: wrap the "
        "environment so that its observations are Box, discrete or a Dict of those"
    )


class ObservationWriter:
    """Writes observations of one space into rows of the transfer buffers."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self._leaves: list[tuple[str, tuple[str, ...], gym.Space[Any]]] = []
        self._collect(space, ())

    def _collect(self, space: gym.Space[Any], path: tuple[str, ...]) -> None:
        if isinstance(space, spaces.Dict):
            for key, child in space.spaces.items():
                self._collect(child, (*path, key))
        else:
            self._leaves.append((".".join(map(str, path)) or "obs", path, space))

    def write(self, observation: Any, buffers: dict[str, np.ndarray], row: int) -> None:
        """Copies ``observation`` into ``buffers[name][row]`` for every leaf that has a buffer."""
        for name, path, space in self._leaves:
            if name not in buffers:
                continue
            value = observation
            for key in path:
                value = value[key]
            if not isinstance(space, spaces.Box):
                value = spaces.flatten(space, value)
            buffers[name][row] = value

    def write_batch(
        self,
        observation: Any,
        buffers: dict[str, np.ndarray],
        worlds: slice | np.ndarray = slice(None),
    ) -> None:
        """Copies ``worlds`` of a batched observation into the same rows, for every leaf.

        Args:
            observation: arrays ``[n, *shape]``, in dicts where the space is one.
            buffers: name to array ``[n, *shape]``.
            worlds: which of the ``n``.
        """
        for name, path, space in self._leaves:
            value = observation
            for key in path:
                value = value[key]
            chosen = np.asarray(value)[worlds]
            buffers[name][worlds] = (
                chosen if isinstance(space, spaces.Box) else _flat(space, chosen)
            )


def _flat(space: gym.Space[Any], values: np.ndarray) -> np.ndarray:
    """Discrete values ``[n, ...]`` one-hot ``[n, size]``."""
    if isinstance(space, spaces.Discrete):
        return (values[:, None] - space.start == np.arange(space.n)).astype(np.float32)
    return np.stack([np.asarray(spaces.flatten(space, value)) for value in values])


def to_env_action(spec: ActionSpec, action: np.ndarray) -> Any:
    """Turns a row of the action buffer into what ``env.step`` wants."""
    if spec.kind == "discrete":
        return int(action) + spec.start
    return action.reshape(spec.shape)


def to_env_actions(spec: ActionSpec, actions: np.ndarray, dtype: Any) -> np.ndarray:
    """Turns rows of the action buffer into what a batched ``env.step`` wants: a copy."""
    if spec.kind == "discrete":
        return (actions + spec.start).astype(dtype)
    return actions.reshape(len(actions), *spec.shape).astype(dtype)


def rescale_action(spec: ActionSpec, action: np.ndarray) -> np.ndarray:
    """Maps policy actions to the environment's bounds.

    Args:
        spec: the action space.
        action: float array ``[n, size]``; -1 and 1 mean the lower and upper bound where both are
            finite, otherwise the value is passed on unchanged.

    Returns:
        Array ``[n, size]`` clipped to the bounds.
    """
    low, high = np.asarray(spec.low, np.float32), np.asarray(spec.high, np.float32)
    bounded = np.isfinite(low) & np.isfinite(high)
    # Infinite bounds leave a dimension as it is.
    lower, upper = np.where(bounded, low, -1), np.where(bounded, high, 1)
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    return np.clip(action * half + centre, low, high).astype(np.float32)
