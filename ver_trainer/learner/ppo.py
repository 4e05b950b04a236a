"""Proximal policy optimisation over variable-experience rollouts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ver_trainer.config import OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.errors import NonFiniteError
from ver_trainer.learner.entropy import EntropyCoefficient
from ver_trainer.learner.extras import Extra, along
from ver_trainer.learner.losses import Losses, describe_fault
from ver_trainer.learner.off_policy import correct_off_policy
from ver_trainer.learner.optimizer import make_optimizer
from ver_trainer.learner.owner import GradientOwner
from ver_trainer.learner.schedule import AdaptiveRate, discount, learning_rate
from ver_trainer.learner.statistics import (
    explained_variance,
    update_observations,
    update_returns,
)
from ver_trainer.nets.policy import Pass, Policy
from ver_trainer.rollout.batch import MiniBatch, Rollout
from ver_trainer.rollout.storage import RolloutStorage


class PPOLearner:
    """Holds the policy being trained, its optimizer and its entropy coefficient.

    Attributes:
        updates: rollouts learned from; the version number of the weights.
        delayed: if set (``htsrl``), gradients are computed at the weights that collected the
            rollout and applied to the current ones.
        extras: further losses, such as the distance to a teacher.
        weights: of the policy loss and entropy along the training, see ``distill.ppo_coef``.
        owner: if set (``decoupled``), applies the gradients, at most ``lag`` behind.
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
        extras: Sequence[Extra] = (),
        weights: Sequence[float] = (1.0,),
        lag: int = 0,
    ) -> None:
        self.policy, self.ppo, self.optim, self.group, self.rng = policy, ppo, optim, group, rng
        self.vtrace_correction, self.delayed = vtrace_correction, delayed
        self.device = next(policy.parameters()).device
        self.coefficient = EntropyCoefficient(
            ppo.entropy_coef, ppo.learned_entropy, ppo.entropy_target
        ).to(self.device)
        self.extras, self.weights, self._weight = list(extras), list(weights), 1.0
        own = {extra.name: extra.module for extra in extras if extra.module is not None}
        self.own = nn.ModuleDict(own).to(self.device)
        self.modules = nn.ModuleList([policy, self.own, self.coefficient])
        self.parameters = [p for p in self.modules.parameters() if p.requires_grad]
        names = policy.critic_names()
        self._critic = [p for name, p in policy.named_parameters() if name in names]
        self._actor = [p for name, p in policy.named_parameters() if name not in names]
        self.owner = self._make_owner(lag) if lag else None
        if self.owner is None:
            self.optimizer = make_optimizer(policy, self.own, self.coefficient, optim)
        self.scaler = torch.amp.GradScaler(
            self.device.type, enabled=policy.precision == torch.float16
        )
        self.rate = AdaptiveRate(optim) if optim.schedule == "kl" else None
        self.updates = 0
        self.recurrent = policy.recurrent
        if ppo.max_correlation:  # of the first rollout; a checkpoint says what it was later
            policy.limit_correlation(ppo.max_correlation[0])

    def _make_owner(self, lag: int) -> GradientOwner:
        owned = copy.deepcopy((self.policy, self.own, self.coefficient))
        self.optimizer = make_optimizer(*owned, self.optim)
        parameters = [p for part in owned for p in part.parameters() if p.requires_grad]
        return GradientOwner(self.parameters, parameters, self.optimizer, owned[2].project, lag)

    @property
    def warming_up(self) -> bool:
        """Whether only the critic learns in this update."""
        return self.updates < self.ppo.critic_warmup

    @property
    def holding(self) -> bool:
        """Whether the policy is to stay near that of the rollout: labels may move it far."""
        labelled = any(extra.coefficient for extra in self.extras if extra.labels)
        return not self.warming_up and not labelled

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
            steps: environment steps done, for schedules that count them.

        Returns:
            Means over mini-batches of losses and statistics.

        Raises:
            NonFiniteError: for a NaN or infinity in a loss or a gradient; the weights are those
                before the faulty mini-batch.
        """
        ppo = replace(self.ppo, gamma=discount(self.ppo, progress))
        rollout = Rollout(storage, ppo, self.recurrent)
        if self.vtrace_correction:
            correct_off_policy(self.policy, rollout)
        else:
            rollout.compute_gae()
        update_returns(self.policy, storage.returns[rollout.fresh.rows], self.group)
        rollout.std = float(self.policy.return_scale)
        if self.ppo.normalize_advantage:
            self._normalize(rollout)
        for extra in self.extras:
            extra.prepare(rollout, progress, steps)
        self._weight = along(self.weights, progress)
        rate = self._set_rate(progress, storage.size)
        shift = self._shift(behaviour)
        sums, count = self._learn(rollout, shift)
        if self.ppo.max_std:
            self.policy.limit_std(along(self.ppo.max_std, progress))
        if self.ppo.max_correlation:
            self.policy.limit_correlation(along(self.ppo.max_correlation, progress))
        update_observations(self.policy, storage, rollout.rows, self.group, self.warming_up)
        if self.rate is not None and self.holding:
            rate = self.rate.value
            self.rate.end()
        lag = self.updates - storage.version[rollout.rows]
        self.updates += 1
        result = {name: float(value) / max(count, 1) for name, value in sums.items()}
        result["gradient_steps"] = float(count)
        result["gamma"] = rollout.config.gamma
        result |= {"lr": rate, "policy_lag": float(lag.mean()), "policy_lag_max": float(lag.max())}
        result["stale_fraction"] = 1 - len(storage.fresh_rows()) / len(rollout.rows)
        result["importance_weight"] = float(rollout.weight.mean())
        result["explained_variance"] = explained_variance(storage, rollout.rows)
        result["return_scale"] = float(self.policy.return_scale)
        return result

    def _learn(self, rollout: Rollout, shift: list[Tensor]) -> tuple[dict[str, Tensor], int]:
        """Sums of the statistics over gradient steps, and their number."""
        if self.owner is None:
            return self._steps(rollout, shift)
        self.owner.begin()
        try:
            found = self._steps(rollout, shift)
        except BaseException:
            self.owner.stop()
            raise
        self.owner.end()
        return found

    def _steps(self, rollout: Rollout, shift: list[Tensor]) -> tuple[dict[str, Tensor], int]:
        sums: dict[str, Tensor] = {}
        count, far = 0, False
        for _ in range(self.ppo.epochs):
            for batch in rollout.mini_batches(self.ppo.mini_batches, self.rng):
                stats = None if far else self._step(batch, shift, first=count == 0)
                if stats is None:
                    far = True
                    if not self.policy.config.separate_critic:
                        return sums, count
                    self._critic_step(batch, shift)
                    continue
                count += 1
                for name, value in stats.items():
                    sums[name] = sums[name] + value if name in sums else value
        return sums, count

    def _set_rate(self, progress: float, rows: int) -> float:
        batch = rows * self.group.size // self.ppo.mini_batches
        rate = learning_rate(self.optim, progress, batch)
        if self.rate is not None and self.holding:
            rate = self.rate.begin(rate, progress)
        self._apply_rate(rate)
        return rate

    def _apply_rate(self, rate: float) -> None:
        groups = self.optimizer.param_groups
        rates = [group.get("fixed_lr", rate * group.get("lr_scale", 1.0)) for group in groups]
        if self.owner is not None:
            self.owner.rates = rates  # its optimizer is at work
            return
        for group, own in zip(groups, rates, strict=True):
            group["lr"] = own

    def _step(self, batch: MiniBatch, shift: list[Tensor], first: bool) -> dict[str, Tensor] | None:
        """One gradient step, or None if the policy has moved far enough in this update."""
        behind = self._fetch(shift)
        with self._shifted(shift):
            losses = self.losses(batch)
            if not first and self._too_far(losses.stats["approx_kl"]):
                return None
            self._backward(losses.total, self.warming_up)
        norms = self._apply(losses)
        detached = {
            "loss": losses.total,
            "action_loss": losses.action,
            "value_loss": losses.value,
            "entropy": losses.entropy,
            "entropy_coef": self.coefficient.value(),
            **norms,
            "gradient_asynchrony": losses.total.new_tensor(behind),
            **losses.stats,
        }
        return {name: value.detach() for name, value in detached.items()}

    def _critic_step(self, batch: MiniBatch, shift: list[Tensor]) -> None:
        """A gradient step of a separate critic, after the policy has moved far enough."""
        self._fetch(shift)
        with self._shifted(shift):
            values = self.policy.critic_pass(batch.obs, batch.packing)
            loss = self.ppo.value_coef * self._value_loss(values, batch)
            self._backward(loss, critic_only=True)
        self._apply(loss)

    def _fetch(self, shift: list[Tensor]) -> float:
        """Clears the gradients, at the weights of the next; how many gradients these are behind."""
        behind = self.owner.fetch() if self.owner is not None else bool(shift)
        for parameter in self.parameters:
            parameter.grad = None
        return float(behind)

    def _backward(self, loss: Tensor, critic_only: bool) -> None:
        # Where nothing but the critic gets a gradient the optimizer leaves the rest alone.
        self.scaler.scale(loss).backward(inputs=self._critic if critic_only else None)
        for parameter in self._critic if critic_only else self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def _apply(self, losses: Losses | Tensor) -> dict[str, Tensor]:
        """Lets the optimizer step, and returns the norms that the gradients had."""
        self.group.average_gradients(self.parameters)
        if self.owner is None:
            self.scaler.unscale_(self.optimizer)
        norms = self._clip()
        total = losses if isinstance(losses, Tensor) else losses.total
        norm = 0 if self.scaler.is_enabled() else sum(norms.values())
        if not bool(torch.isfinite(total + norm)):
            raise NonFiniteError(describe_fault(self.policy, losses, self.updates + 1))
        if self.owner is not None:
            self.owner.submit()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.coefficient.project()
        return norms

    def _clip(self) -> dict[str, Tensor]:
        """A separate critic has a norm of its own: neither's gradient may shrink the other's."""
        most = self.ppo.max_grad_norm
        if not self.policy.config.separate_critic:
            return {"grad_norm": nn.utils.clip_grad_norm_(self.policy.parameters(), most)}
        actor = nn.utils.clip_grad_norm_(self._actor, most)
        return {
            "grad_norm": actor.to(self.device),
            "critic_grad_norm": nn.utils.clip_grad_norm_(self._critic, most),
        }

    def _too_far(self, divergence: Tensor) -> bool:
        """Adapts the learning rate to what this update has done so far; whether it is enough."""
        if not self.holding or (self.rate is None and not self.ppo.target_kl):
            return False
        mean = self.group.sum_array(np.array([float(divergence)]))[0] / self.group.size
        if self.rate is not None:
            self._apply_rate(self.rate.observe(float(mean)))
        return bool(0 < self.ppo.target_kl < mean)

    def losses(self, batch: MiniBatch) -> Losses:
        """Losses of one mini-batch; every row counts with its importance weight."""
        ppo = self.ppo
        out = self.policy.forward_pass(batch.obs, batch.packing)
        log_prob, entropies = out.distribution.log_prob(batch.action), out.distribution.entropy()
        ratio = torch.exp(log_prob - batch.log_prob)
        clipped = ratio.clamp(1 - ppo.clip, 1 + ppo.clip)
        gain = torch.min(ratio * batch.advantage, clipped * batch.advantage)
        action = -(gain * batch.weight).mean()
        value = self._value_loss(out.value, batch)
        entropy = (entropies * batch.weight).mean()
        plain = entropies.mean()
        coefficient = self.coefficient.loss(plain)
        total = ppo.value_coef * value
        if self._weight:  # a ratio may be infinite where nothing keeps it near 1
            bonus = self.coefficient.value() * entropy
            total = total + self._weight * (action - bonus + coefficient)
        with torch.no_grad():
            stats = {
                "clip_fraction": ((ratio - 1).abs() > ppo.clip).float().mean(),
                "approx_kl": (ratio - 1 - (log_prob - batch.log_prob)).mean(),
                "ratio_max": ratio.max(),
            }
        extras = self._extra_losses(out, batch, stats)
        total = total + sum(extras.values(), out.value.new_zeros(()))
        weighed = bool(self._weight)
        return Losses(total, action, value, plain, coefficient, stats, extras, weighed)

    def _value_loss(self, values: Tensor, batch: MiniBatch) -> Tensor:
        scale, clip = self.policy.return_scale, self.ppo.clip
        error = ((values - batch.returns) / scale).square()
        if self.ppo.clip_value:
            near = ((values - batch.value) / scale).clamp(-clip, clip)
            error = torch.max(error, ((batch.value - batch.returns) / scale + near).square())
        return 0.5 * (error * batch.weight).mean()

    def _extra_losses(
        self, out: Pass, batch: MiniBatch, stats: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        losses = {}
        for extra in self.extras:
            found = extra.loss(out, batch)
            if found is not None:
                losses[extra.name] = extra.coefficient * found.loss
                stats |= {f"{extra.name}_{name}": value for name, value in found.stats.items()}
        return losses

    def _normalize(self, rollout: Rollout) -> None:
        advantage = rollout.storage.advantage[rollout.rows].astype(np.float64)
        moments = np.array([advantage.sum(), np.square(advantage).sum(), len(advantage)])
        total, squares, count = self.group.sum_array(moments)
        rollout.mean = total / count
        rollout.std = np.sqrt(max(squares / count - rollout.mean**2, 0.0)) + 1e-8

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
            "own": self.own.state_dict(),
            "extras": {extra.name: extra.state_dict() for extra in self.extras},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.coefficient.load_state_dict(state["coefficient"])
        self.scaler.load_state_dict(state["scaler"])
        self.updates = int(state["updates"])
        if self.rate is not None:
            self.rate.value = float(state["rate"])
        self.own.load_state_dict(state["own"])
        for extra in self.extras:
            extra.load_state_dict(state["extras"][extra.name])
