"""Behaviour cloning: a policy learns recorded actions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ver_trainer.errors import ConfigError
from ver_trainer.nets.core import Packing
from ver_trainer.nets.heads import DiagonalGaussian
from ver_trainer.nets.policy import Policy


def clone(
    policy: Policy,
    observations: Mapping[str, np.ndarray],
    actions: np.ndarray,
    epochs: int = 50,
    batch: int = 256,
    lr: float = 1e-3,
    seed: int = 0,
) -> list[float]:
    """Fit the actor of a policy without memory to recorded actions.

    What is minimised is the squared distance of the mean action, and the cross-entropy of binary
    dimensions. The first pass also takes the statistics of ``net.normalize_obs``.

    Args:
        policy: changed in place.
        observations: name -> (n, ...).
        actions: (n, size); of binary dimensions the sign counts.
        epochs: passes.
        batch: rows of a step.
        lr: first learning rate of Adam; it falls to 0.
        seed: of the order of rows.

    Returns:
        Mean loss of each pass.

    Raises:
        ConfigError: the policy has a memory or discrete actions.
    """
    if policy.state_size or policy.spec.action.kind == "discrete":
        raise ConfigError("cloning is for Box actions and policies without memory: net.core=none")
    seen = {name: torch.as_tensor(observations[name]) for name in policy.actor_obs}
    for encoder, norm in policy.normalizers():
        if encoder is not policy.encoder:
            continue  # the critic's own, which is not cloned
        rows = encoder.vector(seen)
        norm.update(rows.mean(0), rows.var(0, unbiased=False), len(rows))
    wanted = torch.as_tensor(actions, dtype=torch.float32)
    adam = torch.optim.Adam(policy.parameters(), lr)
    generator = torch.Generator().manual_seed(seed)
    fall = torch.optim.lr_scheduler.LambdaLR(adam, lambda epoch: 1.0 - epoch / epochs)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(wanted), generator=generator).split(batch):
            loss = _distance(policy, {k: v[rows] for k, v in seen.items()}, wanted[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += float(loss.detach()) * len(rows)
        fall.step()
        losses.append(total / len(wanted))
    return losses


def _distance(policy: Policy, seen: dict[str, Tensor], wanted: Tensor) -> Tensor:
    packing = Packing(torch.tensor([len(wanted)]), torch.zeros(len(wanted), 0))
    distribution = policy.actor_pass(seen, packing)[0]
    assert isinstance(distribution, DiagonalGaussian)  # clone() refuses discrete actions
    # A choice that was made is one that is all but certain.
    certain = 20.0 * wanted.sign()
    binary = getattr(distribution, "binary", torch.zeros(wanted.shape[1], dtype=torch.bool))
    reference = torch.where(binary, certain, wanted)
    return distribution.distance(torch.cat((reference, torch.zeros_like(wanted)), dim=1)).mean()
