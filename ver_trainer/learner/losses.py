"""The losses of a mini-batch, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ver_trainer.nets.policy import Policy


@dataclass
class Losses:
    """Scalar tensors of one mini-batch.

    Attributes:
        extras: losses that are added to the algorithm's, by name.
        weighed: the action's, the entropy and its coefficient are part of the total.
    """

    total: Tensor
    action: Tensor
    value: Tensor
    entropy: Tensor
    coefficient: Tensor
    stats: dict[str, Tensor]
    extras: dict[str, Tensor] = field(default_factory=dict)
    weighed: bool = True

    def parts(self) -> dict[str, Tensor]:
        """What the total is made of, by name."""
        names = ("action", "value", "entropy", "coefficient") if self.weighed else ("value",)
        return {name: getattr(self, name) for name in names} | self.extras


def describe_fault(policy: Policy, losses: Losses | Tensor, update: int) -> str:
    """Say which loss or gradient of an update is not finite, and what to do.

    Args:
        policy: with the gradients.
        losses: of the mini-batch, or the value loss alone.
        update: counted from 1.
    """
    parts = {"value": losses} if isinstance(losses, Tensor) else losses.parts()
    culprits = [name for name, loss in parts.items() if not bool(torch.isfinite(loss))]
    names = [
        name
        for name, p in policy.named_parameters()
        if p.grad is not None and not bool(torch.isfinite(p.grad).all())
    ]
    what = f"the {' and '.join(culprits)} loss" if culprits else "the gradient"
    where = f" (gradient of {', '.join(names[:5])})" if names else ""
    return (
        f"{what} is not finite in update {update}{where}: lower optim.lr or "
        "ppo.max_grad_norm; the last checkpoint is kept"
    )
