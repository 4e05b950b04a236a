"""Collection: exact sizes, bootstraps and rows in flight, under any order of arrival."""

from __future__ import annotations

import itertools
import time
from collections import deque

import numpy as np
import pytest
import torch

from tests.ver_trainer.envs import make
from ver_trainer.config import NetConfig, PPOConfig, load_config
from ver_trainer.distributed.preemption import best_duration
from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import Fault, PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import ConfigError
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.collector import Collector, CollectRules
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.schemes import collect_rules


class ShuffledPool(InlinePool):
    """Results arrive in random portions, fast environments more often."""

    def __init__(self, *args, seed: int = 0) -> None:
        super().__init__(*args)
        self._rng = np.random.default_rng(seed)
        self._speed = self._rng.random(self.num_envs) ** 3 + 0.02

    def receive(self, max_wait):
        del max_wait
        rows, self._fresh = self._fresh, []
        for row in rows:
            self.slots[row].reset()
        queued = list(self._queued)
        chosen = [row for row in queued if self._rng.random() < self._speed[row]]
        for row in chosen:
            self.slots[row].step()
        self._queued = deque(row for row in queued if row not in chosen)
        return rows + chosen


def build(seed: int, replay: bool = False, quota: bool = False, lock_step: bool = False, n=5, t=12):
    torch.manual_seed(seed)
    factory = EnvFactory(make, {"kind": "Ragged", "longest": 9})
    spec = probe(factory)
    pool = ShuffledPool(factory, spec, PoolOptions(n, seed=seed, info_keys=("success",)), seed=seed)
    policy = make_policy(spec, NetConfig(mlp=[8], core="lstm", core_size=4, core_layers=1))
    storage = RolloutStorage(spec, n, t, policy.state_size)
    rules = CollectRules(lock_step, quota, replay, 2, 3 if not lock_step else n)
    generator = torch.Generator().manual_seed(seed)
    device = torch.device("cpu")
    return Collector(pool, storage, policy, rules, generator, device, ("success",))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("mode", ["ver", "nover", "ddppo"])
def test_rollouts_are_exact_and_steps_are_never_lost(seed: int, replay: bool, mode: str) -> None:
    collector = build(seed, replay, mode != "ver", mode == "ddppo")
    storage = collector.storage
    seen: dict[tuple[int, int], int] = {}  # (env, episode) -> steps so far
    for version in range(6):
        collector.version = version
        collector.collect()
        rows = storage.fresh_rows()
        assert len(rows) == storage.size == storage.num_complete
        if mode != "ver":
            assert (np.bincount(storage.env[rows]) == 12).all()
        for row in sorted(rows, key=lambda r: storage.step[r]):
            key = (int(storage.env[row]), int(storage.episode[row]))
            assert storage.step[row] == seen.get(key, 0)
            seen[key] = int(storage.step[row]) + 1
            # The observation tells the time step, the reward the step after and the action.
            assert storage.obs["obs"][row, 0] == storage.step[row]
            expected = storage.step[row] + 1 + 0.1 * int(storage.tensors["action"][row])
            assert storage.reward[row] == pytest.approx(expected)
        late = int((storage.version[rows] < version).sum())
        assert late <= 5 and (version == 0 or not (replay and mode != "ver") or late == 0)
        storage.after_update()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("replay", [False, True])
def test_returns_match_a_reference_over_whole_episodes(seed: int, replay: bool) -> None:
    """Bootstraps: 0 after termination, V(final) after truncation, V(next) at the rollout's end."""
    collector = build(seed, replay)
    storage, policy = collector.storage, collector.policy
    kinds = set()
    for _ in range(5):
        collector.collect()
        rollout = Rollout(storage, PPOConfig(gamma=0.9, gae_lambda=0.8), recurrent=True)
        rollout.compute_gae()
        order = rollout.fresh
        for start, length in zip(order.starts, order.lengths, strict=True):
            rows = order.rows[start : start + length]
            kinds.add(check_sequence(storage, policy, rows))
        storage.after_update()
    assert kinds == {"terminated", "truncated", "open"}


