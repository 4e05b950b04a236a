"""Exploration noise that lasts early in a training and not late (``ppo.max_correlation``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.test_finetuning import BOX, config, continuous_storage, weights
from ver_trainer import train
from ver_trainer.config import NetConfig, OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.export import load_policy, load_pretrained, save_policy
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.nets.policy import Policy, make_policy

NET = {"net.noise_correlation": 0.8, "ppo.max_correlation": [0.6, 0.0], "env": "Pendulum-v1",
       "collector": "inline"}  # fmt: skip


def measured(policy: Policy) -> float:
    """Correlation of the noise of an episode's first step with that of its second."""
    generator = torch.Generator().manual_seed(0)
    obs, state = {"obs": torch.zeros(4000, 3)}, policy.initial_state(4000)
    drawn = []
    with torch.no_grad():
        mean, _ = policy.act_mode(obs, policy.initial_state(4000)[:, : policy.actor_state_size])
        for _ in range(2):
            step = policy.act(obs, state, generator)
            state = step.state
            drawn.append((step.action - mean).flatten())
    return torch.corrcoef(torch.stack(drawn))[0, 1].item()


def test_noise_lasts_as_long_as_the_schedule_says() -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], noise_correlation=0.8))
    ppo = PPOConfig(max_correlation=[0.9, 0.4, 0.0])
    learner = PPOLearner(policy, ppo, OptimConfig(), Group(), np.random.default_rng(0))
    storage = continuous_storage(policy)
    assert measured(policy) == pytest.approx(0.8, abs=0.03)
    # A bound: it does not raise what net.noise_correlation says; without state: it may come back.
    for progress, rho in ((0.0, 0.8), (0.25, 0.65), (0.5, 0.4), (1.0, 0.0), (0.5, 0.4)):
        learner.update(storage, progress)
        assert measured(policy) == pytest.approx(rho, abs=0.03)


def test_a_bound_on_no_correlation_binds_nothing(tmp_path: Path) -> None:
    """So ``net.noise_correlation=0`` is enough to have a recipe's noise new in every step."""
    assert train(config(tmp_path / "run", **NET | {"net.noise_correlation": 0.0})).finished
    assert "correlation" not in weights(tmp_path / "run", 10)


def test_where_the_schedule_stood_is_in_the_checkpoint(tmp_path: Path) -> None:
    """A run that goes on draws the noise of one that never stopped."""
    assert train(config(tmp_path / "run", **NET)).finished
    end = weights(tmp_path / "run", 10)["correlation"].item()
    assert 0.0 < end < 0.1  # the last update begins before the end
    assert measured(load_policy(tmp_path / "run")) == pytest.approx(end, abs=0.03)


def test_older_weights_without_it_load_and_pretrained_ones_begin_anew(tmp_path: Path) -> None:
    net = NetConfig(mlp=[8], noise_correlation=0.8)
    policy = make_policy(BOX, net)
    older = {name: value for name, value in policy.state_dict().items() if name != "correlation"}
    policy.load_state_dict(older)
    assert measured(policy) == pytest.approx(0.8, abs=0.03)
    policy.limit_correlation(0.0)
    save_policy(policy, tmp_path / "policy.safetensors")
    for correlation in (0.0, 0.5):
        fresh = make_policy(BOX, NetConfig(mlp=[8], noise_correlation=correlation))
        load_pretrained(fresh, tmp_path / "policy.safetensors", [])
        torch.testing.assert_close(fresh.actor.linear.weight, policy.actor.linear.weight)
        assert measured(fresh) == pytest.approx(correlation, abs=0.03)


def test_the_first_rollout_is_bound_too() -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], noise_correlation=0.8))
    ppo = PPOConfig(max_correlation=[0.0])
    PPOLearner(policy, ppo, OptimConfig(), Group(), np.random.default_rng(0))
    assert measured(policy) == pytest.approx(0.0, abs=0.03)
