"""Holds a policy close to the pretrained one that it started from."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ver_trainer.config import PPOConfig
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.batch import MiniBatch, Rollout
from ver_trainer.rollout.sequences import pack


class Anchor:
    """Penalty KL(pretrained policy || policy), with a weight that falls linearly to 0.

    The pretrained policy keeps recurrent states of its own: once per rollout it runs over the new
    rows, from the states in which it left every environment's last rollout.

    Args:
        policy: at its pretrained weights; copied.
        config: ``anchor_coef`` and ``anchor_steps``.
        num_envs: environments of this rank.
    """

    def __init__(self, policy: Policy, config: PPOConfig, num_envs: int) -> None:
        self.config = config
        self.policy = copy.deepcopy(policy).requires_grad_(False)
        device = next(policy.parameters()).device
        self.state = torch.zeros(num_envs, policy.actor_state_size, device=device)
        self.coefficient = config.anchor_coef
        self._targets: Tensor | None = None
        self._known = np.zeros(0, bool)

    @torch.no_grad()
    def prepare(self, rollout: Rollout, progress: float, steps: int) -> None:
        """Computes what the pretrained policy would have done in the fresh rows of ``rollout``.

        Args:
            rollout: the rollout about to be learned from.
            progress: share of the training done.
            steps: environment steps done.
        """
        limit = self.config.anchor_steps
        share = steps / limit if limit else progress
        self.coefficient = self.config.anchor_coef * max(1.0 - share, 0.0)
        if not self.coefficient:
            self._targets = None
            return
        storage, order = rollout.storage, rollout.fresh
        packed = pack(order.rows, order.starts, order.lengths)
        env = storage.env[packed.first_rows]
        # An environment may have several sequences: one goes on, the others start an episode.
        begins = storage.step[packed.first_rows] == 0
        index = torch.from_numpy(env).to(self.state.device)
        state = self.state[index]
        state[torch.from_numpy(begins).to(state.device)] = 0.0
        rows = torch.from_numpy(packed.rows).to(self.state.device)
        obs = {name: tensor[rows] for name, tensor in storage.obs.items()}
        packing = Packing(torch.from_numpy(packed.batch_sizes), state)
        distribution, last = self.policy.actor_pass(obs, packing)
        flat = distribution.flat()
        self._targets = flat.new_zeros(storage.capacity, flat.shape[1])
        self._targets[rows] = flat
        self._known = np.zeros(storage.capacity, bool)
        self._known[packed.rows] = True
        newest = np.argsort(storage.episode[packed.first_rows], kind="stable")
        for sequence in newest.tolist():  # the latest episode of an environment comes last
            self.state[env[sequence]] = last[sequence]

    def loss(self, distribution: Any, batch: MiniBatch) -> Tensor | None:
        """Mean divergence of a mini-batch's rows in nats; None once the weight is 0."""
        if self._targets is None:
            return None
        index = torch.from_numpy(batch.rows).to(self._targets.device)
        divergence = distribution.divergence(self._targets[index])
        known = torch.from_numpy(self._known[batch.rows]).to(divergence.device)
        return (divergence * batch.weight * known).mean()
