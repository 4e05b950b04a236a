"""The optimizer of a policy and its entropy coefficient."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ver_trainer.config import OptimConfig
from ver_trainer.learner.lamb import Lamb, parameter_groups
from ver_trainer.nets.policy import Policy


def make_optimizer(
    policy: Policy, others: nn.Module, coefficient: nn.Module, config: OptimConfig
) -> torch.optim.Optimizer:
    """Makes Adam, AdamW or Lamb for a policy, the ``others`` that learn with it, and entropy.

    Every group has an ``lr_scale`` relative to ``optim.lr``, or a ``fixed_lr`` that no schedule
    touches: the entropy coefficient must be able to cross its bounds within a short run, and to
    follow the policy until the end.
    """
    groups: list[dict[str, Any]]
    if config.name == "lamb":
        groups = parameter_groups(policy, config.lamb_rho, config.weight_decay)
        groups += parameter_groups(others, config.lamb_rho, config.weight_decay)
    else:
        learning = [*policy.parameters(), *others.parameters()]
        groups = [{"params": learning, "weight_decay": config.weight_decay}]
    groups = [_trainable(group) | {"lr_scale": 1.0} for group in groups]
    if config.critic_lr:
        names = policy.critic_names()
        critic = {id(p) for name, p in policy.named_parameters() if name in names}
        rate = {"lr_scale": config.critic_lr / config.lr}
        if config.schedule == "kl":  # which is of the policy
            rate = {"fixed_lr": config.critic_lr}
        groups = [part for group in groups for part in _split(group, critic, rate)]
    own: dict[str, Any] = {"params": list(coefficient.parameters()), "weight_decay": 0.0}
    if config.name == "lamb":
        own["rho"] = 1.0
    groups.append(_trainable(own) | {"fixed_lr": config.entropy_lr})
    if config.name == "lamb":
        return Lamb(groups, lr=config.lr, eps=config.eps)
    cls = torch.optim.AdamW if config.weight_decay else torch.optim.Adam
    fused = next(policy.parameters()).is_cuda
    return cls(
        groups, lr=config.lr, eps=config.eps, foreach=None if fused else True, fused=fused or None
    )


def _trainable(group: dict[str, Any]) -> dict[str, Any]:
    return group | {"params": [p for p in group["params"] if p.requires_grad]}


def _split(group: dict[str, Any], critic: set[int], rate: dict[str, float]) -> list[dict[str, Any]]:
    shared = [p for p in group["params"] if id(p) not in critic]
    own = [p for p in group["params"] if id(p) in critic]
    return [group | {"params": shared}, group | {"params": own} | rate]
