"""Environments that hand over, or change, arrays which they go on using."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.ver_trainer.test_batched import Worlds
from tests.ver_trainer.test_batched import config as batched_config
from tests.ver_trainer.test_runner import assert_same, check_resume, config, weights
from ver_trainer import train
from ver_trainer.parts import build


class SameTensor(Worlds):
    """Writes the rewards of every step into one tensor, as simulators on a GPU do."""

    kept: torch.Tensor | None = None

    def step(self, action: torch.Tensor) -> Any:
        observation, reward, *rest = super().step(action)
        self.kept = reward.clone() if self.kept is None else self.kept.copy_(reward)
        return observation, self.kept, *rest


def test_every_step_has_its_own_reward(tmp_path: Path) -> None:
    settings = batched_config(tmp_path, **{"collect.steps": 5})
    rewards = []
    for worlds in (Worlds, SameTensor):
        parts = build(settings, lambda kind=worlds: kind(6))
        parts.collector.collect()
        rewards.append(parts.storage.reward[:30].reshape(5, 6).copy())
    assert (rewards[0] == rewards[1]).all() and rewards[0][:2, 5].tolist() == [1.0, 2.0]


class Live(gym.Env[Any, Any]):
    """Its state is the array that it goes on with."""

    stop_at: int | None = None
    steps = 0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1e6, 1e6, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.q = np.zeros(1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.q[:], self.age = 0.0, 0
        return self.q.astype(np.float32), {}

    def step(self, action: int) -> Any:
        Live.steps += 1
        if Live.steps == Live.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        self.q += 0.1 if action else -0.1
        self.age += 1
        return self.q.astype(np.float32), float(self.q[0]), False, self.age >= 50, {}

    def get_state(self) -> dict[str, Any]:
        return {"q": self.q, "age": self.age}

    def set_state(self, state: dict[str, Any]) -> None:
        self.q[:], self.age = state["q"], state["age"]


def test_a_state_is_kept_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"collector": "inline", "total_steps": 768, "collect.num_envs": 4}
    values |= {"collect.steps": 32}
    train(config(tmp_path / "whole", **values), Live)
    monkeypatch.setattr(Live, "steps", 0)
    monkeypatch.setattr(Live, "stop_at", 300)  # in the middle of the third rollout
    assert not train(config(tmp_path / "part", **values), Live).finished
    monkeypatch.setattr(Live, "stop_at", None)
    assert train(config(tmp_path / "part", **values, resume="exact"), Live).finished
    assert_same(weights(tmp_path / "part", 6), weights(tmp_path / "whole", 6))


class InPlace(gym.Env[Any, Any]):
    """Scales the action that it is given where it lies."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.age = np.zeros(2), 0
        return self.x.astype(np.float32), {}

    def step(self, action: np.ndarray) -> Any:
        action *= 0.5
        self.x += action
        self.age += 1
        return self.x.astype(np.float32), float(self.x[0]), False, self.age >= 15, {}


def test_an_action_is_recorded_as_it_was_given(tmp_path: Path) -> None:
    def settings(out: Path, **more: Any) -> Any:
        values = {"collector": "inline", "total_steps": 320, "collect.num_envs": 4}
        return config(out, **values, **{"collect.steps": 16}, **more)

    check_resume(tmp_path, settings, InPlace, stop=2, last=5)
