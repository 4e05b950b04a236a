"""Noise that lasts over steps, and what PPO may make of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.test_finetuning import BOX
from ver_trainer import train
from ver_trainer.config import NetConfig
from ver_trainer.nets.policy import make_policy

RHO = 0.8


def test_half_of_the_noise_lasts() -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], noise_correlation=RHO, initial_std=0.5))
    generator = torch.Generator().manual_seed(0)
    obs, state = {"obs": torch.zeros(4000, 3)}, policy.initial_state(4000)
    drawn = []
    with torch.no_grad():
        mean, _ = policy.act_mode(obs, policy.initial_state(4000)[:, :0])
        for _ in range(20):
            step = policy.act(obs, state, generator)
            state = step.state
            drawn.append((step.action - mean).flatten())
    noise = torch.stack(drawn)
    assert noise[0].std().item() == pytest.approx(0.5 * math.sqrt(0.5), abs=0.01)
    assert noise[-1].std().item() == pytest.approx(0.5, abs=0.02)
    correlation = torch.corrcoef(noise)
    assert correlation[-1, -2].item() == pytest.approx(0.5 * RHO, abs=0.03)
    assert correlation[-1, -4].item() == pytest.approx(0.5 * RHO**3, abs=0.03)


def test_a_step_is_not_credited_with_what_its_noise_does_later() -> None:
    """The reward is the second of two actions: the first step's mean has no part in it."""
    policy = make_policy(BOX, NetConfig(mlp=[8], noise_correlation=RHO))
    generator = torch.Generator().manual_seed(0)
    n = 200_000
    obs = {"obs": torch.zeros(n, 3)}
    with torch.no_grad():
        state = policy.initial_state(n)
        for _ in range(20):  # until the noise is what it stays
            state = policy.act(obs, state, generator).state
        steps = []
        for _ in range(2):
            lasting = state[:, -policy.lasting_size :]
            step = policy.act(obs, state, generator)
            steps.append((step, lasting))
            state = step.state
        reward = steps[1][0].action[:, 0]
        gradients = []
        for step, lasting in steps:
            head = policy.actor(policy.encoder(obs))
            marginal = ((step.action - head.mean) / head.log_std.exp().square())[:, 0]
            given = head.beside(lasting)
            score = ((step.action - given.mean) / given.log_std.exp().square())[:, 0]
            gradients.append((float((reward * score).mean()), float((reward * marginal).mean())))
    (ours, marginal), (own, _) = gradients
    assert ours == pytest.approx(0.0, abs=0.02) and own == pytest.approx(1.0, abs=0.02)
    assert marginal == pytest.approx(0.5 * RHO, abs=0.02)


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_the_learner_knows_the_noise_that_was_drawn(core: str, tmp_path: Path) -> None:
    """Before the first gradient step the ratio is one, with half of it unknown it would not be."""
    values = {
        "env": "Pendulum-v1", "total_steps": 256, "collect.num_envs": 4, "collect.steps": 64,
        "net.core": core, "net.core_size": 16, "net.noise_correlation": RHO,
        "ppo.epochs": 1, "ppo.mini_batches": 1, "collector": "inline",
        "out": str(tmp_path / "run"),
    }  # fmt: skip
    train(**values)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows and all(abs(row["learner/ratio_max"] - 1.0) < 1e-4 for row in rows)
    assert np.isfinite([row["learner/action_loss"] for row in rows]).all()
