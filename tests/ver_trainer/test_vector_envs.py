"""Gymnasium's vector environments and others of NumPy arrays: in workers, inline, on two ranks."""

from __future__ import annotations

import json
import os
import pickle
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from tests.ver_trainer.envs import Ragged, make
from tests.ver_trainer.test_collector import check_sequence
from tests.ver_trainer.test_distributed import run_ranks
from tests.ver_trainer.test_runner import check_resume, config
from ver_trainer import train
from ver_trainer.config import NetConfig, PPOConfig, TrainConfig, load_config
from ver_trainer.envs.batch_slot import BatchSlot
from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import ConfigError, NonFiniteError, TrainerError, WorkerFailure
from ver_trainer.machine import settle_batches
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.collector import Collector, CollectRules
from ver_trainer.rollout.storage import RolloutStorage

MODES = (*(mode.name.lower() for mode in AutoresetMode), "own")


class Own(VectorEnv):
    """A batch that is none of Gymnasium's: resets in its next step, knows no mask, has a state."""

    def __init__(self, inner: SyncVectorEnv) -> None:
        self.inner, self.num_envs, self.metadata = inner, inner.num_envs, inner.metadata
        self.single_observation_space = inner.single_observation_space
        self.single_action_space = inner.single_action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        assert options is None
        return self.inner.reset(seed=seed)

    def step(self, actions: np.ndarray) -> Any:
        return self.inner.step(actions)


class Resumable(Own):
    """The same with a state."""

    def get_state(self) -> bytes:
        return pickle.dumps((self.inner.envs, self.inner._autoreset_envs))

    def set_state(self, state: bytes) -> None:
        self.inner.envs, self.inner._autoreset_envs = pickle.loads(state)


def batch(mode: str = "next_step", count: int = 3, kind: str = "Ragged", **kwargs: Any) -> Any:
    """Makes a batch; module-level, so that workers can import it."""
    own = {"own": Own, "resumable": Resumable}.get(mode)
    reset = AutoresetMode.NEXT_STEP if own else AutoresetMode[mode.upper()]
    found = SyncVectorEnv([partial(make, kind, **kwargs)] * count, autoreset_mode=reset)
    return own(found) if own else found


def build(pool: type, mode: str, rules: str, n: int = 6, t: int = 11, **options: Any) -> Collector:
    torch.manual_seed(0)
    kwargs = {"mode": mode, **options.pop("kwargs", {})}
    factory = EnvFactory(batch, kwargs, worlds=3)
    spec = probe(EnvFactory(batch))
    made = pool(factory, spec, PoolOptions(n, 3, seed=1, info_keys=("success",), **options))
    policy = make_policy(spec, NetConfig(mlp=[8], core="lstm", core_size=4, core_layers=1))
    storage = RolloutStorage(spec, n, t, policy.state_size)
    lock_step = rules == "ddppo"
    how = CollectRules(lock_step, rules != "ver", lock_step, 2, n if lock_step else 3)
    generator = torch.Generator().manual_seed(0)
    return Collector(made, storage, policy, how, generator, torch.device("cpu"), ("success",))


def check_rollout(storage: RolloutStorage, seen: dict[tuple[int, int], int]) -> None:
    """Every step of an episode is there once, with its own reward; none is a reset."""
    rows = storage.fresh_rows()
    assert len(rows) == storage.size == storage.num_complete
    for row in sorted(rows, key=lambda r: storage.step[r]):
        key = (int(storage.env[row]), int(storage.episode[row]))
        assert storage.step[row] == seen.get(key, 0)
        seen[key] = int(storage.step[row]) + 1
        assert storage.obs["obs"][row, 0] == storage.step[row]
        expected = storage.step[row] + 1 + 0.1 * int(storage.tensors["action"][row])
        assert storage.reward[row] == pytest.approx(expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rules", ["ver", "nover", "ddppo"])
def test_rollouts_are_exact_in_every_autoreset_mode(mode: str, rules: str) -> None:
    collector = build(InlinePool, mode, rules)
    storage, seen, kinds, ends = collector.storage, {}, set(), []
    for version in range(8):
        collector.version = version
        ends += collector.collect().episodes
        check_rollout(storage, seen)
        rollout = Rollout(storage, PPOConfig(gamma=0.9, gae_lambda=0.8), recurrent=True)
        rollout.compute_gae()
        order = rollout.fresh
        for start, length in zip(order.starts, order.lengths, strict=True):
            rows = order.rows[start : start + length]
            kinds.add(check_sequence(storage, collector.policy, rows))
        storage.after_update()
    assert kinds == {"terminated", "truncated", "open"}
    assert all(end.info["success"] == (end.length > 4) for end in ends)
    assert all(end.reward >= sum(range(1, end.length + 1)) for end in ends)


def test_a_killed_worker_starts_its_batch_afresh() -> None:
    collector = build(WorkerPool, "own", "nover")
    pool, storage, seen = collector.pool, collector.storage, {}
    assert isinstance(pool, WorkerPool)
    try:
        for version in range(6):
            stats = collector.collect()
            check_rollout(storage, seen)
            storage.after_update()
            if version == 2:
                os.kill(pool.pids[1], signal.SIGKILL)
            elif version == 3:
                assert [fault.rows for fault in stats.faults] == [(3, 4, 5)]
        assert len(pool.pids) == 2 and pool.buffers["episode"].min() > 1
    finally:
        pool.close()


def settings(out: Path, **values: Any) -> TrainConfig:
    return config(out, **{"collect.num_envs": 6, "collect.steps": 11, "total_steps": 660, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"scheme": "ver", "collect.overlap": True},
        {"scheme": "ddppo"},
        {"scheme": "async"},
        {"scheme": "ver", "collect.num_inference_workers": 2},
        {"scheme": "ver", "collector": "inline"},
    ],
    ids=lambda values: "-".join(map(str, values.values())),
)
def test_batches_train_in_every_arrangement(values: dict[str, Any], tmp_path: Path) -> None:
    result = train(settings(tmp_path, env_args={"mode": "own"}, **values), batch)
    assert result.finished and result.updates == 10 and result.steps >= 660
    assert "worlds: 3\n" in (tmp_path / "config.yaml").read_text()
    record = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert 0 < record["episode/success"] < 1 and record["collect/steps"] == 66


