"""Behaviour cloning of a recurrent policy on whole episodes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skills.imitation.demonstrations import Demonstration
from skills.imitation.processes import Tally
from tpsrl.errors import UserError
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import Policy

_FIXED = 1e12


@dataclass
class CloneOptions:
    """How a policy is cloned.

    Attributes:
        epochs: passes over the demonstrations.
        batch: episodes in a mini-batch.
        lr: largest learning rate, lowered to 0 along a half cosine.
        value_coef: weight of the value loss.
        gamma, reward_scale: of the returns that the value head learns; ``tpsrl train`` sets them
            to the trainer's.
        stop_weight: weight of steps at which the expert stops, for the stop action alone.
        std: standard deviation that the policy's action distribution is given.
        max_grad_norm: gradients are clipped to it.
        seed: of the order of the episodes.
    """

    epochs: int = 20
    batch: int = 16
    lr: float = 1e-3
    value_coef: float = 0.01
    gamma: float = 0.99
    reward_scale: float = 1.0
    stop_weight: float = 3.0
    std: float = 0.25
    max_grad_norm: float = 1.0
    seed: int = 0


@dataclass
class Batch:
    """Some episodes in packed order: all first steps, longest episode first, then all second ones.

    Attributes:
        observations: name -> (N, ...).
        actions: (N, A) labels.
        weights: (N, A), 0 where there is no label.
        returns: (N,).
        packing: how the rows form sequences.
    """

    observations: dict[str, Tensor]
    actions: Tensor
    weights: Tensor
    returns: Tensor
    packing: Packing


def usable(demonstrations: Sequence[Demonstration]) -> list[Demonstration]:
    """Return those that ended well and have labels."""
    return [d for d in demonstrations if d.success and d.weights.any()]


def make_batch(
    policy: Policy, episodes: Sequence[Demonstration], options: CloneOptions, stops: bool
) -> Batch:
    """Arrange episodes for :meth:`ver_trainer.nets.policy.Policy.distribution`.

    Args:
        policy: decides device and recurrent state.
        episodes: of any lengths.
        options: discount and weights.
        stops: the last entry of the actions is stop.
    """
    device = next(policy.parameters()).device
    episodes = sorted(episodes, key=len, reverse=True)
    lengths = np.array([len(d) for d in episodes])
    sizes = (lengths[:, None] > np.arange(lengths[0])).sum(axis=0)
    starts = np.cumsum(lengths) - lengths
    order = np.concatenate([starts[:size] + step for step, size in enumerate(sizes)])

    def packed(arrays: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays)[order]).to(device)

    actions = packed([d.actions for d in episodes])
    weights = packed([d.weights for d in episodes])[:, None].expand_as(actions).clone()
    if stops:
        weights[:, -1] *= 1.0 + (options.stop_weight - 1.0) * (actions[:, -1] > 0)
    return Batch(
        {k: packed([d.observations[k] for d in episodes]) for k in episodes[0].observations},
        actions,
        weights,
        packed([d.returns(options.gamma) for d in episodes]) * options.reward_scale,
        Packing(torch.from_numpy(sizes), policy.initial_state(len(episodes), device)),
    )


def losses(policy: Policy, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return squared error of the mean action, averaged over labels, and of the value."""
    distribution, value = policy.distribution(batch.observations, batch.packing)
    error = (distribution.mode() - batch.actions) ** 2
    action = (error * batch.weights).sum() / batch.weights.sum().clamp(min=1.0)
    return action, torch.mean((value - batch.returns) ** 2)


def fit_normalizers(policy: Policy, episodes: Sequence[Demonstration]) -> None:
    """Give running observation statistics, if the network has them, those of the episodes.

    They count as so many observations that VER's rollouts will not move them: a policy whose
    inputs are scaled anew under it forgets what it was taught.
    """
    for encoder, norm in policy.normalizers():
        rows = {k: [d.observations[k] for d in episodes] for k in encoder.vectors}
        tensors = {k: torch.from_numpy(np.concatenate(v)) for k, v in rows.items()}
        vectors = encoder.vector(tensors)
        norm.update(vectors.mean(0), vectors.var(0, unbiased=False), float(len(vectors)))
        norm.count.fill_(_FIXED)


