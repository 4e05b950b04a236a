"""What an environment carries from episode to episode goes on in another process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from skills.envs.batch import BatchSkillEnv
from tests.ver_trainer.envs import make
from tests.ver_trainer.test_runner import config
from ver_trainer import train
from ver_trainer.envs.batch_slot import BatchSlot
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.shared import transfer_specs
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.runner import Runner

FACTORY = EnvFactory(make, {"kind": "Carrying", "longest": 2})


def wait_all(pool: WorkerPool) -> None:
    got: set[int] = set()
    while len(got) < pool.num_envs:
        got |= set(pool.receive(None))


def step_all(pool: WorkerPool, times: int) -> None:
    for _ in range(times):
        pool.send(np.arange(pool.num_envs))
        wait_all(pool)


def test_a_process_that_takes_the_place_of_another_goes_on_with_it() -> None:
    pool = WorkerPool(FACTORY, probe(FACTORY), PoolOptions(2))
    try:
        wait_all(pool)
        step_all(pool, 12)
        before = pool.buffers["carried"].copy()
        assert before.min() >= 6 and pool.buffers["reward"].min() >= 5
        os.kill(pool.pids[0], signal.SIGKILL)
        end = time.monotonic() + 30
        while not pool.fault_count and time.monotonic() < end:
            pool.receive(0.1)
        while not pool.receive(1.0):
            assert time.monotonic() < end
        step_all(pool, 1)
        assert pool.buffers["reward"][0] == before[0]
    finally:
        pool.close()


def carried(folder: Path, **values: object) -> np.ndarray:
    """Go on with a run, stop it before it collects, and tell what its environments carry."""
    runner = Runner(config(folder, **values), make)
    found = runner.parts.pool.buffers["carried"].copy()
    runner.signals.received = signal.SIGTERM
    runner.run()
    return found


@pytest.mark.parametrize("collector", ["workers", "inline"])
@pytest.mark.parametrize("resume", ["auto", "loose"])
def test_a_run_that_goes_on_has_it(collector: str, resume: str, tmp_path: Path) -> None:
    values = {"collector": collector, "env_args": {"kind": "Carrying", "longest": 2}}
    assert not carried(tmp_path / "other", **values).any()
    train(config(tmp_path / "run", **values, total_steps=128), make)
    more = {**values, "total_steps": 256, "resume": resume}
    assert carried(tmp_path / "run", **more).min() > 3
    train(config(tmp_path / "run", **more), make)


def test_rewards_of_skills_go_on_with_what_is_mastered() -> None:
    env = EnvFactory(BatchSkillEnv, {"skill": "open_cab", "num_envs": 2, "depth": None}, worlds=2)
    specs = transfer_specs(probe(env), ("success",))
    buffers = {name: np.zeros((2, *s.shape), s.dtype) for name, s in specs.items()}
    buffers["carried"][:] = 0.4
    slot = BatchSlot(env, buffers, 0, 0, ("success",), 0, (0, 0))
    slot.reset()
    assert slot.env.worlds.mastery == 0.4
    assert slot.env.worlds.progress.mastery.tolist() == pytest.approx([0.4, 0.4])
    slot.env.worlds.mastery = 0.5
    slot._end(
        np.array([True, False]), slot.env.worlds.observe(), {"final_obs": slot.env.worlds.observe()}
    )
    assert buffers["carried"].tolist() == [0.5, 0.5]
    slot.close()


@pytest.mark.parametrize("count", [1, 3])
def test_more_or_fewer_environments_carry_the_mean(count: int) -> None:
    assert PoolOptions(count, carried=(2.0, 4.0)).carried_by_all.tolist() == [3.0] * count
    assert PoolOptions(2, carried=(2.0, 4.0)).carried_by_all.tolist() == [2.0, 4.0]
    assert not PoolOptions(count).carried_by_all.any()
