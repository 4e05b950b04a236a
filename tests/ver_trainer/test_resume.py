"""What an exact resume brings back beside weights: generators, first rollouts, wrappers."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.envs import make, wrapped
from tests.ver_trainer.test_runner import assert_same, check_resume, config, weights
from ver_trainer import train
from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import PoolOptions
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.resume import capture_random, restore_random
from ver_trainer.run_folder import _same
from ver_trainer.runner import Runner


def test_generators_of_another_device_keep_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, rng = torch.Generator().manual_seed(1), np.random.default_rng(1)
    state = capture_random(generator, rng)
    of_gpu = torch.zeros(16, dtype=torch.uint8)
    put: list[list[torch.Tensor]] = []
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", put.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for count, of_actions, expected in ((1, of_gpu, 5), (2, state["actions"], 1)):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        generator.manual_seed(5)
        saved = {**state, "cuda": [of_gpu] * 2, "actions": of_actions}
        restore_random(saved, generator, rng)
        assert generator.initial_seed() == expected
    assert len(put) == 1 and len(put[0]) == 2


def test_a_run_stopped_in_its_first_rollout_resumes_bit_for_bit(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "Stateful"}, "total_steps": 128}
    train(config(tmp_path / "whole", **values), make)
    for attempt in range(2):  # resumed and stopped again before anything has begun
        runner = Runner(config(tmp_path / "part", **values), make)
        runner.signals.received = signal.SIGTERM
        runner.parts.pool.should_stop = runner.signals.check
        runner._stop_together = lambda: None  # in the middle of the rollout
        assert not runner.run().finished and runner.updates == 0, attempt
    train(config(tmp_path / "part", **values, resume="exact"), make)
    assert_same(weights(tmp_path / "part", 2), weights(tmp_path / "whole", 2))


def test_fresh_rows_go_on_with_the_episodes_they_were_given() -> None:
    factory = EnvFactory(make)
    options = PoolOptions(2, first_episodes=(5, 7))
    pool = InlinePool(factory, probe(factory), options)
    assert pool.next_episodes() == [5, 7]
    pool.receive(None)
    assert pool.next_episodes() == [6, 8] and pool.buffers["episode"].tolist() == [5, 7]


@pytest.mark.parametrize("how", ["limit", "other"])
def test_wrappers_are_brought_back_with_an_environment_that_has_a_state(
    how: str, tmp_path: Path
) -> None:
    values = {"collector": "inline", "env_args": {"how": how}, "total_steps": 192}
    check_resume(tmp_path, partial(config, **values), wrapped, stop=2, last=3)


def test_files_in_another_home_are_the_same_in_lists_too(tmp_path: Path) -> None:
    here = tmp_path / "cache" / "tpsrl" / "train_1.json"
    here.parent.mkdir(parents=True)
    here.touch()
    gone = "/nowhere/else/cache/tpsrl/train_1.json"
    assert _same([gone], [str(here)]) and not _same([gone], [str(here)] * 2)
    assert not _same(gone.replace("_1", "_2"), str(here)) and not _same(0.5, str(here))
