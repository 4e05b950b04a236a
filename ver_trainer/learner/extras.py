"""Losses beside those of the algorithm: what they have in common."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor, nn

from ver_trainer.nets.policy import Pass
from ver_trainer.rollout.batch import MiniBatch, Rollout


class Extra(Protocol):
    """A loss that is added to the algorithm's with a weight.

    Attributes:
        name: of its records, ``learner/<name>_...``.
        coefficient: its weight in the running update.
        labels: whether it says what to do, so that the policy may have far to go.
    """

    name: str
    coefficient: float
    labels: bool

    @property
    def module(self) -> nn.Module | None:
        """Parameters of its own that are trained with the policy, or None."""

    def prepare(self, rollout: Rollout, progress: float, steps: int) -> None:
        """Called once an update; ``progress`` in [0, 1] and ``steps`` of the training so far."""

    def loss(self, forward: Pass, batch: MiniBatch) -> ExtraLoss | None:
        """Loss of one mini-batch, or None if there is none now."""

    def state_dict(self) -> dict[str, Any]:
        """What a resume needs, ``module`` excepted."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""


class ExtraLoss(NamedTuple):
    """Scalar loss, and scalars to record by their names."""

    loss: Tensor
    stats: dict[str, Tensor]


def along(values: list[float], progress: float) -> float:
    """A schedule: ``values`` at equal distances of the training, straight lines between them."""
    return float(np.interp(progress, np.linspace(0.0, 1.0, len(values)), values))
