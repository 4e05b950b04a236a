"""Proximal policy optimisation over variable-experience rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ver_trainer.config import OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.errors import NonFiniteError
from ver_trainer.learner.anchor import Anchor
from ver_trainer.learner.entropy import EntropyCoefficient
from ver_trainer.learner.optimizer import make_optimizer
from ver_trainer.learner.schedule import AdaptiveRate, learning_rate
from ver_trainer.learner.statistics import update_observations, update_returns
from ver_trainer.nets.policy import Evaluation, Policy
from ver_trainer.rollout.batch import MiniBatch, Rollout
from ver_trainer.rollout.returns import vtrace
from ver_trainer.rollout.sequences import pack
from ver_trainer.rollout.storage import RolloutStorage


@dataclass
class Losses:
    """Scalar tensors of one mini-batch."""

    total: Tensor
    action: Tensor
    value: Tensor
    entropy: Tensor
    coefficient: Tensor
    stats: dict[str, Tensor]


class PPOLearner:
    """Holds the policy being trained, its optimizer and its entropy coefficient.

    Attributes:
        updates: rollouts learned from; the version number of the weights.
        delayed: if set (``htsrl``), gradients are computed at the weights that collected the
            rollout and applied to the current ones.
        anchor: if set, a penalty for leaving the pretrained policy.
    """

    def __init__(
        self,
        policy: Policy,
        ppo: PPOConfig,
        optim: OptimConfig,
        group: Group,
        rng: np.random.Generator,
        vtrace_correction: bool = False,
        delayed: bool = False,
    ) -> None:
        self.policy, self.ppo, self.optim, self.group, self.rng = policy, ppo, optim, group, rng
        self.vtrace_correction, self.delayed = vtrace_correction, delayed
        self.device = next(policy.parameters()).device
        self.coefficient = EntropyCoefficient(
            ppo.entropy_coef, ppo.learned_entropy, ppo.entropy_target
        ).to(self.device)
        self.modules = nn.ModuleList([policy, self.coefficient])
        self.parameters = [p for p in self.modules.parameters() if p.requires_grad]
        names = policy.critic_names()
        self._critic = [p for name, p in policy.named_parameters() if name in names]
        self.optimizer = make_optimizer(policy, self.coefficient, optim)
        self.scaler = torch.amp.GradScaler(
            self.device.type, enabled=policy.precision == torch.float16
        )
        self.rate = AdaptiveRate(optim) if optim.schedule == "kl" else None
        self.updates = 0
        self.recurrent = policy.recurrent
        self.anchor: Anchor | None = None
        self.check_stop: Callable[[], None] = lambda: None

    @property
    def warming_up(self) -> bool:
        """Whether only the critic learns in this update."""
        return self.updates < self.ppo.critic_warmup

    def update(
        self,
        storage: RolloutStorage,
        progress: float,
        behaviour: dict[str, Tensor] | None = None,
        steps: int = 0,
    ) -> dict[str, float]:
        """Learns from the rollout in ``storage``.

        Args:
            storage: a finished rollout.
            progress: share of the training done, for the learning-rate schedule.
            behaviour: weights that collected the rollout (only with ``delayed``).
            steps: environment steps done, for the anchor's weight.

        Returns:
            Means over mini-batches of losses and statistics.

        Raises:
            NonFiniteError: for a NaN or infinity in a loss or a gradient; the weights are those
                before the faulty mini-batch.
        """
        rollout = Rollout(storage, self.ppo, self.recurrent)
        if self.vtrace_correction:
            self._compute_vtrace(rollout)
        else:
            rollout.compute_gae()
        update_returns(self.policy, storage.returns[rollout.fresh.rows], self.group)
        rollout.std = float(self.policy.return_scale)
        if self.ppo.normalize_advantage:
            self._normalize(rollout)
        if self.anchor is not None:
            self.anchor.prepare(rollout, progress, steps)
        rate = self._set_rate(progress, storage.size)
        shift = self._shift(behaviour)
        sums, count = self._learn(rollout, shift)
        update_observations(self.policy, storage, rollout.rows, self.group, self.warming_up)
        if self.rate is not None:
            rate = self.rate.value
            self.rate.end()
        lag = self.updates - storage.version[rollout.rows]
        self.updates += 1
        result = {name: float(value) / max(count, 1) for name, value in sums.items()}
        result["gradient_steps"] = float(count)
        result |= {"lr": rate, "policy_lag": float(lag.mean()), "policy_lag_max": float(lag.max())}
        result["gradient_asynchrony"] = 1.0 if shift else 0.0
        result["stale_fraction"] = 1 - len(storage.fresh_rows()) / len(rollout.rows)
        result["importance_weight"] = float(rollout.weight.mean())
        result["explained_variance"] = _explained(storage, rollout.rows)
        result["return_scale"] = float(self.policy.return_scale)
        return result

    def _learn(self, rollout: Rollout, shift: list[Tensor]) -> tuple[dict[str, Tensor], int]:
        """Sums of the statistics over gradient steps, and their number."""
        sums: dict[str, Tensor] = {}
        count = 0
        for _ in range(self.ppo.epochs):
            for batch in rollout.mini_batches(self.ppo.mini_batches, self.rng):
                stats = self._step(batch, shift, first=count == 0)
                if stats is None:
                    return sums, count
                count += 1
                for name, value in stats.items():
                    sums[name] = sums[name] + value if name in sums else value
        return sums, count

    def _set_rate(self, progress: float, rows: int) -> float:
        batch = rows * self.group.size // self.ppo.mini_batches
        rate = learning_rate(self.optim, progress, batch)
        if self.rate is not None:
            rate = self.rate.begin(rate)
        self._apply_rate(rate)
        return rate

    def _apply_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group.get("fixed_lr", rate * group.get("lr_scale", 1.0))

    def _step(self, batch: MiniBatch, shift: list[Tensor], first: bool) -> dict[str, Tensor] | None:
        """One gradient step, or None if the policy has moved far enough in this update."""
        self.optimizer.zero_grad(set_to_none=False)
        with self._shifted(shift):
            losses = self.losses(batch)
            if not first and self._too_far(losses.stats["approx_kl"]):
                return None
            # Nothing but the critic gets a gradient in warm-up, so the optimizer leaves it alone.
            inputs = self._critic if self.warming_up else None
            self.scaler.scale(losses.total).backward(inputs=inputs)
        for parameter in self._critic if self.warming_up else self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.group.average_gradients(self.parameters)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), self.ppo.max_grad_norm)
        self._check(losses, norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.coefficient.project()
        detached = {
            "loss": losses.total,
            "action_loss": losses.action,
            "value_loss": losses.value,
            "entropy": losses.entropy,
            "entropy_coef": self.coefficient.value(),
            "grad_norm": norm,
            **losses.stats,
        }
        return {name: value.detach() for name, value in detached.items()}

    def _too_far(self, divergence: Tensor) -> bool:
        """Adapts the learning rate to what this update has done so far; whether it is enough."""
        rate = None if self.warming_up else self.rate
        if rate is None and not self.ppo.target_kl:
            return False
        mean = self.group.sum_array(np.array([float(divergence)]))[0] / self.group.size
        if rate is not None:
            self._apply_rate(rate.observe(float(mean)))
        return bool(0 < self.ppo.target_kl < mean)

    def losses(self, batch: MiniBatch) -> Losses:
        """Losses of one mini-batch; every row counts with its importance weight."""
        ppo = self.ppo
        distribution, values = self.policy.distribution(batch.obs, batch.packing)
        out = Evaluation(distribution.log_prob(batch.action), distribution.entropy(), values)
        ratio = torch.exp(out.log_prob - batch.log_prob)
        clipped = ratio.clamp(1 - ppo.clip, 1 + ppo.clip)
        gain = torch.min(ratio * batch.advantage, clipped * batch.advantage)
        action = -(gain * batch.weight).mean()
        scale = self.policy.return_scale
        error = ((out.value - batch.returns) / scale).square()
        if ppo.clip_value:
            near = ((out.value - batch.value) / scale).clamp(-ppo.clip, ppo.clip)
            error = torch.max(error, ((batch.value - batch.returns) / scale + near).square())
        value = 0.5 * (error * batch.weight).mean()
        entropy = (out.entropy * batch.weight).mean()
        plain = out.entropy.mean()
        coefficient = self.coefficient.loss(plain)
        total = action + ppo.value_coef * value - self.coefficient.value() * entropy + coefficient
        anchor = self.anchor.loss(distribution, batch) if self.anchor is not None else None
        if self.anchor is not None and anchor is not None:
            total = total + self.anchor.coefficient * anchor
        with torch.no_grad():
            stats = {
                "clip_fraction": ((ratio - 1).abs() > ppo.clip).float().mean(),
                "approx_kl": (ratio - 1 - (out.log_prob - batch.log_prob)).mean(),
                "ratio_max": ratio.max(),
            }
        if anchor is not None:
            stats["anchor_kl"] = anchor.detach()
        return Losses(total, action, value, plain, coefficient, stats)

    def _check(self, losses: Losses, norm: Tensor) -> None:
        if bool(torch.isfinite(losses.total + (0 if self.scaler.is_enabled() else norm))):
            return
        culprits = [
            name
            for name in ("action", "value", "entropy", "coefficient")
            if not bool(torch.isfinite(getattr(losses, name)))
        ]
        names = [
            name
            for name, p in self.policy.named_parameters()
            if p.grad is not None and not bool(torch.isfinite(p.grad).all())
        ]
        what = f"the {' and '.join(culprits)} loss" if culprits else "the gradient"
        where = f" (gradient of {', '.join(names[:5])})" if names else ""
        raise NonFiniteError(
            f"{what} is not finite in update {self.updates + 1}{where}: lower optim.lr or "
            "ppo.max_grad_norm; the last checkpoint is kept"
        )

    def _normalize(self, rollout: Rollout) -> None:
        advantage = rollout.storage.advantage[rollout.rows].astype(np.float64)
        moments = np.array([advantage.sum(), np.square(advantage).sum(), len(advantage)])
        total, squares, count = self.group.sum_array(moments)
        rollout.mean = total / count
        rollout.std = np.sqrt(max(squares / count - rollout.mean**2, 0.0)) + 1e-8

    @torch.no_grad()
    def _compute_vtrace(self, rollout: Rollout) -> None:
        """Replaces returns and advantages by V-trace's under the current policy."""
        storage, order, ppo = rollout.storage, rollout.fresh, self.ppo
        packed = pack(order.rows, order.starts, order.lengths)
        batch = rollout.gather(packed)
        out = self.policy.evaluate(batch.obs, batch.action, batch.packing)
        ratios = np.zeros(storage.capacity)
        values = np.zeros(storage.capacity)
        ratios[packed.rows] = torch.exp(out.log_prob - batch.log_prob).cpu().numpy()
        values[packed.rows] = out.value.float().cpu().numpy()
        rows = order.rows
        targets, advantages = vtrace(
            storage.reward[rows] * ppo.reward_scale,
            values[rows],
            storage.next_value[rows[order.starts + order.lengths - 1]],
            ratios[rows],
            order.starts,
            order.lengths,
            ppo.gamma,
            ppo.vtrace_rho,
            ppo.vtrace_c,
        )
        storage.returns[rows], storage.advantage[rows] = targets, advantages

    @torch.no_grad()
    def _shift(self, behaviour: dict[str, Tensor] | None) -> list[Tensor]:
        if not self.delayed or behaviour is None:
            return []
        named = dict(self.policy.named_parameters())
        return [named[name].detach() - behaviour[name] for name in named]

    @contextmanager
    def _shifted(self, shift: list[Tensor]) -> Iterator[None]:
        """Computes a gradient at older weights: ``HTS-RL``'s one-step delayed gradient."""
        parameters = list(self.policy.parameters())
        saved = [p.detach().clone() for p in parameters] if shift else []
        with torch.no_grad():
            for parameter, offset in zip(parameters, shift, strict=False):
                parameter.sub_(offset)
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value in zip(parameters, saved, strict=False):
                    parameter.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """Everything the learner needs to go on, besides the policy's weights."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "coefficient": self.coefficient.state_dict(),
            "scaler": self.scaler.state_dict(),
            "updates": self.updates,
            "rate": None if self.rate is None else self.rate.value,
            "anchor": None if self.anchor is None else self.anchor.state.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.coefficient.load_state_dict(state["coefficient"])
        self.scaler.load_state_dict(state["scaler"])
        self.updates = int(state["updates"])
        if self.rate is not None:
            self.rate.value = float(state["rate"])
        if self.anchor is not None and state.get("anchor") is not None:
            self.anchor.state.copy_(state["anchor"])


def _explained(storage: RolloutStorage, rows: np.ndarray) -> float:
    returns = storage.returns[rows]
    values = storage.tensors["value"].float().cpu().numpy()[rows]
    variance = float(returns.var())
    return float("nan") if variance == 0 else 1 - float((returns - values).var()) / variance
