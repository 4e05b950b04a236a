"""Running mean and variance of observations and returns."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningNorm(nn.Module):
    """Standardises the last axis with running statistics (parallel-variance update).

    The statistics change only by :meth:`update`, which the learner calls once a rollout, so that
    collection and learning of one rollout see the same numbers.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, size: int, clip: float = 10.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.tensor(0.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Standardised ``x``, clipped to ``+-clip``."""
        return ((x - self.mean) * torch.rsqrt(self.var + 1e-8)).clamp(-self.clip, self.clip)

    @property
    def std(self) -> Tensor:
        """Standard deviation ``[size]``."""
        return (self.var + 1e-8).sqrt()

    def denormalize(self, x: Tensor) -> Tensor:
        """Inverse of :meth:`forward` where nothing is clipped."""
        return x * self.std + self.mean

    @torch.no_grad()
    def update(self, batch_mean: Tensor, batch_var: Tensor, batch_count: float) -> None:
        """Merges the moments of a batch (biased variance, ``[size]``) into the running ones."""
        total = self.count + batch_count
        share = batch_count / total
        mean, var = self.mean.double(), self.var.double()
        delta = batch_mean.double() - mean
        spread = delta.square() * share * (1 - share)
        self.var.copy_(var * (1 - share) + batch_var.double() * share + spread)
        self.mean.copy_(mean + delta * share)
        self.count.copy_(total)
