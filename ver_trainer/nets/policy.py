"""The actor-critic policy: encoder, core, actor head and critic head."""

from __future__ import annotations

import dataclasses
import math
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec
from ver_trainer.errors import ConfigError
from ver_trainer.nets.core import LSTMCore, NoCore, Packing, make_core
from ver_trainer.nets.encoder import Encoder, make_encoder
from ver_trainer.nets.heads import Categorical, DiagonalGaussian, GaussianHead, make_head
from ver_trainer.nets.normalization import RunningNorm
from ver_trainer.plugins import is_foreign

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


class Pass(NamedTuple):
    """What a policy makes of the rows of a mini-batch, in packed order.

    Attributes:
        distribution: of the actions.
        value: in the unit of returns ``[n]``.
        embedding: the actor's encoder's features ``[n, features]``.
        belief: the output of its core ``[n, size]``.
    """

    distribution: Categorical | DiagonalGaussian
    value: Tensor
    embedding: Tensor
    belief: Tensor


class Policy(nn.Module):
    """Actor-critic network over a flat dictionary of observations.

    The recurrent state is one flat float row per environment (``state_size`` may be 0); zeros mean
    the start of an episode. It holds the last action where ``net.previous_action`` wants it and the
    state of the actor's core (together ``actor_state_size`` entries), then the state of a separate
    critic's core, then the exploration noise of the last step where ``net.noise_correlation`` wants
    it remembered.

    Values are in the unit of returns everywhere; with ``net.normalize_returns`` the critic's last
    layer is in units of their running deviation, from their running mean.

    Attributes:
        actor_obs, critic_obs: names of the observations that the two read; more may be given.
        critic_returns: running statistics of the returns, or None.
        correlation: of the exploration noise of successive steps now, where
            ``net.noise_correlation`` wants any: that, in a training at most
            ``ppo.max_correlation``.

    Raises:
        ConfigError: an option of ``net`` that does not fit the spaces.
    """

    def __init__(self, spec: EnvSpec, config: NetConfig, precision: str = "float32") -> None:
        super().__init__()
        self.spec, self.config = spec, config
        self.precision = PRECISIONS[precision]
        self.actor_obs = _chosen(spec, config.actor_obs, "net.actor_obs")
        self.critic_obs = _chosen(spec, config.critic_obs, "net.critic_obs")
        self.encoder = make_encoder({k: spec.observations[k] for k in self.actor_obs}, config)
        remembered = spec.action.size if config.previous_action else 0
        self.core = make_core(config, self.encoder.out_features + remembered)
        self.critic_encoder: Encoder | None
        self.critic_core: LSTMCore | NoCore | None
        self.critic_encoder, self.critic_core = self._critic_network()
        self.critic_returns = RunningNorm(1) if config.normalize_returns else None
        features = self.core.out_features
        self.actor = make_head(spec.action, config, features)
        own = self.critic_core
        self.critic = nn.Linear(features if own is None else own.out_features, 1)
        nn.init.orthogonal_(self.critic.weight, 1.0)
        nn.init.zeros_(self.critic.bias)
        self._sizes = [
            remembered,
            self.core.state_size,
            self.critic_core.state_size if self.critic_core is not None else 0,
            spec.action.size if config.noise_correlation else 0,
        ]
        self.correlation: Tensor | None
        rho = config.noise_correlation
        self.register_buffer("correlation", torch.tensor(rho) if rho else None)
        if config.compile:
            self.encoder.compile()

    @property
    def state_size(self) -> int:
        """Entries of the recurrent state of one environment."""
        return sum(self._sizes)

    @property
    def return_scale(self) -> Tensor:
        """Deviation of returns that is the critic's unit ``[1]``; 1 without statistics."""
        norm = self.critic_returns
        return self.critic.bias.new_ones(1) if norm is None else norm.std

    @property
    def acting_spec(self) -> EnvSpec:
        """Layout of an environment for acting alone: without what only the critic reads."""
        observations = {name: self.spec.observations[name] for name in self.actor_obs}
        return EnvSpec(observations, self.spec.action)

    @property
    def actor_state_size(self) -> int:
        """Entries of the recurrent state that the deterministic policy needs."""
        return self._sizes[0] + self._sizes[1]

    @property
    def recurrent(self) -> bool:
        """Whether actions or values depend on earlier observations of the episode."""
        return self._sizes[1] > 0

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
            obs: name to ``[n, *shape]``; the value is NaN where the critic's own are left out.
            state: ``[n, state_size]``.
            generator: source of the sampling noise.
            deterministic: take the mode instead of a sample.
        """
        previous, own, others, noise = state.split(self._sizes, dim=-1)
        features, own = self.core.step(self._features(self.encoder, obs, previous), own)
        distribution = self.actor(features)
        if deterministic:
            action = distribution.mode()
        elif noise.shape[1]:
            noise = self._correlated(noise, generator)
            action = distribution.sample(generator, noise)
        else:
            action = distribution.sample(generator)
        if all(name in obs for name in self.critic_obs):
            features, others = self._critic_step(obs, previous, features, others)
            value = self._value_of(features)
        else:
            value = torch.full((len(features),), torch.nan, device=features.device)
        parts = (self._remembered(action, previous), own, others, noise)
        following = own if state.shape[1] == own.shape[1] else torch.cat(parts, dim=-1)
        return PolicyStep(action, distribution.log_prob(action), value, following)

    def act_mode(self, obs: dict[str, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        """The deterministic policy alone.

        Args:
            obs: name to ``[n, *shape]``.
            state: ``[n, actor_state_size]``.

        Returns:
            Actions and next state.
        """
        previous, own = state.split(self._sizes[:2], dim=-1)
        features, own = self.core.step(self._features(self.encoder, obs, previous), own)
        action = self.actor(features).mode()
        return action, torch.cat((self._remembered(action, previous), own), dim=-1)

    def value(self, obs: dict[str, Tensor], state: Tensor) -> Tensor:
        """State values ``[n]``."""
        previous, own, others, _ = state.split(self._sizes, dim=-1)
        features = others
        if self.critic_encoder is None:
            features, _ = self.core.step(self._features(self.encoder, obs, previous), own)
        features, _ = self._critic_step(obs, previous, features, others)
        return self._value_of(features)

    def evaluate(self, obs: dict[str, Tensor], action: Tensor, packing: Packing) -> Evaluation:
        """Evaluates the rows of a mini-batch, which are in packed order."""
        distribution, value = self.distribution(obs, packing)
        return Evaluation(distribution.log_prob(action), distribution.entropy(), value)

    def distribution(
        self, obs: dict[str, Tensor], packing: Packing
    ) -> tuple[Categorical | DiagonalGaussian, Tensor]:
        """Action distribution and values for the rows of a mini-batch in packed order."""
        return self.forward_pass(obs, packing)[:2]

    def forward_pass(self, obs: dict[str, Tensor], packing: Packing) -> Pass:
        """Runs actor and critic over the rows of a mini-batch in packed order."""
        first, own, _, _ = packing.state.split(self._sizes, dim=-1)
        previous = self._previous(first, packing)
        embedding = self._run(self.encoder, obs)
        seen = torch.cat((embedding, previous), dim=-1) if previous.shape[1] else embedding
        belief = self.core.sequence(seen, Packing(packing.batch_sizes, own))
        if self.critic_core is None:
            value = self._value_of(belief)
        else:
            value = self.critic_pass(obs, packing)
        return Pass(self.actor(belief), value, embedding, belief)

    def critic_pass(self, obs: dict[str, Tensor], packing: Packing) -> Tensor:
        """Values ``[n]`` of a separate critic for the rows of a mini-batch in packed order."""
        assert self.critic_core is not None
        first, _, others, _ = packing.state.split(self._sizes, dim=-1)
        features = self._features(self.critic_encoder, obs, self._previous(first, packing))
        features = self.critic_core.sequence(features, Packing(packing.batch_sizes, others))
        return self._value_of(features)

    def actor_pass(
        self, obs: dict[str, Tensor], packing: Packing
    ) -> tuple[Categorical | DiagonalGaussian, Tensor]:
        """Action distribution for rows in packed order, and the states after each sequence.

        ``packing.state`` and the result are ``[sequences, actor_state_size]``.
        """
        first, own = packing.state.split(self._sizes[:2], dim=-1)
        features = self._features(self.encoder, obs, self._previous(first, packing))
        features, last = self.core.unroll(features, Packing(packing.batch_sizes, own))
        if packing.action is not None and first.shape[1]:
            action = packing.action[packing.last().to(first.device)]
            last = torch.cat((self.action_features(action), last), dim=-1)
        return self.actor(features), last

    def action_features(self, action: Tensor) -> Tensor:
        """Actions as vectors ``[n, size]``: one-hot if discrete, else as the policy gives them."""
        if self.spec.action.kind == "discrete":
            return F.one_hot(action, self.spec.action.size).float()
        return action

    def _remembered(self, action: Tensor, previous: Tensor) -> Tensor:
        return self.action_features(action) if previous.shape[1] else previous

    def _previous(self, first: Tensor, packing: Packing) -> Tensor:
        """Previous actions of all rows; ``first`` are those before the first steps."""
        if not first.shape[1]:
            return first
        if packing.action is None:
            raise ConfigError(
                "net.previous_action=true needs the actions of the rows: give Packing(..., action)"
            )
        earlier = packing.action[packing.earlier().to(first.device)]
        return torch.cat((first, self.action_features(earlier)))

    @torch.no_grad()
    def limit_std(self, most: float) -> None:
        """Lower the deviation of Box actions where it is above ``most``."""
        if isinstance(self.actor, GaussianHead):
            self.actor.log_std.clamp_(max=math.log(most))

    def limit_correlation(self, most: float) -> None:
        """Correlate noise of successive steps by ``net.noise_correlation``, at most ``most``."""
        if self.correlation is not None:
            self.correlation.fill_(min(self.config.noise_correlation, most))

    def critic_names(self) -> set[str]:
        """Names of the parameters that the actor does not use."""
        return {name for name, _ in self.named_parameters() if name.startswith("critic")}

    def _run(self, encoder: nn.Module | None, obs: dict[str, Tensor]) -> Tensor:
        assert encoder is not None
        if self.precision == torch.float32:
            return encoder(obs)
        device = next(iter(obs.values())).device.type
        with torch.autocast(device, self.precision):
            return encoder(obs).float()

    def _features(
        self, encoder: nn.Module | None, obs: dict[str, Tensor], previous: Tensor
    ) -> Tensor:
        """What a core reads: ``[n, features + size of the previous action]``."""
        features = self._run(encoder, obs)
        return torch.cat((features, previous), dim=-1) if previous.shape[1] else features

    def _critic_step(
        self, obs: dict[str, Tensor], previous: Tensor, features: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.critic_core is None:
            return features, state
        return self.critic_core.step(self._features(self.critic_encoder, obs, previous), state)

    def _value_of(self, features: Tensor) -> Tensor:
        value = self.critic(features)
        norm = self.critic_returns
        return (value if norm is None else norm.denormalize(value)).squeeze(-1)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Weights from before ``correlation`` was one of them leave it as it is."""
        if self.correlation is not None:
            state_dict.setdefault(f"{prefix}correlation", self.correlation.clone())
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _correlated(self, noise: Tensor, generator: torch.Generator | None) -> Tensor:
        """First-order autoregressive noise: standard normal at every single step."""
        assert self.correlation is not None
        rho = self.correlation
        fresh = torch.empty_like(noise).normal_(generator=generator)
        mixed = rho * noise + (1 - rho * rho).sqrt() * fresh
        return torch.where((noise == 0).all(-1, keepdim=True), fresh, mixed)

    def _critic_network(self) -> tuple[Encoder, LSTMCore | NoCore] | tuple[None, None]:
        """The encoder and core of a separate critic."""
        config = self.config
        if config.separate_critic:
            if config.critic_mlp:
                kind = "auto" if is_foreign(config.encoder) else config.encoder
                own = {"mlp": config.critic_mlp, "core": "none", "encoder": kind}
                config = dataclasses.replace(config, **own)  # type: ignore[arg-type]
            encoder = make_encoder({k: self.spec.observations[k] for k in self.critic_obs}, config)
            remembered = self.spec.action.size if config.previous_action else 0
            return encoder, make_core(config, encoder.out_features + remembered)
        if config.critic_mlp:
            raise ConfigError(
                "net.critic_mlp is of a critic of its own: set net.separate_critic=true"
            )
        if self.critic_obs != self.actor_obs:
            raise ConfigError(
                "net.actor_obs and net.critic_obs differ, but the critic shares the actor's "
                "encoder: set net.separate_critic=true, or give both the same observations"
            )
        return None, None

    @torch.no_grad()
    def normalizers(self) -> list[tuple[Encoder, Any]]:
        """Encoders with running observation statistics, and these statistics."""
        encoders = [self.encoder, self.critic_encoder]
        return [(e, e.norm) for e in encoders if getattr(e, "norm", None) is not None]  # type: ignore[union-attr, misc]


def _chosen(spec: EnvSpec, patterns: list[str], key: str) -> tuple[str, ...]:
    """Names of the observations that match one of ``patterns``, in the order of ``spec``."""
    names = tuple(spec.observations)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"{key} has '{pattern}', but the environment's observations are "
                f"{', '.join(names)}: use some of these, or a pattern that fits one"
            )
    if not patterns:
        return names
    return tuple(n for n in names if any(fnmatchcase(n, pattern) for pattern in patterns))


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
