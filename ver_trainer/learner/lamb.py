"""Lamb as used by Large Batch Simulation (Shacklett et al. 2021, eq. 1 and appendix B)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Lamb(Optimizer):
    """Adam step with decoupled weight decay, scaled per tensor by a clipped trust ratio.

    The ratio is ``min(|theta|, 10) / |step|`` clamped to ``[rho, 1 / rho]``, and 1 where either
    norm is 0. ``rho = 1`` gives AdamW.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-5,
        weight_decay: float = 0.01,
        rho: float = 0.01,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "rho": rho}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Performs one step; ``closure`` is not supported."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        state["step"] += 1
        count = state["step"].item()
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        gradient = parameter.grad
        assert gradient is not None
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
        update = (mean / (1 - beta1**count)) / denominator
        if group["weight_decay"]:
            update.add_(parameter, alpha=group["weight_decay"])
        parameter.sub_(update * (group["lr"] * trust_ratio(parameter, update, group["rho"])))


def trust_ratio(parameter: Tensor, update: Tensor, rho: float) -> Tensor:
    """Clipped ratio of the norms of a parameter and its update."""
    theta, size = parameter.norm().clamp(max=10.0), update.norm()
    ratio = (theta / size).clamp(rho, 1 / rho)
    return torch.where((theta > 0) & (size > 0), ratio, torch.ones_like(ratio))


def parameter_groups(module: nn.Module, rho: float, weight_decay: float) -> list[dict[str, Any]]:
    """Groups parameters: biases, gains, norms and Fixup scalars get ``rho = 1`` and no decay.

    They are recognised by shape (fewer than two axes longer than 1), so no name is missed.
    """
    scaled: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for parameter in module.parameters():
        axes = sum(size > 1 for size in parameter.shape)
        (scaled if axes >= 2 else plain).append(parameter)
    return [
        {"params": scaled, "rho": rho, "weight_decay": weight_decay},
        {"params": plain, "rho": 1.0, "weight_decay": 0.0},
    ]
