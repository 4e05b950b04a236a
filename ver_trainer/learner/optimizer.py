"""The optimizer of a policy and its entropy coefficient."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ver_trainer.config import OptimConfig
from ver_trainer.learner.lamb import Lamb, parameter_groups
from ver_trainer.nets.policy import Policy


def make_optimizer(
    policy: Policy, coefficient: nn.Module, config: OptimConfig
) -> torch.optim.Optimizer:
    """Makes Adam, AdamW or Lamb; every group has an ``lr_scale`` relative to ``optim.lr``."""
    modules = nn.ModuleList([policy, coefficient])
    groups: list[dict[str, Any]]
    if config.name == "lamb":
        groups = parameter_groups(modules, config.lamb_rho, config.weight_decay)
    else:
        groups = [{"params": list(modules.parameters()), "weight_decay": config.weight_decay}]
    groups = [_trainable(group) | {"lr_scale": 1.0} for group in groups]
    if config.critic_lr:
        names = policy.critic_names()
        critic = {id(p) for name, p in policy.named_parameters() if name in names}
        groups = [part for g in groups for part in _split(g, critic, config.critic_lr / config.lr)]
    if config.name == "lamb":
        return Lamb(groups, lr=config.lr, eps=config.eps)
    cls = torch.optim.AdamW if config.weight_decay else torch.optim.Adam
    fused = next(policy.parameters()).is_cuda
    return cls(
        groups, lr=config.lr, eps=config.eps, foreach=None if fused else True, fused=fused or None
    )


def _trainable(group: dict[str, Any]) -> dict[str, Any]:
    return group | {"params": [p for p in group["params"] if p.requires_grad]}


def _split(group: dict[str, Any], critic: set[int], scale: float) -> list[dict[str, Any]]:
    shared = [p for p in group["params"] if id(p) not in critic]
    own = [p for p in group["params"] if id(p) in critic]
    return [group | {"params": shared}, group | {"params": own, "lr_scale": scale}]
