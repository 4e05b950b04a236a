"""Behaviour cloning: on whole episodes with a recurrent core, on shuffled steps without one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from skills.superseded.imitation.augment import check_mirror, varied
from skills.superseded.imitation.batches import Batch, Rows, make_batch
from skills.superseded.imitation.demonstrations import Demonstration
from skills.tasks.base import ActionLayout
from tpsrl.errors import UserError
from tpsrl.jobs.progress import Tally
from ver_trainer.files import replacing
from ver_trainer.nets.core import Packing
from ver_trainer.nets.heads import MixedActions
from ver_trainer.nets.policy import PRECISIONS, Policy

_FIXED = 1e12


@dataclass
class CloneOptions:
    """How a policy is cloned.

    Attributes:
        epochs: passes over the demonstrations.
        batch: episodes in a mini-batch of a recurrent policy.
        rows: steps in a mini-batch of a policy without memory.
        max_rows: a policy without memory sees at most so many steps an epoch, drawn at random;
            0: all.
        lr: largest learning rate, lowered to 0 along a half cosine.
        loss: of the continuous actions: ``squared``, or ``huber``, which commits to one of two
            things that the expert does where the mean of both is neither.
        huber: error from which that loss is linear.
        value_coef: weight of the value loss.
        gamma, reward_scale: of the returns that the value head learns; ``tpsrl train`` sets them
            to the trainer's.
        stop_weight: weight of steps at which the expert stops, for the stop action alone.
        grip_weight: weight of steps at which the expert grips while nothing is held or lets go of
            what is, for the grip action alone.
        idle: where the expert moves no joint faster than this its continuous actions are not
            learned: it waits, and a policy without memory would wait for ever.
        mirror: probability that a recurrent policy sees an episode of Navigate with left and right
            exchanged.
        shift: most pixels by which its pictures are moved, the same in a whole episode.
        std: standard deviation that the policy's action distribution is given.
        precision: of the encoder while cloning, ``float32`` or ``bf16``.
        max_grad_norm: gradients are clipped to it.
        seed: of the order of the episodes.
    """

    epochs: int = 20
    batch: int = 16
    rows: int = 512
    max_rows: int = 0
    lr: float = 1e-3
    loss: str = field(default="squared", metadata={"choices": ("squared", "huber")})
    huber: float = 0.1
    value_coef: float = 0.01
    gamma: float = 0.99
    reward_scale: float = 1.0
    stop_weight: float = 3.0
    grip_weight: float = 1.0
    idle: float = 0.0
    mirror: float = 0.0
    shift: int = 0
    std: float = 0.25
    precision: str = field(default="float32", metadata={"choices": ("float32", "bf16")})
    max_grad_norm: float = 1.0
    seed: int = 0


def usable(demonstrations: Sequence[Demonstration]) -> list[Demonstration]:
    """Return those that ended well and have labels."""
    return [d for d in demonstrations if d.success and d.weights.any()]


def losses(policy: Policy, batch: Batch, options: CloneOptions) -> tuple[Tensor, Tensor]:
    """Return the error of the mean action, averaged over labels, and the squared one of the value.

    Dimensions that choose between -1 and +1 have the cross-entropy as their error. The value's is 0
    where it has no weight: a critic of its own would take half of the time.
    """
    if options.value_coef:
        distribution, value = policy.distribution(batch.observations, batch.packing)
        value_error = torch.mean((value - batch.returns) ** 2)
    else:
        sizes, state = batch.packing.batch_sizes, batch.packing.state
        own = Packing(sizes, state[:, : policy.actor_state_size])
        distribution, _ = policy.actor_pass(batch.observations, own)
        value_error = torch.zeros(())
    if isinstance(distribution, MixedActions):
        error = _error(distribution.output, batch.actions, options)
        chosen = (batch.actions > 0).float()
        choice = F.binary_cross_entropy_with_logits(distribution.output, chosen, reduction="none")
        error = torch.where(distribution.binary, choice, error)
    else:
        error = _error(distribution.mode(), batch.actions, options)
    action = (error * batch.weights).sum() / batch.weights.sum().clamp(min=1.0)
    return action, value_error


def _error(mean: Tensor, wanted: Tensor, options: CloneOptions) -> Tensor:
    if options.loss == "huber":
        return F.huber_loss(mean, wanted, reduction="none", delta=options.huber) / options.huber
    return (mean - wanted) ** 2


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
    layout: ActionLayout,
    label: str = "cloning",
) -> dict[str, float]:
    """Train ``policy`` in place.

    Args:
        policy: of ``ver_trainer``; its weights are the start.
        demonstrations: those without success or labels are left out.
        options: see :class:`CloneOptions`.
        checkpoint: file for the state after each epoch, from which an interrupted call goes on.
        layout: of the actions.
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
    first, seconds = _restore(checkpoint, policy, optimizer)
    if first == 0:
        fit_normalizers(policy, episodes)
    source = _Source(policy, episodes, options, layout)
    means = {"loss": float("nan"), "value_loss": float("nan")}
    start = time.monotonic() - seconds
    before, policy.precision = policy.precision, PRECISIONS[options.precision]
    policy.train()
    unit = "episodes" if policy.recurrent else "steps"
    with Tally(label, options.epochs * source.count, first * source.count, unit) as tally:
        for epoch in range(first, options.epochs):
            total = np.zeros(2)
            for index, (count, batch) in enumerate(source.epoch(epoch)):
                progress = (epoch + index / source.batches) / options.epochs
                for group in optimizer.param_groups:
                    group["lr"] = options.lr * 0.5 * (1.0 + math.cos(math.pi * progress))
                total += _update(policy, batch, optimizer, options)
                mean = total / (index + 1)
                tally.add(count, f"epoch {epoch + 1}, action error {mean[0]:.4f}")
            means = {"loss": total[0] / source.batches, "value_loss": total[1] / source.batches}
            _save(checkpoint, policy, optimizer, epoch + 1, time.monotonic() - start)
    policy.eval()
    policy.precision = before
    with torch.no_grad():
        policy.actor.log_std.fill_(float(np.log(options.std)))  # type: ignore[union-attr,operator]
    steps = sum(len(d) for d in episodes)
    seconds = time.monotonic() - start
    return {**means, "episodes": len(episodes), "steps": steps, "seconds": seconds}


