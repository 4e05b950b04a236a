"""One inference: observations to actions and rows of the rollout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ver_trainer.nets.policy import Policy, PolicyStep
from ver_trainer.rollout.transfer import Transfer


@dataclass
class Inferred:
    """An inference that has not been stored yet."""

    rows: slice
    index: Tensor
    state: Tensor
    step: PolicyStep


@dataclass
class Inference:
    """What inference needs, in the main process or in a worker.

    Attributes:
        policy: the policy.
        tensors: those of the rollout storage, ``[capacity, ...]``.
        state: recurrent state of every environment ``[num_envs, state_size]``.
        transfer: access to the environments' buffers.
        generator: source of the sampling noise.
    """

    policy: Policy
    tensors: dict[str, Tensor]
    state: Tensor
    transfer: Transfer
    generator: torch.Generator

    def act(self, envs: np.ndarray, rows: slice) -> Inferred:
        """Infers for ``envs`` and writes their actions to the environments' buffers."""
        obs = {k[4:]: v[rows] for k, v in self.tensors.items() if k.startswith("obs/")}
        self.transfer.read_into(obs, envs)
        index = torch.from_numpy(envs).to(self.state.device)
        state = self.state[index]
        step = self.policy.act(obs, state, self.generator)
        self.transfer.write_actions(envs, step.action)
        return Inferred(rows, index, state, step)

    def store(self, outcome: Inferred) -> None:
        """Writes the rows of the rollout and the next recurrent states."""
        rows, step, tensors = outcome.rows, outcome.step, self.tensors
        tensors["state"][rows] = outcome.state
        tensors["action"][rows] = step.action
        tensors["log_prob"][rows] = step.log_prob
        tensors["value"][rows] = step.value
        self.state[outcome.index] = step.state
