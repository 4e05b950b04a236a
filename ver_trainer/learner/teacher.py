"""Another policy that says, for every step collected, what it would have done."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ver_trainer.config import DistillConfig, PPOConfig
from ver_trainer.envs.spaces import ActionSpec, EnvSpec
from ver_trainer.errors import ConfigError
from ver_trainer.export import load_policy
from ver_trainer.learner.committee import Committee
from ver_trainer.learner.extras import ExtraLoss, along
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import Pass, Policy
from ver_trainer.rollout.batch import MiniBatch, Rollout
from ver_trainer.rollout.sequences import pack

_AHEAD = 33
"""Points of the training's rest at which it is asked whether labels will be wanted."""


class Teacher:
    """Distance of a policy to another one, over the steps that the first one collects.

    The teacher keeps recurrent states of its own: once per rollout it runs over the new rows, from
    the states in which it left every environment's last rollout. It reads its own observations.

    Args:
        policy: the teacher; its parameters are frozen.
        num_envs: environments of this rank.
        schedule: weight of the loss as a function of (share of the training, steps) done.
        name: of its records.
        error: ``kl`` for KL(teacher || student), of discrete actions the cross-entropy up to a
            constant, or ``action`` for minus the log probability of what the teacher would do: its
            most likely action, clipped to the environment's bounds.
        choice_coef: weight in ``action`` of a dimension that chooses between -1 and +1.
        labels: whether it leads the policy, instead of keeping it where it is.

    Attributes:
        is_another: whether the run that goes on had another policy here, as where a run folder was
            named that has been trained on meanwhile.
    """

    module = None

    def __init__(
        self,
        policy: Policy | Committee,
        num_envs: int,
        schedule: Callable[[float, int], float],
        name: str,
        error: str = "kl",
        choice_coef: float = 1.0,
        labels: bool = False,
    ) -> None:
        self.policy = policy.requires_grad_(False)
        self.schedule, self.name, self.error, self.labels = schedule, name, error, labels
        device = next(policy.parameters()).device
        self._bound, self._choice_coef = _bounds(policy.spec.action, device), choice_coef
        self.state = torch.zeros(num_envs, policy.actor_state_size, device=device)
        self.coefficient = schedule(0.0, 0)
        self._weights, self.is_another = _digest(policy), False
        self._targets: Tensor | None = None
        self._known = np.zeros(0, bool)

    @torch.no_grad()
    def prepare(self, rollout: Rollout, progress: float, steps: int) -> None:
        """Labels the fresh rows of ``rollout``; see :class:`learner.extras.Extra`."""
        self.coefficient = self.schedule(progress, steps)
        if not self.coefficient and not self._remembers_for_later(progress, steps):
            self._targets = None
            return
        storage, order = rollout.storage, rollout.fresh
        packed = pack(order.rows, order.starts, order.lengths)
        env = storage.env[packed.first_rows]
        # An environment may have several sequences: one goes on, the others start an episode.
        begins = storage.step[packed.first_rows] == 0
        index = torch.from_numpy(env).to(self.state.device)
        state = self.state[index]
        state[torch.from_numpy(begins).to(state.device)] = 0.0
        rows = torch.from_numpy(packed.rows).to(self.state.device)
        obs = {name: storage.obs[name][rows] for name in self.policy.actor_obs}
        action = storage.tensors["action"][rows]
        packing = Packing(torch.from_numpy(packed.batch_sizes), state, action)
        distribution, last = self.policy.actor_pass(obs, packing)
        label = distribution.flat() if self.error == "kl" else self._bounded(distribution.mode())
        self._targets = label.new_zeros(storage.capacity, *label.shape[1:])
        self._targets[rows] = label
        self._known = np.zeros(storage.capacity, bool)
        self._known[packed.rows] = True
        newest = np.argsort(storage.episode[packed.first_rows], kind="stable")
        for sequence in newest.tolist():  # the latest episode of an environment comes last
            self.state[env[sequence]] = last[sequence]

    def loss(self, forward: Pass, batch: MiniBatch) -> ExtraLoss | None:
        """Mean distance of a mini-batch's rows; None once the weight is 0."""
        if self._targets is None or not self.coefficient:
            return None
        index = torch.from_numpy(batch.rows).to(self._targets.device)
        targets = self._targets[index]
        known = torch.from_numpy(self._known[batch.rows]).to(targets.device)
        loss = (self._measure(forward.distribution, targets) * batch.weight * known).mean()
        return ExtraLoss(loss, {self.error: loss.detach()})

    def _remembers_for_later(self, progress: float, steps: int) -> bool:
        """Whether a teacher with memory has to follow episodes that it will label later."""
        if not self.policy.actor_state_size:
            return False
        return any(self.schedule(at, steps) > 0 for at in np.linspace(progress, 1.0, _AHEAD))

    def _bounded(self, action: Tensor) -> Tensor:
        return action if self._bound is None else action.clamp(-self._bound, self._bound)

    def _measure(self, distribution: Any, targets: Tensor) -> Tensor:
        """Distance ``[n]`` of ``distribution`` to each row's label."""
        if self.error == "kl":
            return distribution.divergence(targets)
        binary = getattr(distribution, "binary", None)
        if binary is None:
            return -distribution.log_prob(targets)
        weight = torch.where(binary, self._choice_coef, 1.0)
        return -(distribution.log_probs(targets) * weight).sum(-1)

    def state_dict(self) -> dict[str, Any]:
        """The recurrent states, and which policy this is."""
        return {"state": self.state.clone(), "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.state.copy_(state["state"])
        self.is_another = state.get("weights", self._weights) != self._weights


def _digest(policy: Policy | Committee) -> str:
    """SHA-256 of a policy's weights."""
    digest = hashlib.sha256()
    for name, value in sorted(policy.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def make_anchor(policy: Policy, config: PPOConfig, num_envs: int) -> Teacher:
    """The policy's own pretrained self, with a weight that falls linearly to 0."""

    def weight(progress: float, steps: int) -> float:
        share = steps / config.anchor_steps if config.anchor_steps else progress
        return config.anchor_coef * max(1.0 - share, 0.0)

    return Teacher(copy.deepcopy(policy), num_envs, weight, "anchor")


def make_teacher(
    student: Policy, config: DistillConfig, num_envs: int, device: torch.device
) -> Teacher:
    """The policy that ``distill.teacher`` names, or several of which one speaks at a time.

    Raises:
        ConfigError: it reads or does other things than this environment has.
    """
    found = [load_policy(path, str(device)) for path in (config.teacher, *config.others)]
    policy = Committee(found) if config.others else found[0]
    _check_fit(policy, student, config)
    return Teacher(
        policy, num_envs, lambda progress, _: along(config.coef, progress), "distill", config.loss,
        config.choice_coef, labels=True,
    )  # fmt: skip


def _bounds(action: ActionSpec, device: torch.device) -> Tensor | None:
    """Where an action is clipped ``[size]``, in the policy's units; None if it is a choice."""
    if action.kind == "discrete":
        return None
    finite = np.isfinite(action.low) & np.isfinite(action.high)
    return torch.from_numpy(np.where(finite, 1.0, np.inf).astype(np.float32)).to(device)


def _check_fit(teacher: Policy | Committee, student: Policy, config: DistillConfig) -> None:
    spec: EnvSpec = student.spec
    who = f"distill.teacher={config.teacher}"
    if config.others:
        who = f"one of distill.teacher and distill.others={config.others}"
    for name, array in teacher.acting_spec.observations.items():
        if spec.observations.get(name) != array:
            raise ConfigError(
                f"{who} reads the observation '{name}' {list(array.shape)}, which this environment "
                f"does not give (it gives {', '.join(spec.observations)}): let it give all that "
                "the teacher reads, and choose the student's own with net.actor_obs"
            )
    if teacher.spec.action != spec.action:
        raise ConfigError(
            f"{who} has other actions ({teacher.spec.action.kind}, {teacher.spec.action.size}) "
            f"than this environment ({spec.action.kind}, {spec.action.size}): use a teacher that "
            "was trained with the same actions"
        )
    if sorted(teacher.config.binary_actions) != sorted(student.config.binary_actions):
        raise ConfigError(
            f"{who} has net.binary_actions={list(teacher.config.binary_actions)}: use the same"
        )
