"""Carries a policy on from where its mean action would stand still, or fail, for ever."""

from __future__ import annotations

import numpy as np

from tpsrl.geometry.rotations import wrap

WINDOW, LASTS = 10, 15
"""Steps without motion until it is stirred, and for how many then."""
WAY, TURN, HAND = 0.05, 0.1, 0.015
"""Less than this from the begin of the window to its end is no motion: base, m and rad; the hand in
its frame, m. A wrist that goes on turning brings nothing anywhere."""
LONG, ROOM = 40, 0.35
"""In so many steps a base that stays in a square of that side, m, gets nowhere, however it moves:
it goes to and fro."""
GENTLE, STRONG = (0.6, 0.8), (1.0, 0.95)
"""Noise that is added to the motions, where nothing moves and where it goes to and fro: standard
deviation, and correlation from one step to the next."""
AGAIN, MOST = 0.3, 0.6
"""Deviation in every step for each time that the same call has failed before, and most of it."""


class Restless:
    """Adds noise to motions where base and hand have stood still, or the base has come and gone.

    A policy learns with noise on its actions and acts without. Between two ways that are as good
    its mean action can be nothing, and without memory, or with one that has settled, it is nothing
    in the next step too: a point of rest, which noise leaves. Or it goes to one and back for the
    other: away from there leads a push that lasts. What is felt is the robot's own odometry and
    where its hand is. Grip and stop are likelier choices, and rest in the same way:
    what a policy learned to do within ten steps it does in none where each is as likely as a tenth.
    Who steps the policy draws them as long as it is stirred.

    Args:
        moving: (A,) bool, entries of an action that move arm or base.
        drives: the base alone moves, so that it is pushed from where it comes and goes.
    """

    def __init__(self, moving: np.ndarray, drives: bool = False) -> None:
        self._moving, self._drives = np.asarray(moving), drives
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
        self._left, self._noisy = 0, GENTLE

    def feel(self, base: np.ndarray, hand: np.ndarray) -> bool:
        """Tell where the robot is, before each step; return whether it is stirred in it.

        Args:
            base: (3,) present x, y, yaw of the base, m and rad.
            hand: (3,) present end effector in the base frame, m.
        """
        self._felt = [*self._felt[-LONG:], np.concatenate([base, hand])]
        if len(self._felt) > WINDOW and self._still():
            self._left, self._noisy = LASTS, GENTLE
        elif self._drives and len(self._felt) > LONG and self._nowhere():
            self._left, self._noisy = LASTS, STRONG
            self._noise = self._rng.normal(size=self._noise.shape)
            self._felt = []
        return self._left > 0

    def stir(self, action: np.ndarray) -> np.ndarray:
        """Return the (A,) action in [-1, 1] that is carried out instead of a policy's."""
        deviation, correlation = self._noisy if self._left else (self._always, GENTLE[1])
        if not deviation:
            return action
        self._left = max(self._left - 1, 0)
        fresh = self._rng.normal(size=self._noise.shape)
        self._noise = correlation * self._noise + np.sqrt(1.0 - correlation**2) * fresh
        stirred = action.copy()
        stirred[self._moving] += deviation * self._noise
        return np.clip(stirred, -1.0, 1.0)

    def _still(self) -> bool:
        gone = self._felt[-1] - self._felt[-1 - WINDOW]
        turned, moved = abs(float(wrap(gone[2]))), np.linalg.norm(gone[3:])
        return bool(np.hypot(*gone[:2]) < WAY and turned < TURN and moved < HAND)

    def _nowhere(self) -> bool:
        return bool((np.ptp(self._felt, axis=0)[:2] < ROOM).all())