def check_sequence(storage, policy, rows) -> str:
    last = int(rows[-1])
    time, length, name = storage.obs["obs"][last].tolist()
    kind = "truncated" if length % 2 == 0 else "terminated"
    if time + 1 < length:
        kind = "open"
    bootstrap = 0.0
    if kind != "terminated":  # the state that follows is known in closed form
        following = torch.tensor([[time + 1, length, name]])
        with torch.no_grad():
            obs = {"obs": storage.obs["obs"][last : last + 1]}
            state = policy.act(obs, storage.tensors["state"][last : last + 1]).state
            bootstrap = float(policy.value({"obs": following}, state))
    values = storage.tensors["value"][torch.from_numpy(rows)].numpy()
    after = np.append(values[1:], bootstrap)
    running = 0.0
    for t in reversed(range(len(rows))):
        delta = storage.reward[rows[t]] + 0.9 * after[t] - values[t]
        running = delta + 0.9 * 0.8 * running
        assert storage.advantage[rows[t]] == pytest.approx(running, abs=1e-4)
        assert storage.returns[rows[t]] == pytest.approx(running + values[t], abs=1e-4)
    return kind


def test_recurrent_state_is_zero_at_episode_starts_and_carried_in_between() -> None:
    collector = build(1)
    storage, policy = collector.storage, collector.policy
    for _ in range(4):
        collector.collect()
        order = storage.sequences(storage.fresh_rows())
        for start, length in zip(order.starts, order.lengths, strict=True):
            rows = order.rows[start : start + length]
            if storage.step[rows[0]] == 0:
                assert not storage.tensors["state"][int(rows[0])].any()
            for before, after in itertools.pairwise(rows):
                obs = {"obs": storage.obs["obs"][before : before + 1]}
                with torch.no_grad():
                    step = policy.act(obs, storage.tensors["state"][before : before + 1])
                torch.testing.assert_close(step.state[0], storage.tensors["state"][int(after)])
        storage.after_update()


def test_least_served_environments_go_first() -> None:
    collector = build(0)
    collector.rules = CollectRules(False, False, False, 1, 2)
    collector.pool.receive(None)
    collector._ready = [0, 1, 2, 3]
    collector.served[:] = [7, 3, 9, 1, 0]
    assert collector._wait().tolist() == [3, 1]


def test_episode_statistics() -> None:
    collector = build(2)
    episodes = []
    for _ in range(6):
        episodes += collector.collect().episodes
        collector.storage.after_update()
    assert len(episodes) > 20
    for episode in episodes:
        assert episode.info["success"] == float(episode.length > 4)
        steps = np.arange(1, episode.length + 1).sum()
        assert steps <= episode.reward <= steps + 0.2 * episode.length + 1e-6


def test_dropped_episode_leaves_no_trace() -> None:
    collector = build(3)
    storage = collector.storage
    collector.collect()
    storage.after_update()
    collector.ends_early = lambda: storage.num_complete >= 30
    collector.collect()
    env = int(storage.env[storage.fresh_rows()[-1]])
    row = max(storage.open_row[env], storage.last_row[env])
    episode = storage.episode[row]
    before = storage.fresh_rows()
    others = before[(storage.env[before] != env) | (storage.episode[before] != episode)]
    kept = storage.obs["obs"][others].clone()
    lost = storage.drop_episodes(np.array([env]))
    after = storage.fresh_rows()
    assert lost == len(before) - len(others) and len(after) == len(others)
    assert torch.equal(storage.obs["obs"][after], kept)
    assert storage.num_complete == len(after)
    flying = np.flatnonzero(storage.open_row >= 0)
    assert (storage.env[storage.open_row[flying]] == flying).all()


def test_stale_rows_fill_a_rollout_that_ended_early() -> None:
    collector = build(4)
    storage = RolloutStorage(
        collector.policy.spec, 5, 12, collector.policy.state_size, keep_stale=True
    )
    collector.storage = storage
    for version in range(6):
        collector.version = version
        target = [60, 35, 20, 60, 10, 5][version]
        collector.ends_early = lambda target=target: storage.num_complete >= target
        collector.collect()
        rollout = Rollout(storage, PPOConfig(), recurrent=True)
        rollout.compute_gae()
        fresh = storage.fresh_rows()
        fill = storage.fill_rows()
        assert len(rollout.rows) == 60 and len(set(rollout.rows)) == 60
        assert target <= len(fresh) <= target + 3
        keys = np.stack((storage.env, storage.episode, storage.step))[:, rollout.rows]
        assert np.unique(keys, axis=1).shape[1] == 60
        unused = np.setdiff1d(np.flatnonzero(storage.complete & ~storage.fresh), fill)
        if len(fill) and len(unused):
            assert storage.version[fill].min() >= storage.version[unused].max()
        assert np.isfinite(storage.returns[rollout.rows]).all()
        storage.after_update()


