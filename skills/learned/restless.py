"""Carries a policy on from where its mean action would stand still, or fail, for ever."""

from __future__ import annotations

import numpy as np

from tpsrl.geometry.rotations import wrap

WINDOW, LASTS = 10, 15
"""Steps without motion until it is stirred, and for how many then."""
WAY, TURN, HAND = 0.05, 0.1, 0.015
"""Less than this from the begin of the window to its end is no motion: base, m and rad; the hand in
its frame, m. A wrist that goes on turning brings nothing anywhere."""
DEVIATION, CORRELATION = 0.6, 0.8
"""Of the noise that is added to the motions: standard, and from one step to the next."""
AGAIN, MOST = 0.3, 0.6
"""Deviation in every step for each time that the same call has failed before, and most of it."""


class Restless:
    """Adds noise to motions where base and hand have stood still.

    A policy learns with noise on its actions and acts without. Between two ways that are as good
    its mean action can be nothing, and without memory, or with one that has settled, it is nothing
    in the next step too: a point of rest, which noise leaves. What is felt is the robot's own
    odometry and where its hand is. Grip and stop are likelier choices, and rest in the same way:
    what a policy learned to do within ten steps it does in none where each is as likely as a tenth.
    Who steps the policy draws them as long as it is stirred.

    Args:
        moving: (A,) bool, entries of an action that move arm or base.
    """

    def __init__(self, moving: np.ndarray) -> None:
        self._moving = np.asarray(moving)
        self.reset(0)

    def reset(self, seed: int, failed_before: int = 0) -> None:
        """Begin.

        Args:
            seed: everything drawn follows from it.
            failed_before: how often the policy has failed at the same already. Its mean action
                would do the same again, so there is noise in every step, at rest or not.
        """
        self._always = min(AGAIN * failed_before, MOST)
        self._rng = np.random.default_rng([seed, 5])
        self._felt: list[np.ndarray] = []
        self._noise = np.zeros(int(self._moving.sum()))
        self._left = 0

    def feel(self, base: np.ndarray, hand: np.ndarray) -> bool:
        """Tell where the robot is, before each step; return whether it is stirred in it.

        Args:
            base: (3,) present x, y, yaw of the base, m and rad.
            hand: (3,) present end effector in the base frame, m.
        """
        self._felt = [*self._felt[-WINDOW:], np.concatenate([base, hand])]
        if len(self._felt) > WINDOW and self._still():
            self._left = LASTS
        return self._left > 0

    def stir(self, action: np.ndarray) -> np.ndarray:
        """Return the (A,) action in [-1, 1] that is carried out instead of a policy's."""
        deviation = DEVIATION if self._left else self._always
        if not deviation:
            return action
        self._left = max(self._left - 1, 0)
        fresh = self._rng.normal(size=self._noise.shape)
        self._noise = CORRELATION * self._noise + np.sqrt(1.0 - CORRELATION**2) * fresh
        stirred = action.copy()
        stirred[self._moving] += deviation * self._noise
        return np.clip(stirred, -1.0, 1.0)

    def _still(self) -> bool:
        gone = self._felt[-1] - self._felt[0]
        turned, moved = abs(float(wrap(gone[2]))), np.linalg.norm(gone[3:])
        return bool(np.hypot(*gone[:2]) < WAY and turned < TURN and moved < HAND)
