"""Inference in several processes: exact rollouts, faults, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_runner import config, new_children, start_run
from ver_trainer import load_policy, train
from ver_trainer.config import NetConfig
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import ConfigError, WorkerFailure
from ver_trainer.inference.shared import SharedTensors
from ver_trainer.inference.team import InferenceTeam, TeamOptions
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.collector import Collector, CollectRules
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.runner import Runner

N, T = 8, 24


@pytest.fixture
def collector() -> Iterator[Collector]:
    made: list[Collector] = []

    def build(workers: int = 2, replay: bool = False, kind: str = "Slow", **options) -> Collector:
        torch.manual_seed(0)
        factory = EnvFactory(make, {"kind": kind, **options.pop("kwargs", {})})
        spec = probe(EnvFactory(make, {"kind": "Ragged"}))
        pool = WorkerPool(factory, spec, PoolOptions(N, 2, info_keys=("success",)))
        net = NetConfig(mlp=[8], core="lstm", core_size=4, core_layers=2, separate_critic=True)
        policy = make_policy(spec, net)
        storage = RolloutStorage(spec, N, T, policy.state_size)
        team = InferenceTeam(policy, storage, pool, TeamOptions(workers, **options))
        rules = CollectRules(False, False, replay, 2, 6)
        generator, device = torch.Generator().manual_seed(0), torch.device("cpu")
        made.append(
            Collector(pool, storage, policy, rules, generator, device, ("success",), team=team)
        )
        return made[-1]

    yield build  # type: ignore[misc]
    for one in made:
        one.team.close()
        one.pool.close()


def wait_until_ready(team: InferenceTeam) -> None:
    end = time.monotonic() + 90
    while not all(m.ready for m in team._members) and time.monotonic() < end:
        team.poll(0.2)
    assert all(m.ready for m in team._members)


def check_rollout(collector: Collector, version: int) -> None:
    """Exactly T x N rows, and every row is what one policy does in its episode."""
    storage, policy = collector.storage, collector.policy
    rows = storage.fresh_rows()
    assert len(rows) == N * T == storage.num_complete
    order = rows[np.lexsort((storage.step[rows], storage.episode[rows], storage.env[rows]))]
    tensors = {k: v[torch.from_numpy(order)] for k, v in storage.tensors.items()}
    obs = {"obs": tensors["obs/obs"]}
    with torch.no_grad():
        step = policy.act(obs, tensors["state"], torch.Generator())
        features, _ = policy.core.step(policy.encoder(obs), tensors["state"][:, :16])
        log_prob = policy.actor(features).log_prob(tensors["action"])
    # Row by row what the policy does; rows of an older version belong to the weights before.
    new = torch.from_numpy(storage.version[order] == version)
    assert new.sum() >= len(rows) - N
    torch.testing.assert_close(tensors["log_prob"][new], log_prob[new])
    torch.testing.assert_close(tensors["value"][new], step.value[new])
    # The environment counts its steps and pays step + 0.1 x action.
    torch.testing.assert_close(obs["obs"][:, 0], torch.from_numpy(storage.step[order]).float())
    reward = storage.step[order] + 1 + 0.1 * tensors["action"].numpy()
    np.testing.assert_allclose(storage.reward[order], reward, rtol=1e-6)
    assert (tensors["state"][torch.from_numpy(storage.step[order] == 0)] == 0).all()
    env, episode = storage.env[order], storage.episode[order]
    follows = (env[1:] == env[:-1]) & (episode[1:] == episode[:-1])
    assert (storage.step[order][1:] - storage.step[order][:-1])[follows].tolist() == [1] * int(
        follows.sum()
    )
    after = torch.from_numpy(np.flatnonzero(follows)) + 1
    after = after[new[after - 1]]
    torch.testing.assert_close(tensors["state"][after], step.state[after - 1])


@pytest.mark.parametrize("replay", [False, True])
def test_rollouts_are_exact_and_states_are_right(collector, replay: bool) -> None:
    one = collector(replay=replay)
    wait_until_ready(one.team)
    taken = []
    original = one.team.take
    one.team.take = lambda batch: taken.append(original(batch)) or taken[-1]
    for version in range(4):
        one.version = version
        one.collect()
        assert not one.team.busy
        check_rollout(one, version)
        one.storage.after_update()
        with torch.no_grad():  # in place, as optimizers do: the workers see it
            for parameter in one.policy.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
    assert sum(taken) > 20 and one.stats.requests >= N * T - N


@pytest.mark.parametrize("fault", ["died", "hung"])
def test_worker_that_fails_is_replaced_and_its_batch_done_again(collector, fault: str) -> None:
    one = collector(workers=1, limit=1.0)
    wait_until_ready(one.team)
    victim = one.team._members[0]
    calls, done = 0, False
    original = one.team.take

    def take(batch) -> bool:
        nonlocal calls, done
        calls += 1
        if calls >= 5 and victim.batch is None and not done:
            done = True
            number = signal.SIGKILL if fault == "died" else signal.SIGSTOP
            os.kill(victim.process.pid, number)
        return original(batch)

    one.team.take = take
    one.collect()
    assert done
    check_rollout(one, 0)
    found = one.stats.faults
    assert [f.who for f in found] == ["inference worker"]
    assert found[0].kind == fault
    wait_until_ready(one.team)  # the new one works
    one.storage.after_update()
    one.collect()
    check_rollout(one, 0)


def test_exception_in_a_worker_comes_back_with_its_traceback(collector) -> None:
    one = collector(workers=1, max_faults=1)
    wait_until_ready(one.team)
    member = one.team._members[0]
    one.team._head[0] = 2, 10**6, 0  # rows that do not exist
    one.team._envs[0, :2] = 0, 1
    member.connection.send(b"B")
    end = time.monotonic() + 30
    while not one.team.faults and time.monotonic() < end:
        one.team.poll(0.2)
    assert one.team.faults[0].kind == "raised" and "Traceback" in one.team.faults[0].detail
    wait_until_ready(one.team)
    os.kill(one.team.pids[0], signal.SIGKILL)
    with pytest.raises(WorkerFailure, match=r"failed 2 times.*max_faults=1"):
        while True:
            one.team.poll(0.2)


def test_environment_worker_replaced_while_others_infer(collector, tmp_path: Path) -> None:
    one = collector(kind="Faulty", kwargs={"fault": "die", "marker": str(tmp_path / "m")})
    wait_until_ready(one.team)
    for _ in range(3):
        one.collect()
        check_rollout(one, 0)
        one.storage.after_update()
    assert one.pool.fault_count == 1 and one.team.fault_count == 0


def test_shared_tensors_keep_sizes_and_strides() -> None:
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    originals = {"image": image, "none": torch.zeros(5, 0), "flag": torch.tensor([True, False]),
                 "count": torch.tensor(2.5, dtype=torch.float64)}  # fmt: skip
    shared = SharedTensors.of(originals)
    other = SharedTensors.open(shared.message, [os.dup(shared.descriptors[0])])
    for name, tensor in originals.items():
        assert torch.equal(other[name], tensor) and other[name].dtype == tensor.dtype
    assert other["image"].stride() == image.stride()
    shared.tensors["image"][1, 2, 3, 0] = 7.0
    assert other["image"][1, 2, 3, 0] == 7.0
    shared.close()


@pytest.mark.parametrize("scheme", ["ver", "nover", "ddppo"])
def test_training_with_inference_workers(scheme: str, tmp_path: Path) -> None:
    others = new_children(set())
    values = {"scheme": scheme, "net.core": "lstm", "net.core_size": 8, "env": "CartPole-v1",
              "collect.num_inference_workers": 2, "net.normalize_obs": True}  # fmt: skip
    result = train(config(tmp_path, **values))
    assert result.finished and result.steps == 640
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["fault/count"] == 0 and np.isfinite(lines[-1]["learner/loss"])
    assert not new_children(others)
    policy = load_policy(tmp_path)
    assert all(torch.isfinite(p).all() for p in policy.parameters())
    assert train(config(tmp_path, **values, resume="loose")).steps == 640
    runner = Runner(config(tmp_path, **{**values, "total_steps": 704}))
    assert runner.run().steps == 704


def test_images_and_actions_within_bounds_reach_inference_workers(tmp_path: Path) -> None:
    values = {"env_args": {"kind": "DictEnv"}, "net.image_features": 8, "total_steps": 256,
              "net.core": "lstm", "net.core_size": 8, "net.binary_actions": [0],
              "collect.num_inference_workers": 3}  # fmt: skip
    assert train(config(tmp_path, **values), make).finished


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_inference_worker_survives_the_trainer(number: int, tmp_path: Path) -> None:
    process = start_run(tmp_path, **{"collect.num_inference_workers": "2"})
    children: list[psutil.Process] = []
    end = time.monotonic() + 60
    while len(children) < 5 and time.monotonic() < end:
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.1)
    assert len(children) == 5
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (128 + number if number == signal.SIGTERM else -number)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


@pytest.mark.parametrize("other", ["scheme=async", "scheme=htsrl", "collector=inline"])
def test_combinations_that_cannot_work_are_refused(other: str, tmp_path: Path) -> None:
    key, _, value = other.partition("=")
    with pytest.raises(ConfigError, match="num_inference_workers=2 needs"):
        config(tmp_path, **{"collect.num_inference_workers": 2, key: value})