def clone(
    policy: Policy,
    demonstrations: Sequence[Demonstration],
    options: CloneOptions,
    checkpoint: Path,
    stops: bool,
    label: str = "cloning",
) -> dict[str, float]:
    """Train ``policy`` in place.

    Args:
        policy: of ``ver_trainer``; its weights are the start.
        demonstrations: those without success or labels are left out.
        options: see :class:`CloneOptions`.
        checkpoint: file for the state after each epoch, from which an interrupted call goes on.
        stops: the last entry of the actions is stop.
        label: of the progress display.

    Returns:
        ``loss`` and ``value_loss`` of the last epoch, ``episodes``, ``steps``, ``seconds``.

    Raises:
        UserError: there is nothing to learn from, or the loss is not finite.
    """
    episodes = usable(demonstrations)
    if not episodes:
        raise UserError(
            f"none of {len(demonstrations)} demonstrations ended in success, so there is nothing"
            " to imitate; look at the scripted skill or its episodes first."
        )
    optimizer = torch.optim.Adam(policy.parameters(), lr=options.lr)
    count = len(episodes)
    batches = -(-count // options.batch)
    first, seconds = _restore(checkpoint, policy, optimizer)
    if first == 0:
        fit_normalizers(policy, episodes)
    means = {"loss": float("nan"), "value_loss": float("nan")}
    start = time.monotonic() - seconds
    policy.train()
    with Tally(label, options.epochs * count, first * count) as tally:
        for epoch in range(first, options.epochs):
            order = np.random.default_rng([options.seed, epoch]).permutation(count)
            total = np.zeros(2)
            for index, rows in enumerate(np.array_split(order, batches)):
                progress = (epoch + index / batches) / options.epochs
                for group in optimizer.param_groups:
                    group["lr"] = options.lr * 0.5 * (1.0 + math.cos(math.pi * progress))
                batch = make_batch(policy, [episodes[r] for r in rows], options, stops)
                total += _update(policy, batch, optimizer, options)
                mean = total / (index + 1)
                tally.add(len(rows), f"epoch {epoch + 1}, action error {mean[0]:.4f}")
            means = {"loss": total[0] / batches, "value_loss": total[1] / batches}
            _save(checkpoint, policy, optimizer, epoch + 1, time.monotonic() - start)
    policy.eval()
    with torch.no_grad():
        policy.actor.log_std.fill_(float(np.log(options.std)))  # type: ignore[union-attr,operator]
    steps = sum(len(d) for d in episodes)
    return {**means, "episodes": count, "steps": steps, "seconds": time.monotonic() - start}


def _update(
    policy: Policy, batch: Batch, optimizer: torch.optim.Optimizer, options: CloneOptions
) -> np.ndarray:
    action, value = losses(policy, batch)
    loss = action + options.value_coef * value
    if not torch.isfinite(loss):
        raise UserError("the imitation loss is not finite; lower imitate.lr.")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), options.max_grad_norm)
    optimizer.step()
    return np.array([float(action.detach()), float(value.detach())])


def _save(
    path: Path, policy: Policy, optimizer: torch.optim.Optimizer, epoch: int, seconds: float
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    state: dict[str, Any] = {
        "policy": policy.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "seconds": seconds,
    }
    torch.save(state, temporary)
    os.replace(temporary, path)


def _restore(path: Path, policy: Policy, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Return how many epochs are done, and in how many seconds."""
    if not path.exists():
        return 0, 0.0
    try:
        state = torch.load(path, weights_only=True)
        policy.load_state_dict(state["policy"])
        optimizer.load_state_dict(state["optimizer"])
    except Exception as error:
        raise UserError(f"{path}: no state of this imitation ({error}); delete it.") from None
    return int(state["epoch"]), float(state["seconds"])
