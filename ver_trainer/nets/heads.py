"""Action distributions and the heads that make them.

``torch.distributions`` spends more time in argument checks than a small policy in its forward
pass, so the two distributions needed are written out here.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_LOG_2PI = math.log(2 * math.pi)


class Categorical:
    """Categorical distribution over the last axis of ``logits`` ``[n, choices]``."""

    def __init__(self, logits: Tensor) -> None:
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draws actions ``[n]`` int64."""
        probs = self.log_probs.exp()
        return torch.multinomial(probs, 1, generator=generator).squeeze(-1)

    def mode(self) -> Tensor:
        """Most likely actions ``[n]``."""
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log probabilities ``[n]`` of ``action`` ``[n]``."""
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy ``[n]`` in nats."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


class DiagonalGaussian:
    """Independent normal distributions, one per action dimension."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draws actions ``[n, size]``."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * self.log_std.exp()

    def mode(self) -> Tensor:
        """The mean."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Log densities ``[n]``, summed over dimensions."""
        z = (action - self.mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.5 * _LOG_2PI).sum(-1)

    def entropy(self) -> Tensor:
        """Differential entropy ``[n]`` in nats, summed over dimensions."""
        return (self.log_std + 0.5 + 0.5 * _LOG_2PI).expand_as(self.mean).sum(-1)


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


class GaussianHead(nn.Module):
    """Linear layer to means; the standard deviation is a parameter or a second output."""

    def __init__(self, inputs: int, size: int, std: str, initial_std: float) -> None:
        super().__init__()
        self.size, self.state_std = size, std == "state"
        self.linear = nn.Linear(inputs, size * 2 if self.state_std else size)
        nn.init.orthogonal_(self.linear.weight, 0.01)
        nn.init.zeros_(self.linear.bias)
        self.log_std = nn.Parameter(torch.full((size,), math.log(initial_std)))

    def forward(self, features: Tensor) -> DiagonalGaussian:
        """Features ``[n, inputs]`` to a distribution over actions ``[n, size]``."""
        output = self.linear(features)
        log_std = self.log_std
        if self.state_std:
            output, offset = output.split(self.size, dim=-1)
            log_std = log_std + offset
        return DiagonalGaussian(output, log_std.clamp(-10.0, 1.0))
