"""What a run that goes on keeps to: its evaluations, its environment, its teacher, its best."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_runner import config, stop_after
from ver_trainer import train
from ver_trainer.checkpoint import read_weights
from ver_trainer.errors import CheckpointError, ConfigError
from ver_trainer.finding import resolve_weights
from ver_trainer.runner import Runner

SMALL = {"collector": "inline", "collect.num_envs": 4, "collect.steps": 16, "log.interval": 1}


class Half(gym.Env[Any, Any]):
    """Half of the episodes succeed after 5 steps, the others end after 60."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age, self.good = 0, self.np_random.random() < 0.5
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> Any:
        self.age += 1
        over = self.good and self.age >= 5
        return np.zeros(2, np.float32), 0.0, over, self.age >= 60, {"success": float(over)}


def test_a_few_short_episodes_make_no_best_for_good(tmp_path: Path) -> None:
    values = {**SMALL, "total_steps": 64 * 60, "log.checkpoint_interval": 10, "log.window": 50}

    def stop(record: dict[str, Any]) -> None:
        if record["update"] == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    assert not train(config(tmp_path, **values), Half, stop).finished
    first = tmp_path / "checkpoints" / "update_000000001"
    few = json.loads((first / "meta.json").read_text())
    assert few["score"] == 1.0 and few["best_by"].startswith("success of ")
    assert resolve_weights(tmp_path).parent == first  # the newest that there is
    assert train(config(tmp_path, **values), Half).finished
    best = json.loads((tmp_path / "checkpoints" / "best.json").read_text())
    assert best["name"] != first.name and best["score"] < 1.0


def evaluated(out: Path) -> list[int]:
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [r["update"] for r in records if "eval/return" in r]


@pytest.mark.parametrize("update", [2, 4], ids=["under_way", "the_last"])
def test_an_evaluation_that_was_interrupted_is_made_up_for(update: int, tmp_path: Path) -> None:
    values = {**SMALL, "total_steps": 256, "log.eval_interval": 2, "log.eval_episodes": 3}
    runner = Runner(config(tmp_path, **values), make)
    evaluate = runner._evaluate

    def with_signal() -> None:
        if runner.updates == update:
            os.kill(os.getpid(), signal.SIGTERM)
        evaluate()

    runner._evaluate = with_signal
    assert not runner.run().finished and runner.updates == update
    assert update not in evaluated(tmp_path)
    assert train(config(tmp_path, **values), make).finished
    assert evaluated(tmp_path) == [2, 4]
    meta = tmp_path / "checkpoints" / f"update_{update:09d}" / "meta.json"
    assert json.loads(meta.read_text())["score"] is not None


def test_a_function_is_not_taken_for_a_registered_environment(tmp_path: Path) -> None:
    values = {**SMALL, "total_steps": 64}
    train(config(tmp_path, **values), Half)
    header = read_weights(resolve_weights(tmp_path))[1]
    assert header["trained_in"]["env"] == f"function {__name__}:Half"
    with pytest.raises(ConfigError, match=r"env was 'function .*Half', is 'CartPole-v1'"):
        train(config(tmp_path, **{**values, "total_steps": 128, "resume": "loose"}))


def test_another_teacher_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pole = {**SMALL, "env_args": {"kind": "SplitCartPole"}, "log.best_by": "last"}
    teacher = {**pole, "seed": 5}
    train(config(tmp_path / "t", **teacher, total_steps=64), make)
    student = {**pole, "total_steps": 320, "distill.teacher": str(tmp_path / "t")}
    runner = Runner(config(tmp_path / "s", **student), make)
    stop_after(runner, 2)
    assert not runner.run().finished
    again = Runner(config(tmp_path / "s", **student, resume="exact"), make)
    stop_after(again, 3)
    assert not again.run().finished  # the teacher that it had
    assert "distill.teacher" not in capsys.readouterr().err
    train(config(tmp_path / "t", **teacher, total_steps=192), make)
    with pytest.raises(CheckpointError, match="not the one that this run had"):
        train(config(tmp_path / "s", **student, resume="exact"), make)
    assert train(config(tmp_path / "s", **student), make).finished
    assert "going on with this one" in capsys.readouterr().err
