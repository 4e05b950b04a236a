"""Running statistics of observations and returns, merged over ranks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ver_trainer.distributed.group import Group
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.storage import RolloutStorage


def moments(x: Tensor, group: Group) -> tuple[Tensor, Tensor, float]:
    """Mean and biased variance over the rows of all ranks, and their number.

    Args:
        x: ``[n, size]``, another ``n`` on every rank.
        group: all ranks call this together.

    Returns:
        float64 ``[size]`` twice, and the number of rows.
    """
    x = x.double()
    count = float(group.sum_array(np.array([float(len(x))]))[0])
    mean = x.sum(0)
    group.sum_tensor(mean)
    mean /= count
    # Around the mean of all ranks: nothing cancels where it is large.
    squares = (x - mean).square().sum(0)
    group.sum_tensor(squares)
    return mean, squares / count, count


@torch.no_grad()
def update_observations(
    policy: Policy, storage: RolloutStorage, rows: np.ndarray, group: Group, critic_only: bool
) -> None:
    """Adds the observations in ``rows`` to what ``net.normalize_obs`` divides by."""
    index = torch.from_numpy(rows).to(storage.tensors["value"].device)
    for encoder, norm in policy.normalizers():
        if encoder is policy.encoder and (critic_only or policy.config.freeze_norm):
            continue  # new statistics would move the policy
        vector = encoder.vector({key: storage.obs[key][index] for key in encoder.vectors})
        norm.update(*moments(vector, group))


@torch.no_grad()
def update_returns(policy: Policy, returns: np.ndarray, group: Group) -> None:
    """Adds the returns ``[rows]`` of a rollout to the critic's unit (``net.normalize_returns``)."""
    norm = policy.critic_returns
    if norm is None:
        return
    mean, var, count = moments(torch.from_numpy(returns).to(norm.mean.device)[:, None], group)
    if bool(torch.isfinite(mean + var).all()):  # what is not is found, and named, in the losses
        norm.update(mean, var, count)


def explained_variance(storage: RolloutStorage, rows: np.ndarray) -> float:
    """Share of the variance of the returns of ``rows`` that the values had foreseen."""
    returns = storage.returns[rows]
    values = storage.tensors["value"].float().cpu().numpy()[rows]
    variance = float(returns.var())
    return float("nan") if variance == 0 else 1 - float((returns - values).var()) / variance
