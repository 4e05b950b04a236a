"""Starts that failed come again: a training spends its steps on what it cannot do yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skills.envs.plain import plain, whole
from skills.tasks.handoff import HandoffStart

MOST_FAILURES = 5
"""A start that has failed so often is let go: it may be one that nobody can solve."""
MOST_WAITING = 1000
"""Starts that wait in a process; beyond that the one that has waited longest is let go."""
MOST_STUCK = 200
"""The same of states in which the time was up."""


@dataclass(frozen=True)
class Stuck:
    """A state in which the time was up.

    Attributes:
        start: the state.
        failures: how often what came of it has failed since.
    """

    start: HandoffStart
    failures: int = 0


class FailedStarts:
    """Which starts come again, and when.

    A start is the seed that decides it (Jiang et al. 2021 replay levels by how much there is to
    learn from them; here that is whether they failed). Where the time was up the state in which it
    was up is a start of its own, too: what stands still there goes on standing still, and how to
    get away is learned from nowhere else.

    Args:
        share: of the episodes, as far as starts wait.
        num_envs: worlds.
    """

    def __init__(self, share: float, num_envs: int) -> None:
        self.share = share
        self._waiting: list[int] = []
        self._failures: dict[int, int] = {}
        self._stuck: list[Stuck] = []
        self._under_way: list[int | Stuck] = [-1] * num_envs
        self._fresh = np.ones(num_envs, dtype=bool)

    @property
    def fresh(self) -> np.ndarray:
        """(n,) bool: the worlds whose start has not come before."""
        return self._fresh

    def draw(self, env_id: int, seed: int) -> int | HandoffStart:
        """Return what begins in a world: ``seed``, one that failed, or a state.

        Args:
            env_id: which world.
            seed: of a new episode; it decides what comes instead of it, too.
        """
        if not self.share:
            return seed
        rng = np.random.default_rng([seed, 7])
        again = bool(self._waiting or self._stuck) and rng.random() < self.share
        drawn: int | Stuck = seed
        if again:
            states = bool(self._stuck) and (not self._waiting or rng.random() < 0.5)
            pool: list[Any] = self._stuck if states else self._waiting
            drawn = pool.pop(int(rng.integers(len(pool))))
        self._under_way[env_id], self._fresh[env_id] = drawn, not again
        return drawn.start if isinstance(drawn, Stuck) else drawn

    def take(self, env_id: int, seed: int) -> int:
        """Return a seed that was asked for: it begins in a world, whatever waits."""
        self._under_way[env_id], self._fresh[env_id] = seed, True
        return seed

    def note(self, env_id: int, success: bool, stuck: HandoffStart | None = None) -> None:
        """Take how the episode of a world has ended.

        Args:
            env_id: which world.
            success: whether it succeeded.
            stuck: the state in which its time was up, if it can be a start.
        """
        if not self.share:
            return
        played = self._under_way[env_id]
        if isinstance(played, Stuck):
            failures = played.failures + 1
            if not success and failures < MOST_FAILURES:
                self._keep(Stuck(stuck or played.start, failures))
            return
        failures = 0 if success else self._failures.get(played, 0) + 1
        if not success and stuck is not None:
            self._keep(Stuck(stuck))
        if not 0 < failures < MOST_FAILURES:
            self._failures.pop(played, None)
            return
        self._failures[played] = failures
        self._waiting.append(played)
        if len(self._waiting) > MOST_WAITING:
            self._failures.pop(self._waiting.pop(0), None)

    def _keep(self, state: Stuck) -> None:
        self._stuck = [*self._stuck, state][-MOST_STUCK:]

    def get_state(self) -> dict[str, Any]:
        """Return everything that decides the future, as plain values."""
        return {
            "waiting": list(self._waiting),
            "failures": [[seed, count] for seed, count in self._failures.items()],
            "stuck": plain(self._stuck),
            "under_way": plain(self._under_way),
            "fresh": [bool(fresh) for fresh in self._fresh],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what :meth:`get_state` returned."""
        self._waiting = [int(seed) for seed in state["waiting"]]
        self._failures = {int(seed): int(count) for seed, count in state["failures"]}
        self._stuck = whole(state["stuck"], Stuck, HandoffStart)
        self._under_way = whole(state["under_way"], Stuck, HandoffStart)
        self._fresh = np.array(state["fresh"], dtype=bool)
