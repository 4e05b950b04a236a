"""From a finished rollout to mini-batches of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ver_trainer.config import PPOConfig
from ver_trainer.nets.core import Packing
from ver_trainer.rollout.returns import gae
from ver_trainer.rollout.sequences import (
    PackedRows,
    Sequences,
    mini_batches,
    split_long,
)
from ver_trainer.rollout.storage import RolloutStorage


@dataclass
class MiniBatch:
    """Rows of a mini-batch in packed order; every tensor is ``[n, ...]`` on the device.

    ``weight`` is the truncated importance weight of the row's environment.
    """

    obs: dict[str, Tensor]
    action: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor
    weight: Tensor
    packing: Packing
    rows: np.ndarray


class Rollout:
    """A finished rollout: its sequences, returns and importance weights.

    Attributes:
        mean, std: mini-batches hold ``(advantage - mean) / std``. The storage keeps advantages as
            they are: stale rows are normalised again, together with other rows.
    """

    mean, std = 0.0, 1.0

    def __init__(self, storage: RolloutStorage, config: PPOConfig, recurrent: bool) -> None:
        self.storage, self.config = storage, config
        fresh = storage.fresh_rows()
        self.fresh = storage.sequences(fresh)
        self.rows = np.concatenate((fresh, storage.fill_rows()))
        self.weight = importance_weights(
            storage.env[self.rows], storage.num_envs, config.max_importance_weight
        )
        if not config.importance_weights:
            self.weight[:] = 1.0
        self._weight_of_row = np.zeros(storage.capacity, np.float32)
        self._weight_of_row[self.rows] = self.weight
        self.sequences = self._training_sequences(recurrent)

    def _training_sequences(self, recurrent: bool) -> Sequences:
        if not recurrent:  # nothing ties the rows together: shuffle them one by one
            ones = np.ones(len(self.rows), np.int64)
            return Sequences(self.rows, np.arange(len(self.rows)), ones)
        sequences = self.storage.sequences(self.rows)
        if self.config.max_sequence:
            sequences = split_long(sequences, self.config.max_sequence)
        return sequences

    def compute_gae(self) -> None:
        """Fills ``advantage`` and ``returns`` of the fresh rows; stale rows keep theirs."""
        storage, order = self.storage, self.fresh
        rows = order.rows
        values = storage.tensors["value"].float().cpu().numpy()[rows]
        last = storage.next_value[rows[order.starts + order.lengths - 1]]
        advantage = gae(
            storage.reward[rows] * self.config.reward_scale,
            values,
            last,
            order.starts,
            order.lengths,
            self.config.gamma,
            self.config.gae_lambda,
        )
        storage.advantage[rows] = advantage
        storage.returns[rows] = advantage + values

    def mini_batches(self, count: int, rng: np.random.Generator) -> Iterator[MiniBatch]:
        """One epoch: every row in exactly one mini-batch."""
        for packed in mini_batches(self.sequences, count, rng):
            yield self.gather(packed)

    def gather(self, packed: PackedRows) -> MiniBatch:
        """Collects the tensors of one mini-batch."""
        storage = self.storage
        tensors = storage.tensors
        device = tensors["value"].device
        index = torch.from_numpy(packed.rows).to(device)
        firsts = torch.from_numpy(packed.first_rows).to(device)

        def floats(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array[packed.rows]).to(device)

        action = tensors["action"][index]
        return MiniBatch(
            {name: tensor[index] for name, tensor in storage.obs.items()},
            action,
            tensors["log_prob"][index],
            tensors["value"][index],
            (floats(storage.advantage) - self.mean) / self.std,
            floats(storage.returns),
            floats(self._weight_of_row),
            Packing(torch.from_numpy(packed.batch_sizes), tensors["state"][firsts], action),
            packed.rows,
        )


def importance_weights(env: np.ndarray, num_envs: int, maximum: float) -> np.ndarray:
    """Weights that undo the over-representation of fast environments, truncated at ``maximum``.

    Wijmans et al. 2022, section 2.2: with ``n_e`` of the ``R`` rows from environment ``e``, the
    weight of its rows is ``min((R / num_envs) / n_e, maximum)``.
    """
    counts = np.bincount(env, minlength=num_envs)
    share = len(env) / num_envs
    weights = np.minimum(share / np.maximum(counts, 1), maximum)
    return weights[env].astype(np.float32)
