"""Which parts of the robot a skill's action moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ActionLayout:
    """Which parts of the robot a flat action moves, in this order; all values in [-1, 1].

    Attributes:
        arm: seven target changes.
        grip: >= 0 grasps, < 0 releases.
        base: forward and turn.
        stop: > 0 ends the episode.
    """

    arm: bool = True
    grip: bool = True
    base: bool = True
    stop: bool = False

    @property
    def size(self) -> int:
        """Length of the flat action."""
        return 7 * self.arm + self.grip + 2 * self.base + self.stop

    @property
    def grip_index(self) -> int:
        """Where in the flat action the grip stands.

        Raises:
            ValueError: the action has no grip.
        """
        if not self.grip:
            raise ValueError(f"{self} has no grip.")
        return 7 * self.arm

    @property
    def switches(self) -> dict[str, int]:
        """Where in the flat action ``"grip"`` and ``"stop"`` stand, as far as there are any."""
        found = {"grip": self.grip_index} if self.grip else {}
        return found | ({"stop": self.size - 1} if self.stop else {})

    @property
    def moving(self) -> np.ndarray:
        """(size,) bool: the entries that move arm or base, all but grip and stop."""
        parts = [True] * (7 * self.arm) + [False] * self.grip + [True] * (2 * self.base)
        return np.array(parts + [False] * self.stop)


ARM_GRIP_BASE = ActionLayout()
ARM_GRIP_BASE_STOP = ActionLayout(stop=True)
BASE_STOP = ActionLayout(arm=False, grip=False, stop=True)
BASE = ActionLayout(arm=False, grip=False)
