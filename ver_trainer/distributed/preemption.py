"""Ends rollouts early when waiting for the slowest rank costs more than its steps are worth."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

import numpy as np

from ver_trainer.distributed.group import Group


class Preemption(Protocol):
    """Decides during a rollout whether it ends before it is full."""

    def begin(self, step_seconds: np.ndarray) -> None:
        """Called by every rank as a rollout starts.

        Args:
            step_seconds: mean seconds between successive steps of every environment
                ``[num_envs]``, 0 where nothing is known.
        """

    def should_end(self, steps: int) -> bool:
        """Whether the rollout, which has ``steps`` complete steps, ends now."""

    def collected(self, steps: int) -> None:
        """Called as a rollout ends, with its complete steps."""

    def end(self, learn_seconds: float) -> None:
        """Called after learning, with the time that it took."""


def _arrivals(step_seconds: np.ndarray, quota: int) -> list[np.ndarray]:
    """For every rank the times at which its steps arrive until it is full, in order."""
    found = []
    for rank_seconds in np.maximum(step_seconds, 1e-6):
        # An environment with step time s delivers its k-th step at k * s; the rank is full after
        # at most this long.
        full = quota / np.sum(1 / rank_seconds) + rank_seconds.max()
        counts = np.floor(full / rank_seconds).astype(int) + 1
        times = np.concatenate(
            [np.arange(1, n + 1) * s for n, s in zip(counts, rank_seconds, strict=True)]
        )
        found.append(np.sort(times)[:quota])
    return found


def best_duration(
    step_seconds: np.ndarray, quota: int, learn_seconds: float, least_gain: float = 0.0
) -> tuple[float, int]:
    """Rollout time that maximises ``S / (Time(S) + LT)`` (Wijmans et al. 2022, section 2.3).

    Args:
        step_seconds: mean seconds between successive steps of every environment, waiting for
            inference and for its turn included ``[ranks, num_envs]``.
        quota: steps of a full rollout on one rank.
        learn_seconds: time of the learning phase, LT.
        least_gain: share of throughput that must be gained over full rollouts; below it the
            answer is the full rollout.

    Returns:
        ``(seconds, steps)`` after which rollouts end; at that time ``steps`` steps exist over all
        ranks, where a rank that has ``quota`` steps stops.
    """
    times = np.sort(np.concatenate(_arrivals(step_seconds, quota)))
    # Steps that arrive at the same moment all count.
    steps = np.searchsorted(times, times, side="right")
    rates = steps / (times + learn_seconds)
    best = int(np.argmax(rates))
    if rates[best] < (1 + least_gain) * rates[-1]:
        best = len(times) - 1
    return float(times[best]), int(steps[best])


class TimePreemption:
    """VER's decider. All ranks compute the same decision from the same gathered measurements.

    It runs in the process that infers, so it needs no extra process or process group. Rollouts are
    planned to be full unless ``LEAST_GAIN`` of the throughput is at stake, since a stale row is
    worth less than a fresh one. A rollout ends when the planned time is over and the ranks
    together have ``SHARE`` of the planned steps: where everything is slower than planned (a busy
    machine) no rank gains by ending. After ``PATIENCE`` times the planned time it ends with what
    is there: a rank has broken down.
    """

    LEAST_GAIN, SHARE, PATIENCE = 0.05, 0.95, 3.0

    def __init__(self, group: Group, quota: int) -> None:
        self._group, self._quota = group, quota
        self._learn: deque[float] = deque(maxlen=5)
        self._begin = 0.0
        self._number = self._planned_steps = self._told = 0
        self.planned_seconds = float("inf")

    def begin(self, step_seconds: np.ndarray) -> None:
        """Gathers step times and plans this rollout's duration."""
        learn = float(np.mean(self._learn)) if self._learn else -1.0
        everyone = self._group.gather_array(np.append(step_seconds, learn))
        seconds, learns = everyone[:, :-1], everyone[:, -1]
        self._number, self._told = self._number + 1, 0
        self.planned_seconds = float("inf")
        if (learns >= 0).all() and (seconds > 0).all():
            # Learning begins together: only the rank that comes last does not wait in it.
            self.planned_seconds, self._planned_steps = best_duration(
                seconds, self._quota, float(learns.min()), self.LEAST_GAIN
            )
        self._begin = time.perf_counter()

    def should_end(self, steps: int) -> bool:
        """True once the planned time is over and the planned steps are there."""
        elapsed = time.perf_counter() - self._begin
        if steps <= 0 or elapsed < self.planned_seconds:
            return False
        late = elapsed >= self.PATIENCE * self.planned_seconds
        return late or self._tell(steps) >= self.SHARE * self._planned_steps

    def _tell(self, steps: int) -> int:
        """Tells the other ranks what this one has; returns what is known of all together."""
        more, self._told = steps - self._told, steps
        return int(self._group.store.add(f"steps/{self._number}", more))

    def collected(self, steps: int) -> None:
        """Tells the other ranks what this one has."""
        if np.isfinite(self.planned_seconds):
            self._tell(steps)

    def end(self, learn_seconds: float) -> None:
        """Learns how long learning takes."""
        self._learn.append(learn_seconds)


class FractionPreemption:
    """DD-PPO's threshold (Wijmans et al. 2020, section 3).

    A rank that has a quarter of its rollout ends when a share of the ranks has finished.
    """

    def __init__(self, group: Group, quota: int, fraction: float, shortest: float = 0.25) -> None:
        self._group, self._quota = group, quota
        self._needed = max(int(np.ceil(fraction * group.size)), 1)
        self._shortest = shortest
        self._number = 0

    def begin(self, step_seconds: np.ndarray) -> None:
        """Starts counting the finished ranks of the next rollout."""
        del step_seconds
        self._number += 1

    def _key(self) -> str:
        return f"rollout/{self._number}"

    def should_end(self, steps: int) -> bool:
        """True if enough other ranks have finished."""
        if steps < self._shortest * self._quota or steps >= self._quota:
            return False
        return int(self._group.store.add(self._key(), 0)) >= self._needed

    def collected(self, steps: int) -> None:
        """Tells the other ranks that this one has finished its rollout."""
        del steps
        self._group.store.add(self._key(), 1)

    def end(self, learn_seconds: float) -> None:
        """Nothing to learn from times."""
