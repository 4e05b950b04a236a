"""The actor-critic policy: encoder, core, actor head and critic head."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec
from ver_trainer.nets.core import LSTMCore, NoCore, Packing
from ver_trainer.nets.encoder import Encoder
from ver_trainer.nets.heads import Categorical, CategoricalHead, DiagonalGaussian, GaussianHead

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class PolicyStep(NamedTuple):
    """Result of one inference step over ``n`` environments."""

    action: Tensor
    log_prob: Tensor
    value: Tensor
    state: Tensor


class Evaluation(NamedTuple):
    """Policy outputs for the rows of a mini-batch, each ``[n]``."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class Policy(nn.Module):
    """Actor-critic network over a flat dictionary of observations.

    The recurrent state is one flat float row per environment (``state_size`` may be 0); zeros mean
    the start of an episode.
    """

    def __init__(self, spec: EnvSpec, config: NetConfig, precision: str = "float32") -> None:
        super().__init__()
        self.spec, self.config = spec, config
        self.precision = PRECISIONS[precision]
        self.encoder = Encoder(spec.observations, config)
        self.critic_encoder = Encoder(spec.observations, config) if config.separate_critic else None
        inputs = self.encoder.out_features
        self.core: LSTMCore | NoCore = (
            LSTMCore(inputs, config.core_size, config.core_layers)
            if config.core == "lstm"
            else NoCore(inputs)
        )
        features = self.core.out_features
        self.actor: CategoricalHead | GaussianHead = (
            CategoricalHead(features, spec.action.size)
            if spec.action.kind == "discrete"
            else GaussianHead(features, spec.action.size, config.std, config.initial_std)
        )
        self.critic = nn.Linear(features, 1)
        nn.init.orthogonal_(self.critic.weight, 1.0)
        nn.init.zeros_(self.critic.bias)
        if config.compile:
            self.encoder.compile()

    @property
    def state_size(self) -> int:
        """Entries of the recurrent state of one environment."""
        return self.core.state_size

    def initial_state(self, n: int, device: torch.device | str = "cpu") -> Tensor:
        """State of ``n`` environments at the start of an episode: zeros."""
        return torch.zeros(n, self.state_size, device=device)

    def act(
        self,
        obs: dict[str, Tensor],
        state: Tensor,
        generator: torch.Generator | None = None,
        deterministic: bool = False,
    ) -> PolicyStep:
        """One step for ``n`` environments.

        Args:
            obs: name to ``[n, *shape]``.
            state: ``[n, state_size]``.
            generator: source of the sampling noise.
            deterministic: take the mode instead of a sample.
        """
        features, next_state = self.core.step(self._encode(obs), state)
        distribution = self.actor(features)
        action = distribution.mode() if deterministic else distribution.sample(generator)
        value = self._value(obs, features)
        return PolicyStep(action, distribution.log_prob(action), value, next_state)

    def value(self, obs: dict[str, Tensor], state: Tensor) -> Tensor:
        """State values ``[n]``."""
        features, _ = self.core.step(self._encode(obs), state)
        return self._value(obs, features)

    def evaluate(self, obs: dict[str, Tensor], action: Tensor, packing: Packing) -> Evaluation:
        """Evaluates the rows of a mini-batch, which are in packed order."""
        distribution, value = self.distribution(obs, packing)
        return Evaluation(distribution.log_prob(action), distribution.entropy(), value)

    def distribution(
        self, obs: dict[str, Tensor], packing: Packing
    ) -> tuple[Categorical | DiagonalGaussian, Tensor]:
        """Action distribution and values for the rows of a mini-batch in packed order."""
        features = self.core.sequence(self._encode(obs), packing)
        return self.actor(features), self._value(obs, features)

    def _encode(self, obs: dict[str, Tensor]) -> Tensor:
        return self._run(self.encoder, obs)

    def _run(self, encoder: nn.Module, obs: dict[str, Tensor]) -> Tensor:
        if self.precision == torch.float32:
            return encoder(obs)
        device = next(iter(obs.values())).device.type
        with torch.autocast(device, self.precision):
            return encoder(obs).float()

    def _value(self, obs: dict[str, Tensor], features: Tensor) -> Tensor:
        if self.critic_encoder is not None:
            features = self._run(self.critic_encoder, obs)
        return self.critic(features).squeeze(-1)

    @torch.no_grad()
    def normalizers(self) -> list[tuple[Encoder, Any]]:
        """Encoders with running observation statistics, and these statistics."""
        encoders = [self.encoder, self.critic_encoder]
        return [(e, e.norm) for e in encoders if e is not None and e.norm is not None]


def make_policy(
    spec: EnvSpec, config: NetConfig | None = None, precision: str = "float32"
) -> Policy:
    """Makes a policy for environments described by ``spec`` (see ``envs.spaces.describe``)."""
    return Policy(spec, config or NetConfig(), precision)


def spec_to_dict(spec: EnvSpec) -> dict[str, Any]:
    """Plain data of a specification, for JSON."""
    return dataclasses.asdict(spec)


def spec_from_dict(data: dict[str, Any]) -> EnvSpec:
    """Inverse of :func:`spec_to_dict`."""
    observations = {
        name: ArraySpec(tuple(item["shape"]), item["dtype"])
        for name, item in data["observations"].items()
    }
    action = dict(data["action"])
    for key in ("shape", "low", "high"):
        action[key] = tuple(action[key])
    return EnvSpec(observations, ActionSpec(**action))
