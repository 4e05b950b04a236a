"""Action distributions and the heads that make them.

``torch.distributions`` spends more time in argument checks than a small policy in its forward
pass, so the two distributions needed are written out here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import ActionSpec
from ver_trainer.errors import ConfigError

_LOG_2PI = math.log(2 * math.pi)


class Categorical:
    """Categorical distribution over the last axis of ``logits`` ``[n, choices]``."""

    def __init__(self, logits: Tensor) -> None:
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draws actions ``[n]`` int64."""
        # The Gumbel-max trick: torch.multinomial checks its input at half the cost of a small net.
        noise = torch.empty_like(self.log_probs).exponential_(generator=generator)
        return (self.log_probs - noise.log()).argmax(-1)

    def mode(self) -> Tensor:
        """Most likely actions ``[n]``."""
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log probabilities ``[n]`` of ``action`` ``[n]``."""
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy ``[n]`` in nats."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def flat(self) -> Tensor:
        """The parameters as one row per action ``[n, choices]``: see :meth:`divergence`."""
        return self.log_probs

    def divergence(self, reference: Tensor) -> Tensor:
        """KL(reference || self) ``[n]`` in nats; ``reference`` is another's :meth:`flat`."""
        return (reference.exp() * (reference - self.log_probs)).sum(-1)


class DiagonalGaussian:
    """Independent normal distributions, one per action dimension."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std

    def sample(self, generator: torch.Generator | None, noise: Tensor | None = None) -> Tensor:
        """Draws actions ``[n, size]``, from standard normal ``noise`` of that shape if given."""
        if noise is None:
            noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * self.log_std.exp()

    def mode(self) -> Tensor:
        """The mean."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Log densities ``[n]``, summed over dimensions."""
        return self.log_probs(action).sum(-1)

    def log_probs(self, action: Tensor) -> Tensor:
        """Log densities ``[n, size]`` of every dimension."""
        z = (action - self.mean) * torch.exp(-self.log_std)
        return -0.5 * z * z - self.log_std - 0.5 * _LOG_2PI

    def entropy(self) -> Tensor:
        """Differential entropy ``[n]`` in nats, summed over dimensions."""
        return (self.log_std + 0.5 + 0.5 * _LOG_2PI).expand_as(self.mean).sum(-1)

    def flat(self) -> Tensor:
        """The parameters as one row per action ``[n, 2 * size]``: see :meth:`divergence`."""
        return torch.cat((self.mean, self.log_std.expand_as(self.mean)), dim=-1)

    def divergence(self, reference: Tensor) -> Tensor:
        """KL(reference || self) ``[n]`` in nats; ``reference`` is another's :meth:`flat`."""
        return self._divergences(reference).sum(-1)

    def distance(self, reference: Tensor) -> Tensor:
        """Squared distance of the means ``[n]`` to those of another's :meth:`flat`."""
        return self._distances(reference).sum(-1)

    def _distances(self, reference: Tensor) -> Tensor:
        return (reference.chunk(2, dim=-1)[0] - self.mean).square()

    def _divergences(self, reference: Tensor) -> Tensor:
        mean, log_std = reference.chunk(2, dim=-1)
        distance = (mean - self.mean).square() + torch.exp(2 * log_std)
        return self.log_std - log_std + 0.5 * distance * torch.exp(-2 * self.log_std) - 0.5


class MixedActions(DiagonalGaussian):
    """Normal distributions, but for some dimensions a choice between -1 and +1.

    ``output`` ``[n, size]`` is the mean of a normal dimension and the log odds of +1 of a binary
    one; ``binary`` is a bool mask ``[size]``.
    """

    def __init__(self, output: Tensor, log_std: Tensor, binary: Tensor) -> None:
        super().__init__(torch.where(binary, torch.tanh(output / 2), output), log_std)
        self.output, self.binary = output, binary

    def sample(self, generator: torch.Generator | None, noise: Tensor | None = None) -> Tensor:
        """Draws actions ``[n, size]``; ``noise`` is that of the normal dimensions."""
        normal = super().sample(generator, noise)
        uniform = torch.empty_like(self.output).uniform_(generator=generator)
        return torch.where(self.binary, _sign(torch.sigmoid(self.output) - uniform), normal)

    def mode(self) -> Tensor:
        """The mean, and the likelier one of -1 and +1."""
        return torch.where(self.binary, _sign(self.output), self.output)

    def log_probs(self, action: Tensor) -> Tensor:
        """Log densities or, of binary dimensions, probabilities ``[n, size]``."""
        choice = F.logsigmoid(_sign(action) * self.output)
        return torch.where(self.binary, choice, super().log_probs(action))

    def entropy(self) -> Tensor:
        """Entropy ``[n]`` in nats, summed over dimensions."""
        normal = (self.log_std + 0.5 + 0.5 * _LOG_2PI).expand_as(self.mean)
        choice = F.softplus(self.output) - self.output * torch.sigmoid(self.output)
        return torch.where(self.binary, choice, normal).sum(-1)

    def flat(self) -> Tensor:
        """The parameters as one row per action ``[n, 2 * size]``."""
        return torch.cat((self.output, self.log_std.expand_as(self.mean)), dim=-1)

    def _divergences(self, reference: Tensor) -> Tensor:
        return torch.where(self.binary, self._choices(reference), super()._divergences(reference))

    def _distances(self, reference: Tensor) -> Tensor:
        return torch.where(self.binary, self._choices(reference), super()._distances(reference))

    def _choices(self, reference: Tensor) -> Tensor:
        """Divergence of every dimension, taken as a choice."""
        logit = reference.chunk(2, dim=-1)[0]
        choice = F.softplus(self.output) - F.softplus(logit)
        return choice + torch.sigmoid(logit) * (logit - self.output)


