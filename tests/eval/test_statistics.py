from __future__ import annotations

import math

import numpy as np
import pytest

from eval.statistics import bootstrap, wilson


def test_bootstrap_of_rates_matches_the_binomial() -> None:
    values = [True] * 30 + [False] * 70
    interval = bootstrap(values, seed=1)
    assert interval.mean == pytest.approx(0.3) and interval.count == 100
    # Percentiles of Binomial(100, 0.3) / 100.
    assert interval.low == pytest.approx(0.21, abs=0.011)
    assert interval.high == pytest.approx(0.39, abs=0.011)
    assert bootstrap(values, seed=1) == interval


def test_bootstrap_of_numbers_is_near_the_normal_interval() -> None:
    data = np.random.default_rng(0).normal(5.0, 2.0, 400)
    interval = bootstrap(data, seed=0)
    half = 1.96 * data.std() / math.sqrt(data.size)
    assert interval.low == pytest.approx(data.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(data.mean() + half, abs=0.03)


def test_bootstrap_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for trial in range(300):
        interval = bootstrap(rng.random(80) < 0.4, seed=trial, resamples=1000)
        hits += interval.low <= 0.4 <= interval.high
    assert 0.90 <= hits / 300 <= 0.98


def test_extremes() -> None:
    assert bootstrap([]).to_json() == {"mean": None, "low": None, "high": None, "count": 0}
    assert bootstrap([True] * 20).low == 1.0
    low, high = wilson(20, 20)
    # 1 / (1 + z^2/n), the closed form at a rate of one.
    assert low == pytest.approx(1 / (1 + 1.959964**2 / 20), rel=1e-5) and high == 1.0
    low, high = wilson(8, 10)
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