def test_lock_step_ends_early_between_steps_of_all_environments() -> None:
    collector = build(4, replay=True, quota=True, lock_step=True)
    storage = collector.storage
    for version in range(5):
        collector.version = version
        asked = itertools.count()  # other ranks are done at some moment
        collector.ends_early = lambda asked=asked: next(asked) >= 7
        stats = collector.collect()
        rows = storage.fresh_rows()
        assert stats.ended_early and stats.steps == len(rows) and stats.steps % 5 == 0
        assert (storage.open_row < 0).all() and (storage.version[rows] == version).all()
        storage.after_update()


@pytest.mark.parametrize("per_worker", [0, 4])
def test_step_times_foretell_the_time_of_a_rollout(per_worker: int) -> None:
    """Four environments that step in series, inline or in one worker: each waits for its turn."""
    factory = EnvFactory(make, {"kind": "Faulty", "seconds": 0.002})
    spec = probe(factory)
    kind = WorkerPool if per_worker else InlinePool
    pool = kind(factory, spec, PoolOptions(4, per_worker or 1))
    try:
        policy = make_policy(spec, NetConfig(mlp=[8]))
        storage = RolloutStorage(spec, 4, 16, policy.state_size)
        rules = CollectRules(False, False, False, 2, 2)
        device = torch.device("cpu")
        collector = Collector(pool, storage, policy, rules, torch.Generator(), device)
        seconds = []
        for _ in range(5):
            seconds.append(collector.collect().total)
            storage.after_update()
            time.sleep(0.1)  # learning is not part of a step
        assert min(seconds) >= 60 * 0.002
        planned = best_duration(collector.step_seconds[None], storage.size, 0.1)[0]
        assert planned == pytest.approx(np.mean(seconds[1:]), rel=0.3)
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("words", "replays"),
    [
        ([], False),
        (["net.core=lstm"], True),
        (["net.core=lstm", "scheme=nover"], True),
        (["net.core=lstm", "scheme=async"], False),
        (["net.core=lstm", "collect.overlap=true"], False),
        (["net.core=lstm", "collect.final_batch=dispatch"], False),
        (["scheme=ddppo"], True),
    ],
)
def test_policies_with_memory_wait_for_the_new_weights(words: list[str], replays: bool) -> None:
    assert collect_rules(load_config(words)).replay is replays


def test_the_first_result_of_a_new_process_is_kept_while_another_is_replaced() -> None:
    collector = build(0)
    collector.collect()
    collector.storage.after_update()
    collector._ready = [0, 2]  # results from before the faults
    faults = [Fault((0,), "died", ""), Fault((1,), "died", "")]
    collector.pool.receive = lambda left: [0, 3, 4]  # the one of 0 comes from its new process
    collector.pool.take_faults = lambda: [faults.pop(0) for _ in range(len(faults))]
    collector.rules = CollectRules(False, False, False, 4, 5)
    collector._pending = np.zeros(0, np.int64)
    assert sorted(collector._wait().tolist()) == [0, 2, 3, 4]


def test_inline_collection_does_not_depend_on_the_clock() -> None:
    """Results left over are fewer than a batch: the others come before the next inference."""
    factory = EnvFactory(make)
    spec = probe(factory)
    pool = InlinePool(factory, spec, PoolOptions(4))
    policy = make_policy(spec, NetConfig(mlp=[8]))
    storage = RolloutStorage(spec, 4, 16, policy.state_size)
    rules = CollectRules(False, False, False, 2, 4)
    device = torch.device("cpu")
    collector = Collector(pool, storage, policy, rules, torch.Generator(), device)
    pool.receive(None)
    pool.send(np.arange(3))
    collector._ready = [3]
    collector._inference_seconds = 0.0  # patience is over at once, as on a busy machine
    assert len(collector._wait()) == 4


def test_an_inference_takes_half_the_environments_by_itself() -> None:
    most = [f"collect.max_batch={k}" for k in (4, 12, 16)]
    for words, wanted in zip(([], *([m] for m in most)), (8, 4, 8, 8), strict=True):
        assert collect_rules(load_config(["collect.num_envs=16", *words])).min_batch == wanted


def test_lock_step_dispatches_nothing() -> None:
    with pytest.raises(ConfigError, match="final_batch=dispatch"):
        load_config(["scheme=ddppo", "collect.final_batch=dispatch"])
