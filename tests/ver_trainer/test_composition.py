"""Parts of somebody else's take the place of ours; gradients have an owner of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.test_learner import make_learner
from tests.ver_trainer.test_runner import assert_same, config, stop_after, weights
from ver_trainer import load_config, load_policy, train
from ver_trainer.config import OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.errors import CheckpointError, ConfigError, NonFiniteError
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.options import describe
from ver_trainer.runner import Runner
from ver_trainer.schemes import scheme_of

HERE = "tests.ver_trainer.stranger"
INLINE = {"env": "CartPole-v1", "collector": "inline"}


def records(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_an_encoder_of_a_stranger(tmp_path: Path, monkeypatch) -> None:
    net = {"net.encoder": f"{HERE}:Sines", "net.core": "lstm", "net.core_size": 8}
    values = {"env": "CartPole-v1", "total_steps": 128, "collect.num_inference_workers": 2}
    train(config(tmp_path, **values, **net))
    policy = load_policy(tmp_path)
    assert type(policy.encoder).__name__ == "Sines"
    monkeypatch.delitem(sys.modules, HERE)
    with pytest.raises(CheckpointError, match=rf"import {HERE} first if you trust it"):
        load_policy(tmp_path)
    assert HERE not in sys.modules


def test_a_storage_of_a_stranger(tmp_path: Path) -> None:
    values = {"env": "Pendulum-v1", "collector": "inline", "collect.storage": f"{HERE}:Signs",
              "total_steps": 128}  # fmt: skip
    runner = Runner(config(tmp_path, **values))
    assert runner.run().finished
    storage = runner.parts.storage
    assert type(storage).__name__ == "Signs"
    assert set(np.unique(storage.reward)) <= {-1.0, 0.0}


def test_an_algorithm_of_a_stranger_learns_and_resumes(tmp_path: Path) -> None:
    values = {**INLINE, "algorithm": f"{HERE}:Reinforce", "optim.lr": 1e-2}
    train(config(tmp_path / "whole", **values))
    assert all(x["learner/reinforced"] == 1 for x in records(tmp_path / "whole"))
    runner = Runner(config(tmp_path / "part", **values))
    stop_after(runner, 4)
    assert not runner.run().finished
    train(config(tmp_path / "part", **values))
    assert_same(weights(tmp_path / "part", 10), weights(tmp_path / "whole", 10))


def test_a_scheme_of_a_stranger(tmp_path: Path) -> None:
    train(config(tmp_path, **INLINE, scheme=f"{HERE}:InStep"))
    for record in records(tmp_path):
        assert record["learner/policy_lag"] == 0  # in lock step
        assert record["learner/gradient_asynchrony"] == 1.25


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["scheme=nowhere.at_all:X"], r"scheme=nowhere\.at_all:X.*cannot be imported"),
        ([f"scheme={HERE}:InStop"], r"no 'InStop'; did you mean 'InStep'"),
        ([f"scheme={HERE}:Sines"], r"is not a ver_trainer\.schemes\.Scheme"),
        ([f"scheme={HERE}:AHEAD", "collector=inline"], "use collector=workers"),
        (["scheme=decoupled", "precision=fp16"], "use bf16"),
    ],
)
def test_schemes_that_cannot_be_are_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        scheme_of(load_config(words))


@pytest.mark.parametrize("key", ["algorithm", "collect.storage", "net.encoder"])
def test_parts_that_are_none_are_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{key}={HERE}:AHEAD has no '\w+': see 'Parts of your"):
        Runner(config(tmp_path, **INLINE, **{key: f"{HERE}:AHEAD"}))


def test_help_says_where_a_part_may_be_named() -> None:
    from ver_trainer.config import TrainConfig

    lines = [line for line in describe(TrainConfig).splitlines() if "package.module:Class" in line]
    assert {line.split("=")[0].strip() for line in lines} == {
        "scheme", "algorithm", "collect.storage", "net.encoder",
    }  # fmt: skip


def decoupled(lag: int, **ppo) -> tuple[PPOLearner, object]:
    plain, storage = make_learner(core="none", **ppo)
    optim = OptimConfig(lr=1e-2)
    rng = np.random.default_rng(0)
    return PPOLearner(plain.policy, plain.ppo, optim, Group(), rng, lag=lag), storage


def test_a_single_gradient_is_the_same_with_an_owner() -> None:
    plain, storage = make_learner(core="none", epochs=1, mini_batches=1)
    owned, same = decoupled(3, epochs=1, mini_batches=1)
    for _ in range(2):
        plain.update(storage, 0.0)
        result = owned.update(same, 0.0)
    assert result["gradient_asynchrony"] == 0
    assert_same(plain.policy.state_dict(), owned.policy.state_dict())


@pytest.mark.parametrize("lag", [1, 2])
def test_gradients_are_those_of_weights_as_old_as_allowed(lag: int) -> None:
    """Against a loop without threads that keeps all weights."""
    owned, storage = decoupled(lag, epochs=2, mini_batches=2)
    serial, same = make_learner(core="none", epochs=2, mini_batches=2)
    versions = [[p.detach().clone() for p in serial.parameters]]
    step = serial._step

    def late(batch, shift, first):
        newest = [p.detach().clone() for p in serial.parameters]
        old = versions[max(len(versions) - 1 - lag, 0)]
        shift = [a - b for a, b in zip(newest, old, strict=True)][
            : len(list(serial.policy.parameters()))
        ]
        stats = step(batch, shift, first)
        versions.append([p.detach().clone() for p in serial.parameters])
        return stats

    serial._step = late
    owned.update(storage, 0.0)
    serial.update(same, 0.0)
    for a, b in zip(owned.parameters, serial.parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_faults_of_either_side_end_the_update() -> None:
    learner, storage = decoupled(2)
    storage.reward[3] = np.nan
    with pytest.raises(NonFiniteError):
        learner.update(storage, 0.0)
    assert not learner.owner._thread.is_alive()
    learner, storage = decoupled(2)
    learner.owner.after_step = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        learner.update(storage, 0.0)
    assert PPOConfig().epochs * PPOConfig().mini_batches > 2