def test_resume_is_bit_for_bit_where_the_batch_has_a_state(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"mode": "resumable"}, "net.core": "lstm",
              "net.core_size": 8}  # fmt: skip
    check_resume(tmp_path, partial(settings, **values), batch, stop=4, last=10)


def test_a_batch_without_a_state_resumes_with_new_episodes(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"mode": "own"}}
    train(settings(tmp_path, **values), batch)
    assert train(settings(tmp_path, **values, total_steps=1320), batch).updates == 20
    with pytest.raises(TrainerError, match="no get_state"):
        train(settings(tmp_path, **values, total_steps=1980, resume="exact"), batch)


def test_cartpole_learns_in_batches_as_it_does_alone(tmp_path: Path) -> None:
    common = {"collector": "inline", "total_steps": 24_576, "collect.num_envs": 8,
              "collect.steps": 128, "ppo.epochs": 8, "ppo.mini_batches": 4, "optim.lr": 1e-3,
              "ppo.entropy_coef": 0.0, "ppo.normalize_advantage": True, "net.mlp": [64, 64],
              "net.separate_critic": True, "env": "CartPole-v1"}  # fmt: skip
    alone, together = (
        train(config(tmp_path / str(worlds), **common, **{"collect.worlds": worlds})).mean_return
        for worlds in (1, 8)
    )
    assert min(alone, together) > 90 and max(alone, together) / min(alone, together) < 2.5


@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_two_ranks_have_their_own_worlds(kind: str, tmp_path: Path) -> None:
    run_ranks("batches", str(tmp_path), kind)
    first, second = (json.loads((tmp_path / f"batch{rank}.json").read_text()) for rank in (0, 1))
    assert first["weights"] == second["weights"] and first["preempts"] and second["preempts"]
    assert first["seed"] != second["seed"]
    assert kind == "tensors" or first["observed"] != second["observed"]
    assert 0 < first["success"] < 1
    if kind == "tensors":  # the slow one is cut far more often than the other
        assert second["early"] > 0.5 and second["early"] > first["early"] + 0.25


def test_worlds_that_go_wrong_are_named(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "Faulty", "fault": "nan_reward", "at": 9}}
    with pytest.raises(NonFiniteError, match=r"reward of environment \[0"):
        train(settings(tmp_path / "a", **values), batch)
    with pytest.raises(WorkerFailure, match=r"autoreset_mode'\]=None: set it"):
        train(settings(tmp_path / "b"), silent)


def silent() -> Any:
    """A batch that does not say how it resets."""
    found = Own(batch())
    found.metadata = {}
    return found


def test_sizes_follow_the_machine_and_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(3), raising=False)
    for count, share in ((64, 32), (96, 32), (5, 5)):
        sizes = load_config(**{"collect.worlds": 0, "collect.num_envs": count})
        settle_batches(sizes, None, True)
        assert (sizes.collect.worlds, sizes.collect.envs_per_worker) == (share, share)
    single = load_config()
    settle_batches(single, None, False)
    assert (single.collect.worlds, single.collect.envs_per_worker) == (1, 1)
    with pytest.raises(ConfigError, match=r"num_envs=16 is not a multiple of the 6 .*: use 18"):
        settle_batches(load_config(), 6, False)
    with pytest.raises(ConfigError, match="makes single environments"):
        settle_batches(load_config(**{"collect.worlds": 4}), 0, False)


def test_one_world_alone_does_what_the_single_environment_does() -> None:
    buffers = {}
    for worlds, target in ((0, Ragged), (1, partial(batch, "same_step", 1))):
        factory = EnvFactory(target, worlds=worlds)
        pool = InlinePool(factory, probe(factory), PoolOptions(1, info_keys=("success",)))
        pool.receive(None)
        for _ in range(2):
            pool.send(np.arange(1))
            pool.receive(None)
        assert isinstance(pool.slots[0], BatchSlot) == bool(worlds)
        buffers[worlds] = pool.buffers
    first, second = buffers.values()
    assert (first["obs/obs"] == second["obs/obs"]).all() and first["reward"] == second["reward"]
