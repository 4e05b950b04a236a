"""Starts that failed come again: a training spends its steps on what it cannot do yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_FAILURES = 5
"""A start that has failed so often is let go: it may be one that nobody can solve."""
MOST_WAITING = 1000
"""Starts that wait in a process; beyond that the one that has waited longest is let go."""


class FailedStarts:
    """Which starts come again, and when.

    A start is the seed that decides it (Jiang et al. 2021 replay levels by how much there is to
    learn from them; here that is whether they failed).

    Args:
        share: of the episodes, as far as starts wait.
        num_envs: worlds.
    """

    def __init__(self, share: float, num_envs: int) -> None:
        self.share = share
        self._waiting: list[int] = []
        self._failures: dict[int, int] = {}
        self._under_way = [-1] * num_envs
        self._fresh = np.ones(num_envs, dtype=bool)

    @property
    def fresh(self) -> np.ndarray:
        """(n,) bool: the worlds whose start has not come before."""
        return self._fresh

    def draw(self, env_id: int, seed: int) -> int:
        """Return the seed of the episode that begins in a world: ``seed``, or one that failed.

        Args:
            env_id: which world.
            seed: of a new episode; it decides what comes instead of it, too.
        """
        if not self.share:
            return seed
        rng = np.random.default_rng([seed, 7])
        again = bool(self._waiting) and rng.random() < self.share
        if again:
            seed = self._waiting.pop(int(rng.integers(len(self._waiting))))
        self._under_way[env_id], self._fresh[env_id] = seed, not again
        return seed

    def take(self, env_id: int, seed: int) -> int:
        """Return a seed that was asked for: it begins in a world, whatever waits."""
        self._under_way[env_id], self._fresh[env_id] = seed, True
        return seed

    def note(self, env_ids: Sequence[int], success: Sequence[bool]) -> None:
        """Take how the episodes of some worlds have ended."""
        if not self.share:
            return
        for env_id, won in zip(env_ids, success, strict=True):
            seed = self._under_way[env_id]
            failures = 0 if won else self._failures.get(seed, 0) + 1
            if not 0 < failures < MOST_FAILURES:
                self._failures.pop(seed, None)
                continue
            self._failures[seed] = failures
            self._waiting.append(seed)
            if len(self._waiting) > MOST_WAITING:
                self._failures.pop(self._waiting.pop(0), None)

    def get_state(self) -> dict[str, Any]:
        """Return everything that decides the future, as plain values."""
        return {
            "waiting": list(self._waiting),
            "failures": [[seed, count] for seed, count in self._failures.items()],
            "under_way": list(self._under_way),
            "fresh": [bool(fresh) for fresh in self._fresh],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what :meth:`get_state` returned."""
        self._waiting = [int(seed) for seed in state["waiting"]]
        self._failures = {int(seed): int(count) for seed, count in state["failures"]}
        self._under_way = [int(seed) for seed in state["under_way"]]
        self._fresh = np.array(state["fresh"], dtype=bool)
