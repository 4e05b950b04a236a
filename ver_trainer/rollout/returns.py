"""Advantages over sequences of different lengths.

All functions take rows ordered by sequence: sequence ``i`` is rows
``starts[i] : starts[i] + lengths[i]``, oldest first, and lies within one episode.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


def _backwards(starts: Ints, lengths: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yields (sequence numbers, row numbers) from the last step of every sequence to the first."""
    order = np.argsort(-lengths, kind="stable")
    ends = (starts + lengths - 1)[order]
    counts = np.searchsorted(-lengths[order], -np.arange(lengths.max(initial=0)), side="left")
    for back, active in enumerate(counts):
        yield order[:active], ends[:active] - back


def gae(
    rewards: Floats,
    values: Floats,
    last_values: Floats,
    starts: Ints,
    lengths: Ints,
    gamma: float,
    lam: float,
) -> Floats:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16).

    Args:
        rewards: ``[rows]``.
        values: value predictions ``[rows]`` made at collection.
        last_values: ``[sequences]``, value of the state after the last row: 0 after a termination,
            the final state's value after a truncation, the next state's value if the episode goes
            on.
        starts: ``[sequences]``.
        lengths: ``[sequences]``, all positive.
        gamma: discount.
        lam: GAE's lambda.

    Returns:
        Advantages ``[rows]`` float32.
    """
    advantages = np.zeros(len(rewards), np.float64)
    following = last_values.astype(np.float64).copy()
    running = np.zeros(len(starts), np.float64)
    for sequence, row in _backwards(starts, lengths):
        delta = rewards[row] + gamma * following[sequence] - values[row]
        running[sequence] = delta + gamma * lam * running[sequence]
        advantages[row] = running[sequence]
        following[sequence] = values[row]
    return advantages.astype(np.float32)


def vtrace(
    rewards: Floats,
    values: Floats,
    last_values: Floats,
    ratios: Floats,
    starts: Ints,
    lengths: Ints,
    gamma: float,
    max_rho: float,
    max_c: float,
) -> tuple[Floats, Floats]:
    """V-trace targets and advantages (Espeholt et al. 2018, eq. 1 and section 4.2).

    Args:
        rewards: ``[rows]``.
        values: values of the current critic ``[rows]``.
        last_values: as in :func:`gae`.
        ratios: current over behaviour probability of the action taken ``[rows]``.
        starts: ``[sequences]``.
        lengths: ``[sequences]``.
        gamma: discount.
        max_rho: truncation level of the ratios in the temporal difference.
        max_c: truncation level of the trace.

    Returns:
        ``(targets, advantages)``, each ``[rows]`` float32. The advantages are without the ratio
        of their own step, by which a policy-gradient loss multiplies them.
    """
    rho, trace = np.minimum(ratios, max_rho), np.minimum(ratios, max_c)
    targets = np.zeros(len(rewards), np.float64)
    advantages = np.zeros(len(rewards), np.float64)
    next_value = last_values.astype(np.float64).copy()
    next_target = next_value.copy()
    for sequence, row in _backwards(starts, lengths):
        delta = rho[row] * (rewards[row] + gamma * next_value[sequence] - values[row])
        correction = trace[row] * (next_target[sequence] - next_value[sequence])
        targets[row] = values[row] + delta + gamma * correction
        advantages[row] = rewards[row] + gamma * next_target[sequence] - values[row]
        next_value[sequence] = values[row]
        next_target[sequence] = targets[row]
    return targets.astype(np.float32), advantages.astype(np.float32)
