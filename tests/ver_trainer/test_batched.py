"""A batched torch environment is trained without copies to NumPy, with the same storage code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ver_trainer import load_config, train
from ver_trainer.config import PPOConfig
from ver_trainer.errors import NonFiniteError, TrainerError
from ver_trainer.parts import build, choose_device
from ver_trainer.rollout.batch import Rollout
from ver_trainer.runner import Runner

DEVICE = choose_device("auto")


class Worlds:
    """Every world counts to its own length; odd ones terminate, even ones are truncated."""

    def __init__(self, num_envs: int = 6, broken: bool = False, pause: float = 0.0) -> None:
        self.num_envs, self.broken, self.pause = num_envs, broken, pause
        self.single_observation_space = spaces.Dict({"t": spaces.Box(-1, 100, (2,), np.float32)})
        self.single_action_space = spaces.Box(-3, 1, (2,), np.float32)
        self.length = torch.arange(num_envs, device=DEVICE) + 2
        self.largest = -1e9

    def _obs(self) -> dict[str, torch.Tensor]:
        return {"t": torch.stack((self.time.float(), self.length.float()), -1)}

    def reset(self, seed: int) -> Any:
        self.time = torch.zeros_like(self.length)
        return self._obs(), {}

    def step(self, action: torch.Tensor) -> Any:
        assert action.shape == (self.num_envs, 2) and action.min() >= -3 and action.max() <= 1
        time.sleep(self.pause)
        self.time = self.time + 1
        over = self.time >= self.length
        final = self._obs()
        reward = self.time.float() / (0 if self.broken else 1)
        self.time = torch.where(over, 0, self.time)
        odd = self.length % 2 == 1
        return self._obs(), reward, over & odd, over & ~odd, {"final_obs": final, "success": odd}

    def close(self) -> None:
        pass


def config(out: Path, **values: Any):
    base = {"collect.steps": 8, "net.mlp": [8], "net.core": "lstm", "net.core_size": 4,
            "net.core_layers": 1, "log.progress": False, "log.tensorboard": False}  # fmt: skip
    return load_config(
        **{**base, "collector": "inline", "out": str(out), "total_steps": 240, **values}
    )


def test_rows_and_returns(tmp_path: Path) -> None:
    parts = build(config(tmp_path), Worlds)
    storage, policy = parts.storage, parts.policy
    for _ in range(3):
        parts.collector.collect()
        rows = storage.fresh_rows()
        assert len(rows) == storage.size == 48
        assert (storage.reward[rows] == storage.step[rows] + 1).all()
        assert (storage.obs["t"][rows, 0].cpu().numpy() == storage.step[rows]).all()
        rollout = Rollout(storage, PPOConfig(gamma=0.9, gae_lambda=1.0), recurrent=True)
        rollout.compute_gae()
        order = rollout.fresh
        kinds = set()
        for start, length in zip(order.starts, order.lengths, strict=True):
            sequence = order.rows[start : start + length]
            last = int(sequence[-1])
            now, total = storage.obs["t"][last].tolist()
            kind = "open" if now + 1 < total else ("terminated" if total % 2 else "truncated")
            kinds.add(kind)
            expected = 0.0
            if kind != "terminated":
                obs = {"t": storage.obs["t"][last : last + 1]}
                with torch.no_grad():
                    state = policy.act(obs, storage.tensors["state"][last : last + 1]).state
                    after = torch.tensor([[now + 1, total]], device=DEVICE)
                    expected = float(policy.value({"t": after}, state))
            for row in reversed(sequence):
                expected = storage.reward[row] + 0.9 * expected
                assert storage.returns[row] == pytest.approx(expected, abs=1e-4)
        assert kinds == {"open", "terminated", "truncated"}
        storage.after_update()


def test_a_rollout_that_ends_early_is_learned_from(tmp_path: Path) -> None:
    parts = build(config(tmp_path), Worlds)
    answers = iter([False, False, True])
    parts.collector.ends_early = lambda: next(answers)
    stats, storage = parts.collector.collect(), parts.storage
    rows = storage.fresh_rows()
    assert stats.ended_early and stats.steps == len(rows) == 3 * 6
    assert (storage.reward[rows] == storage.step[rows] + 1).all()
    assert np.isfinite(parts.learner.update(storage, 0.0)["loss"])


def test_training_and_resume(tmp_path: Path) -> None:
    seeds = []

    class Noted(Worlds):
        def reset(self, seed: int) -> Any:
            seeds.append(seed)
            return super().reset(seed)

    result = train(config(tmp_path), Noted)
    assert result.finished and result.steps == 240 and np.isfinite(result.mean_return)
    assert train(config(tmp_path, total_steps=480), Noted).steps == 480
    assert seeds == [1, 1, 241]  # a run that goes on begins with other episodes


def test_broken_reward_is_named(tmp_path: Path) -> None:
    runner = Runner(config(tmp_path, env_args={"broken": True}), Worlds)
    with pytest.raises(NonFiniteError, match="reward of worlds"):
        runner.run()


class Broken(Worlds):
    """One observation is NaN: of a step, or the last one of an episode that was cut."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def reset(self, seed: int) -> Any:
        obs, info = super().reset(seed)
        return ({"t": obs["t"] * np.nan} if self.where == "reset" else obs), info

    def step(self, action: torch.Tensor) -> Any:
        obs, *rest, info = super().step(action)
        if self.where == "step":
            obs["t"][4] = np.nan
        if self.where == "final":
            info["final_obs"]["t"][3:] = np.nan  # world 3 terminates, 4 is cut
        return obs, *rest, info


@pytest.mark.parametrize(("where", "worlds"), [("reset", "0, 1"), ("step", "4"), ("final", "4")])
def test_broken_observation_is_named(where: str, worlds: str, tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=rf"observation of worlds \[{worlds}"):
        train(config(tmp_path / "checked", env_args={"where": where}), Broken)
    collector = build(
        config(tmp_path, env_args={"where": where}, **{"collect.check_finite": False}), Broken
    ).collector
    assert collector._finite({"t": torch.tensor([[np.nan]])}).all()


def test_tensors_on_another_device_are_refused(tmp_path: Path) -> None:
    class Elsewhere(Worlds):
        def _obs(self) -> dict[str, torch.Tensor]:
            return {"t": torch.empty(self.num_envs, 2, device="meta")}

    parts = build(config(tmp_path), Elsewhere)
    with pytest.raises(TrainerError, match="Elsewhere hands over t on meta and the policy is on"):
        parts.collector.collect()
