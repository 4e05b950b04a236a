"""Returns against plain references."""

from __future__ import annotations

import numpy as np
import pytest

from ver_trainer.rollout.returns import gae, vtrace


def random_sequences(seed: int):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 15, rng.integers(1, 10))
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    last = np.where(rng.random(len(lengths)) < 0.5, 0.0, rng.normal(size=len(lengths)))
    return rng.normal(size=total), rng.normal(size=total), last, starts, lengths, rng


@pytest.mark.parametrize("seed", range(20))
def test_gae_is_the_discounted_sum_of_temporal_differences(seed: int) -> None:
    rewards, values, last, starts, lengths, _ = random_sequences(seed)
    advantages = gae(rewards, values, last, starts, lengths, 0.97, 0.9)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        after = np.append(values[start + 1 : start + length], last[i])
        deltas = rewards[start : start + length] + 0.97 * after - values[start : start + length]
        for t in range(length):
            powers = (0.97 * 0.9) ** np.arange(length - t)
            assert advantages[start + t] == pytest.approx((powers * deltas[t:]).sum(), abs=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_gae_with_lambda_one_is_the_bootstrapped_return(seed: int) -> None:
    rewards, values, last, starts, lengths, _ = random_sequences(seed)
    advantages = gae(rewards, values, last, starts, lengths, 0.9, 1.0)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        total = (0.9 ** np.arange(length) * rewards[start : start + length]).sum()
        total += 0.9**length * last[i]
        assert advantages[start] + values[start] == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_vtrace_against_its_definition(seed: int) -> None:
    rewards, values, last, starts, lengths, rng = random_sequences(seed)
    ratios = np.exp(rng.normal(size=len(rewards)))
    targets, advantages = vtrace(rewards, values, last, ratios, starts, lengths, 0.95, 1.0, 0.8)
    rho, c = np.minimum(ratios, 1.0), np.minimum(ratios, 0.8)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        after = np.append(values[start + 1 : start + length], last[i])
        for t in range(length):
            total = values[start + t]
            for k in range(t, length):
                product = np.prod(c[start + t : start + k])
                delta = rho[start + k] * (rewards[start + k] + 0.95 * after[k] - values[start + k])
                total += 0.95 ** (k - t) * product * delta
            assert targets[start + t] == pytest.approx(total, abs=1e-5)
            following = targets[start + t + 1] if t + 1 < length else last[i]
            expected = rewards[start + t] + 0.95 * following - values[start + t]
            assert advantages[start + t] == pytest.approx(expected, abs=1e-5)


def test_vtrace_on_policy_is_gae_with_lambda_one() -> None:
    rewards, values, last, starts, lengths, _ = random_sequences(1)
    ones = np.ones_like(rewards)
    targets, _ = vtrace(rewards, values, last, ones, starts, lengths, 0.95, 1.0, 1.0)
    advantages = gae(rewards, values, last, starts, lengths, 0.95, 1.0)
    np.testing.assert_allclose(targets, advantages + values, atol=1e-5)
