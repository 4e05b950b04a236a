"""Tasks that end by their policy's own word."""

from __future__ import annotations

from dataclasses import dataclass

from skills.tasks.base import P, Task
from tpsrl.geometry.arrays import Array


@dataclass(frozen=True)
class StoppedTask(Task[P]):
    """A task that is done when the policy says stop, and rightly so.

    Attributes:
        failed_stop_ends: whether a stop without success ends the episode. False is for training
            from scratch: otherwise stop is unlearned, or ends episodes, long before it could have
            succeeded.
        failed_stop_penalty: lost at such a stop.
    """

    failed_stop_ends: bool = True
    failed_stop_penalty: float = 0.0

    def after_stops(self, reward: Array, failed: Array) -> tuple[Array, dict[str, Array]]:
        """Return what stops in vain leave of the reward, and how they end episodes.

        Args:
            reward: (n,) without them.
            failed: (n,) bool, stops without success.
        """
        if self.failed_stop_penalty:
            reward = reward - self.failed_stop_penalty * failed
        return reward, {"stop": failed} if self.failed_stop_ends else {}
