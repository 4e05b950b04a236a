"""What a part of somebody else's must do; see 'Parts of your own' in docs/trainer.md.

Schemes need no protocol but their table: :class:`ver_trainer.schemes.Scheme`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ver_trainer.config import TrainConfig
from ver_trainer.distributed.group import Group
from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.learner.extras import Extra
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.schemes import Scheme

ALGORITHM = ("update", "state_dict", "load_state_dict")
STORAGE = (
    "append", "finish_step", "bootstrap", "bootstrap_in_flight", "drop_episodes", "fresh_rows",
    "fill_rows", "sequences", "after_update", "adopt", "copy_from", "capture", "restore",
)  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """What an algorithm is made from: ``Class(setup)``.

    Attributes:
        policy: to train, on its device.
        config: of the run; sections of ``ppo.*`` and ``optim.*`` may be read or ignored.
        scheme: how collection and learning take turns.
        group: all ranks; whoever learns averages its gradients over them.
        rng: for the order of rows; its state is in the checkpoint.
        extras: losses that the configuration asks for beside the algorithm's own.
    """

    policy: Policy
    config: TrainConfig
    scheme: Scheme
    group: Group
    rng: np.random.Generator
    extras: tuple[Extra, ...] = ()


class Algorithm(Protocol):
    """Learns from finished rollouts (``algorithm=package.module:Class``, made by ``Class(setup)``).

    Attributes:
        policy: the one that is trained; its weights are what collection and checkpoints use.
        updates: rollouts learned from.
    """

    policy: Policy
    updates: int

    def update(
        self,
        storage: RolloutStorage,
        progress: float,
        behaviour: dict[str, Tensor] | None = None,
        steps: int = 0,
    ) -> dict[str, float]:
        """Learns from a rollout, adds 1 to ``updates`` and returns what is recorded.

        Args:
            storage: ``storage.fresh_rows()`` are complete; it must not be changed but for
                ``advantage`` and ``returns``.
            progress: share of the training done, in [0, 1].
            behaviour: weights that collected it, where the scheme overlaps in step (``htsrl``).
            steps: environment steps done over all ranks.
        """

    def state_dict(self) -> dict[str, Any]:
        """What a resume needs besides the policy's weights: tensors, numbers, lists and dicts."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""


class StorageMaker(Protocol):
    """Makes a storage (``collect.storage=package.module:Class``): subclass ``RolloutStorage``.

    Or give all that it has: collectors append rows, complete them and bootstrap what goes on; the
    learner reads ``tensors``, ``reward``, ``next_value``, ``env``, ``version``, ``fresh_rows()``
    and ``sequences(rows)``.
    """

    def __call__(
        self,
        spec: EnvSpec,
        num_envs: int,
        steps: int,
        state_size: int,
        device: torch.device | str = "cpu",
        keep_stale: bool = False,
    ) -> RolloutStorage:
        """Makes one for ``steps * num_envs`` complete rows; arguments as ``RolloutStorage``'s."""