def _sign(x: Tensor) -> Tensor:
    """+1 where ``x`` is positive, else -1."""
    return (x > 0).to(x.dtype) * 2 - 1


class CategoricalHead(nn.Module):
    """Linear layer to logits."""

    def __init__(self, inputs: int, choices: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, choices)
        nn.init.orthogonal_(self.linear.weight, 0.01)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Categorical:
        """Features ``[n, inputs]`` to a distribution over ``n`` actions."""
        return Categorical(self.linear(features))


def each_initial(initial: Sequence[float], count: int) -> list[float]:
    """Returns one probability for each of ``count`` binary dimensions.

    Raises:
        ConfigError: there are neither one nor ``count``.
    """
    if len(initial) not in (1, count):
        raise ConfigError(
            f"net.binary_initial has {len(initial)} probabilities, but net.binary_actions names "
            f"{count} dimensions: give one for all, or one each"
        )
    return [*initial] * count if len(initial) == 1 else [*initial]


class GaussianHead(nn.Module):
    """Linear layer to means; the standard deviation is a parameter or a second output.

    The dimensions in ``binary`` (negative numbers count from the end) choose between -1 and +1
    instead, at first +1 with probability ``initial`` (one for all, or one each); their output is
    the log odds.

    Raises:
        ConfigError: ``binary`` has a dimension that the action does not have, or ``initial``
            another number of probabilities.
    """

    binary: Tensor

    def __init__(
        self,
        inputs: int,
        size: int,
        std: str,
        initial_std: float,
        binary: Sequence[int] = (),
        initial: Sequence[float] = (0.05,),
    ) -> None:
        super().__init__()
        self.size, self.state_std = size, std == "state"
        self.linear = nn.Linear(inputs, size * 2 if self.state_std else size)
        nn.init.orthogonal_(self.linear.weight, 0.01)
        nn.init.zeros_(self.linear.bias)
        self.log_std = nn.Parameter(torch.full((size,), math.log(initial_std)))
        mask = torch.zeros(size, dtype=torch.bool)
        for index in binary:
            if not -size <= index < size:
                raise ConfigError(
                    f"net.binary_actions has {index}, but the action has {size} dimensions: use "
                    f"numbers from {-size} to {size - 1}"
                )
            mask[index] = True
        self.register_buffer("binary", mask, persistent=False)
        self.has_binary = bool(mask.any())
        with torch.no_grad():
            for index, p in zip(binary, each_initial(initial, len(binary)), strict=True):
                self.linear.bias[:size][index] = math.log(p / (1 - p))

    def forward(self, features: Tensor) -> DiagonalGaussian:
        """Features ``[n, inputs]`` to a distribution over actions ``[n, size]``."""
        output = self.linear(features)
        log_std: Tensor = self.log_std
        if self.state_std:
            output, offset = output.split(self.size, dim=-1)
            log_std = log_std + offset
        log_std = _within(log_std, -10.0, 1.0)
        if self.has_binary:
            return MixedActions(output, log_std, self.binary)
        return DiagonalGaussian(output, log_std)


class _Within(torch.autograd.Function):
    """Clamp whose gradient leads back from outside; ``clamp`` has none there, and stays."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(values)
        ctx.bounds = low, high
        return values.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (values,), (low, high), (grad,) = ctx.saved_tensors, ctx.bounds, grads
        outwards = ((values > high) & (grad < 0)) | ((values < low) & (grad > 0))
        return torch.where(outwards, 0.0, grad), None, None


def _within(values: Tensor, low: float, high: float) -> Tensor:
    """Return values within bounds; descent never leads further out, and always back."""
    if torch.is_grad_enabled() and values.requires_grad:
        return cast(Tensor, _Within.apply(values, low, high))
    return values.clamp(low, high)


def make_head(
    action: ActionSpec, config: NetConfig, features: int
) -> CategoricalHead | GaussianHead:
    """Returns the layer from ``features`` numbers to a distribution over actions.

    Raises:
        ConfigError: an option of ``net`` that does not fit the actions.
    """
    if action.kind != "discrete":
        return GaussianHead(
            features,
            action.size,
            config.std,
            config.initial_std,
            config.binary_actions,
            config.binary_initial,
        )
    for name in ("binary_actions", "noise_correlation"):
        if getattr(config, name):
            raise ConfigError(
                f"net.{name} is for Box actions, and this environment's are discrete: leave it out"
            )
    return CategoricalHead(features, action.size)