class _Source:
    """Mini-batches of demonstrations: whole episodes, or steps where the policy has no memory."""

    def __init__(
        self,
        policy: Policy,
        episodes: list[Demonstration],
        options: CloneOptions,
        layout: ActionLayout,
    ) -> None:
        self._policy, self._episodes = policy, episodes
        self._options, self._layout = options, layout
        if options.mirror > 0.0:
            check_mirror(episodes[0])
        self._rows = None if policy.recurrent else Rows(episodes, options, layout)
        self._total = len(episodes) if self._rows is None else len(self._rows)
        self.count = self._total
        if self._rows is not None and options.max_rows:
            self.count = min(self.count, options.max_rows)
        self.batches = -(-self.count // (options.batch if self._rows is None else options.rows))

    def epoch(self, number: int) -> Iterator[tuple[int, Batch]]:
        """Yield (episodes or steps, mini-batch)."""
        rng = np.random.default_rng([self._options.seed, number])
        order = rng.permutation(self._total)
        for chosen in np.array_split(order[: self.count], self.batches):
            if self._rows is not None:
                yield len(chosen), self._rows.batch(self._policy, chosen)
            else:
                mirror, shift = self._options.mirror, self._options.shift
                some = [varied(self._episodes[k], rng, mirror, shift) for k in chosen]
                yield len(chosen), make_batch(self._policy, some, self._options, self._layout)


def _update(
    policy: Policy, batch: Batch, optimizer: torch.optim.Optimizer, options: CloneOptions
) -> np.ndarray:
    action, value = losses(policy, batch, options)
    loss = action + options.value_coef * value
    if not torch.isfinite(loss):
        raise UserError("the imitation loss is not finite; lower imitate.clone.lr.")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), options.max_grad_norm)
    optimizer.step()
    return np.array([float(action.detach()), float(value.detach())])


def _save(
    path: Path, policy: Policy, optimizer: torch.optim.Optimizer, epoch: int, seconds: float
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {
        "policy": policy.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "seconds": seconds,
    }
    with replacing(path) as temporary:
        torch.save(state, temporary)


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
