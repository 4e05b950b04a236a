"""Prediction of what only the critic is told: an auxiliary loss for actors that must find out."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ver_trainer.config import PredictConfig
from ver_trainer.errors import ConfigError
from ver_trainer.learner.extras import ExtraLoss, along
from ver_trainer.nets.encoder import Encoder, mlp
from ver_trainer.nets.policy import Pass, Policy
from ver_trainer.rollout.batch import MiniBatch, Rollout


class Prediction:
    """The output of the actor's core must tell vectors that only a separate critic is given.

    In simulation the critic may know the whole state. A small network reads the belief and predicts
    it, in the critic's units (its running mean and deviation), so that features and memory keep
    what bears on the state even where no action says so yet. Lambrechts et al. 2023 ("Informed
    POMDP") train a world model's latent state to decode such information; here it is a model-free
    actor's memory. The network is saved with the optimizer, not with the policy.

    Args:
        policy: with a critic of its own.
        config: what is predicted, and the weight.

    Raises:
        ConfigError: nothing is left that only the critic is given.
    """

    name, labels = "predict", False

    def __init__(self, policy: Policy, config: PredictConfig) -> None:
        self.config, self.coefficient = config, config.coef[0]
        encoder = policy.critic_encoder
        if not isinstance(encoder, Encoder):
            raise ConfigError(
                "predict.coef teaches the actor what a critic of its own is told: set "
                "net.separate_critic=true, or leave predict.* out"
            )
        self._encoder = encoder
        self.names = _chosen(policy, encoder, config)
        columns: list[int] = []
        at = 0
        for name in encoder.vectors:
            size = math.prod(encoder.shapes[name])
            columns += range(at, at + size) if name in self.names else ()
            at += size
        self._columns = torch.tensor(columns)
        inner = mlp(policy.core.out_features, [config.size], "elu")
        self.module = nn.Sequential(*inner, nn.Linear(config.size, len(columns)))

    def prepare(self, rollout: Rollout, progress: float, steps: int) -> None:
        """Set the weight."""
        self.coefficient = along(self.config.coef, progress)

    def loss(self, forward: Pass, batch: MiniBatch) -> ExtraLoss | None:
        """Huber loss, summed over entries; records the share of their variance that is told."""
        if not self.coefficient:
            return None
        wanted = self._targets(batch.obs)
        found = self.module(forward.belief)
        error = F.smooth_l1_loss(found, wanted, reduction="none").sum(dim=-1)
        with torch.no_grad():
            spread = (wanted - wanted.mean(dim=0)).square().mean()
            told = 1 - (found - wanted).square().mean() / (spread + 1e-8)
        return ExtraLoss((error * batch.weight).mean(), {"explained": told})

    def _targets(self, obs: dict[str, Tensor]) -> Tensor:
        vector = self._encoder.vector(obs)
        if self._encoder.norm is not None:
            vector = self._encoder.norm(vector)
        return vector[:, self._columns.to(vector.device)]

    def state_dict(self) -> dict[str, Any]:
        """Nothing but the module, which the learner keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""


def _chosen(policy: Policy, encoder: Encoder, config: PredictConfig) -> list[str]:
    """Names of the vectors to predict."""
    own = [name for name in encoder.vectors if name not in policy.actor_obs]
    wanted = config.obs or ["*"]
    names = [name for name in own if any(fnmatchcase(name, pattern) for pattern in wanted)]
    if not names:  # patterns that fit nothing are allowed: one recipe serves several environments
        has = f"they are {', '.join(own)}" if own else "there are none"
        raise ConfigError(
            f"predict.obs={list(config.obs)} fits no vector that the critic reads and the actor"
            f" does not: {has}; see net.actor_obs and net.critic_obs"
        )
    return names
