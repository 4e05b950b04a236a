"""Entropy coefficient: constant, or learned to keep the entropy at a target."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class EntropyCoefficient(nn.Module):
    """Multiplier of the entropy bonus (Wijmans et al. 2022, section 4).

    When learned it is the Lagrange multiplier of ``entropy >= target``: it grows while the entropy
    is below the target and shrinks while it is above, within ``[1e-4, 1]``. It is a parameter of
    the optimizer and of checkpoints, with a learning rate of its own.
    """

    low, high = 1e-4, 1.0

    def __init__(self, initial: float, learned: bool, target: float) -> None:
        super().__init__()
        self.learned, self.target = learned, target
        start = min(max(initial, self.low), self.high) if learned else max(initial, 1e-12)
        self.log_value = nn.Parameter(torch.tensor(math.log(start)), requires_grad=learned)
        self.is_zero = initial == 0 and not learned

    def value(self) -> Tensor:
        """The coefficient, without gradient."""
        value = self.log_value.detach().exp()
        return torch.zeros_like(value) if self.is_zero else value

    def loss(self, entropy: Tensor) -> Tensor:
        """Loss of the coefficient for a mean entropy (scalar); 0 if it is not learned."""
        if not self.learned:
            return torch.zeros_like(self.log_value.detach())
        # The gradient with respect to the logarithm leaves out the factor of the coefficient
        # itself: Adam's long memory would hold a coefficient that has become small.
        return self.log_value * (entropy.detach() - self.target)

    @torch.no_grad()
    def project(self) -> None:
        """Puts the coefficient back into its bounds after an optimizer step."""
        if self.learned:
            self.log_value.clamp_(math.log(self.low), math.log(self.high))
