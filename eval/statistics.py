"""Means with intervals."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its interval.

    Attributes:
        mean: sample mean, NaN without samples.
        low: lower end.
        high: upper end.
        count: number of samples.
    """

    mean: float
    low: float
    high: float
    count: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values; NaN becomes ``None``."""
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in asdict(self).items()
        }


def bootstrap(
    values: np.ndarray | list[float] | list[bool],
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Return the mean and its percentile bootstrap interval (Efron 1979).

    Args:
        values: (n,) independent samples, one an episode.
        seed: of the resampling; same seed, same interval.
        resamples: number of bootstrap means.
        confidence: probability that the interval covers.

    Returns:
        The interval; a single point if all samples are equal, which says nothing of how sure the
        mean is: see ``wilson`` for rates near 0 or 1.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    rng = np.random.default_rng(seed)
    if np.isin(data, (0.0, 1.0)).all():
        # Resampling zeros and ones is a binomial draw, exactly.
        means = rng.binomial(data.size, data.mean(), size=resamples) / data.size
    else:
        rows = max(1, 1_000_000 // data.size)
        chunks = [
            data[rng.integers(0, data.size, (min(rows, resamples - start), data.size))].mean(axis=1)
            for start in range(0, resamples, rows)
        ]
        means = np.concatenate(chunks)
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(data.mean()), float(low), float(high), int(data.size))


def wilson(successes: int, count: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the Wilson score interval of a rate; wide where the bootstrap collapses to a point.

    Args:
        successes: number of successes.
        count: number of trials.
        z: normal quantile, 95% by default.
    """
    if count == 0:
        return math.nan, math.nan
    rate, spread = successes / count, z * z / count
    centre = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
