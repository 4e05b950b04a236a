"""Mini-batches of demonstrations, and what each label in them counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from skills.superseded.imitation.demonstrations import Demonstration
from skills.tasks.base import ActionLayout
from skills.tasks.sensors import DEPTH
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import Policy

_HOLDING = "is_holding"


class Weighing(Protocol):
    """What decides weights and returns, see ``cloning.CloneOptions``."""

    gamma: float
    reward_scale: float
    stop_weight: float
    grip_weight: float
    idle: float


@dataclass
class Batch:
    """Some steps in packed order, see :class:`ver_trainer.nets.core.Packing`.

    Attributes:
        observations: name -> (N, ...).
        actions: (N, A) labels.
        weights: (N, A), 0 where there is no label.
        returns: (N,).
        packing: how the rows form sequences.
    """

    observations: dict[str, Tensor]
    actions: Tensor
    weights: Tensor
    returns: Tensor
    packing: Packing


def label_weights(episode: Demonstration, options: Weighing, layout: ActionLayout) -> np.ndarray:
    """Return (T, A) float32: what each label of an episode counts.

    Args:
        episode: of T steps with (T, A) actions.
        options: see :class:`Weighing`.
        layout: of its actions.
    """
    actions = episode.actions
    weights = np.repeat(episode.weights[:, None], layout.size, axis=1).astype(np.float32)
    idle = np.abs(actions[:, layout.moving]).max(axis=1) <= options.idle
    if options.idle > 0:
        weights[np.ix_(idle, layout.moving)] = 0.0
    if layout.stop:
        weights[actions[:, -1] > 0, -1] *= options.stop_weight
    if layout.grip and _HOLDING in episode.observations:
        holding, grip = episode.observations[_HOLDING][:, 0] > 0.5, layout.grip_index
        weights[(actions[:, grip] > 0) != holding, grip] *= options.grip_weight
    return weights


def make_batch(
    policy: Policy,
    episodes: Sequence[Demonstration],
    options: Weighing,
    layout: ActionLayout,
) -> Batch:
    """Arrange episodes for :meth:`ver_trainer.nets.policy.Policy.distribution`.

    All first steps come first, longest episode first, then all second ones.

    Args:
        policy: decides device and recurrent state.
        episodes: of any lengths.
        options: discount and weights.
        layout: of the actions.
    """
    device = next(policy.parameters()).device
    episodes = sorted(episodes, key=len, reverse=True)
    lengths = np.array([len(d) for d in episodes])
    sizes = (lengths[:, None] > np.arange(lengths[0])).sum(axis=0)
    starts = np.cumsum(lengths) - lengths
    order = np.concatenate([starts[:size] + step for step, size in enumerate(sizes)])

    def packed(arrays: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays)[order]).to(device)

    return Batch(
        {k: packed([d.observations[k] for d in episodes]) for k in episodes[0].observations},
        packed([d.actions for d in episodes]),
        packed([label_weights(d, options, layout) for d in episodes]),
        packed([d.returns(options.gamma) for d in episodes]) * options.reward_scale,
        Packing(torch.from_numpy(sizes), policy.initial_state(len(episodes), device)),
    )


class Rows:
    """All labelled steps of some episodes, for a policy without memory.

    Depth stays where it is in memory until a mini-batch needs it.

    Args:
        episodes: demonstrations.
        options: discount and weights.
        layout: of the actions.
    """

    def __init__(
        self, episodes: Sequence[Demonstration], options: Weighing, layout: ActionLayout
    ) -> None:
        labelled = np.concatenate([d.weights for d in episodes]) > 0
        lengths = [len(d) for d in episodes]
        of = np.repeat(np.arange(len(episodes)), lengths)[labelled]
        at = np.concatenate([np.arange(n) for n in lengths])[labelled]
        self._where = list(zip(of.tolist(), at.tolist(), strict=True))
        names = [name for name in episodes[0].observations if name != DEPTH]
        self._depth = [d.observations[DEPTH] for d in episodes if DEPTH in d.observations]
        self._vectors = {
            k: np.concatenate([d.observations[k] for d in episodes])[labelled] for k in names
        }
        self._actions = np.concatenate([d.actions for d in episodes])[labelled]
        weights = [label_weights(d, options, layout) for d in episodes]
        self._weights = np.concatenate(weights)[labelled]
        returns = np.concatenate([d.returns(options.gamma) for d in episodes])[labelled]
        self._returns = returns * np.float32(options.reward_scale)

    def __len__(self) -> int:
        return len(self._where)

    def batch(self, policy: Policy, chosen: np.ndarray) -> Batch:
        """Return the mini-batch of some rows.

        Args:
            policy: decides device and the size of the recurrent state.
            chosen: (n,) row numbers.
        """
        device = next(policy.parameters()).device

        def rows(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array[chosen]).to(device)

        observations = {k: rows(v) for k, v in self._vectors.items()}
        if self._depth:
            where = [self._where[k] for k in chosen]
            pictures = np.stack([self._depth[episode][step] for episode, step in where])
            observations[DEPTH] = torch.from_numpy(pictures).to(device)
        state = policy.initial_state(len(chosen), device)
        return Batch(
            observations,
            rows(self._actions),
            rows(self._weights),
            rows(self._returns),
            Packing(torch.tensor([len(chosen)]), state),
        )
