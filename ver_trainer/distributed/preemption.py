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
        """Called by every rank as a rollout starts, with its mean step times ``[num_envs]``."""

    def should_end(self, steps: int) -> bool:
        """Whether the rollout, which has ``steps`` complete steps, ends now."""

    def end(self, rollout_seconds: float, learn_seconds: float) -> None:
        """Called after learning with the times of this rollout."""


def best_duration(step_seconds: np.ndarray, quota: int, learn_seconds: float) -> float:
    """Rollout time that maximises ``S / (Time(S) + LT)`` (Wijmans et al. 2022, section 2.3).

    Args:
        step_seconds: mean seconds per step of every environment ``[ranks, num_envs]``.
        quota: steps of a full rollout on one rank.
        learn_seconds: time of the learning phase, LT.

    Returns:
        Seconds after which rollouts end; at that time ``S`` steps exist over all ranks, where a
        rank that has ``quota`` steps stops.
    """
    events = []
    for rank_seconds in np.maximum(step_seconds, 1e-6):
        # An environment with step time s delivers its k-th step at k * s; the rank is full after
        # at most this long.
        full = quota / np.sum(1 / rank_seconds) + rank_seconds.max()
        counts = np.floor(full / rank_seconds).astype(int) + 1
        times = np.concatenate(
            [np.arange(1, n + 1) * s for n, s in zip(counts, rank_seconds, strict=True)]
        )
        events.append(np.sort(times)[:quota])
    times = np.sort(np.concatenate(events))
    # Steps that arrive at the same moment all count.
    steps = np.searchsorted(times, times, side="right")
    return float(times[np.argmax(steps / (times + learn_seconds))])


class TimePreemption:
    """VER's decider. All ranks compute the same decision from the same gathered measurements.

    It runs in the process that infers, so it needs no extra process or process group. The
    duration is corrected by the mean difference between real and planned rollout times.
    """

    def __init__(self, group: Group, quota: int) -> None:
        self._group, self._quota = group, quota
        self._learn: deque[float] = deque(maxlen=5)
        self._errors: deque[float] = deque(maxlen=16)
        self._deadline = float("inf")
        self._planned = 0.0
        self.planned_seconds = 0.0

    def begin(self, step_seconds: np.ndarray) -> None:
        """Gathers step times and plans this rollout's duration."""
        learn = float(np.mean(self._learn)) if self._learn else -1.0
        mine = np.append(step_seconds, [learn, float(np.mean(self._errors or [0.0]))])
        everyone = self._group.gather_array(mine)
        seconds, learns, errors = everyone[:, :-2], everyone[:, -2], everyone[:, -1]
        self._deadline, self._planned = float("inf"), 0.0
        if (learns < 0).any() or (seconds <= 0).any():
            return  # nothing is known yet: collect a full rollout
        self._planned = best_duration(seconds, self._quota, float(learns.mean()))
        correction = float(errors.mean())
        self._deadline = time.perf_counter() + max(self._planned + correction, 0.0)
        self.planned_seconds = self._planned

    def should_end(self, steps: int) -> bool:
        """True once the planned time is over (and at least one step is there)."""
        return steps > 0 and time.perf_counter() >= self._deadline

    def end(self, rollout_seconds: float, learn_seconds: float) -> None:
        """Learns from the times of this rollout."""
        self._learn.append(learn_seconds)
        if self._planned:
            self._errors.append(rollout_seconds - self._planned)


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

    def collected(self) -> None:
        """Tells the other ranks that this one has finished its rollout."""
        self._group.store.add(self._key(), 1)

    def end(self, rollout_seconds: float, learn_seconds: float) -> None:
        """Nothing to learn from times."""
