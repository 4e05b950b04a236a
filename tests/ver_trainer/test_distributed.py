"""Two Gloo ranks, and the preemption decider."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.rank import small_config
from tests.ver_trainer.test_learner import make_learner
from ver_trainer import train
from ver_trainer.distributed.preemption import best_duration
from ver_trainer.errors import CheckpointError, ConfigError
from ver_trainer.parts import choose_device
from ver_trainer.recent import interleave
from ver_trainer.resume import read_state
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.collector import EpisodeEnd
from ver_trainer.runner import TrainResult

ROOT = Path(__file__).parents[2]


def run_ranks(*arguments: str, size: int = 2) -> str:
    """Run a function of ``rank.py`` on every rank; return what the first one said."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common["CUDA_VISIBLE_DEVICES"] = ""  # two ranks cannot share the one GPU that there may be
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.ver_trainer.rank", *arguments],
            cwd=ROOT,
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [p.communicate(timeout=120) for p in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(p.returncode == 0 for p in processes), "\n".join(error for _, error in outputs)
    return "".join(outputs[0])


def test_two_ranks_have_the_gradient_of_the_joined_batch(tmp_path: Path) -> None:
    run_ranks("gradient", str(tmp_path))
    both = [torch.load(tmp_path / f"gradient{rank}.pt") for rank in (0, 1)]
    learner, _ = make_learner(0, learned_entropy=True, entropy_target=0.1)
    total, rows = torch.zeros(()), 0
    for rank in (0, 1):  # the mean over all rows of both ranks, computed in one process
        _, storage = make_learner(10 + rank)
        rollout = Rollout(storage, learner.ppo, learner.recurrent)
        rollout.compute_gae()
        (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
        total = total + learner.losses(batch).total * len(batch.rows)
        rows += len(batch.rows)
    (total / rows).backward()
    for a, b, parameter in zip(*both, learner.parameters, strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scheme", ["ver", "ddppo"])
def test_two_ranks_train_one_policy(scheme: str, tmp_path: Path) -> None:
    arguments = ("straggler", f"scheme={scheme}", "collect.preempt_fraction=0.5")
    arguments += ("net.normalize_returns=true", "optim.schedule=kl")
    run_ranks("training", str(tmp_path), *arguments)
    a, b = (torch.load(tmp_path / f"weights{rank}.pt") for rank in (0, 1))
    assert all(torch.equal(a[name], b[name]) for name in a)
    found = json.loads((tmp_path / "result0.json").read_text())
    # The same return on both ranks: it is that of the episodes of both.
    assert json.loads((tmp_path / "result1.json").read_text()) == found
    assert found[0] >= 1024
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(x["collect/steps"] <= 64 for x in lines)
    for x in lines:  # what is missing was filled with the previous rollout's steps
        if scheme == "ver" and x["update"] > 1:
            assert x["learner/stale_fraction"] == pytest.approx(1 - x["collect/steps"] / 64)
        if scheme == "ddppo":  # nothing is filled up, nothing begun before it ends early
            assert x["learner/stale_fraction"] == 0 and x["learner/policy_lag"] == 0
            assert x["collect/steps"] >= 16 and x["collect/steps"] % 4 == 0
    assert min(x["collect/steps"] for x in lines) < 64  # nobody waits for the straggler


def test_loose_resume_changes_the_number_of_ranks(tmp_path: Path) -> None:
    """One rank, then two, then one again; without resume=loose the number may not change."""

    def run(*overrides: str) -> TrainResult:
        config = small_config(tmp_path, "collector=inline", *overrides, env_args={"kind": "Ragged"})
        return train(config, make)

    assert run("total_steps=256").steps == 256
    (first,) = (tmp_path / "run" / "checkpoints").glob("update_*")
    with pytest.raises(CheckpointError, match=r"written by 1 rank.*this run has 2.*resume=loose"):
        read_state(first, 1, 2, loose=False)
    assert "random" not in read_state(first, 1, 2, loose=True)  # ranks must not sample alike
    overrides = ("collector=inline", "resume=loose", "total_steps=512")
    run_ranks("training", str(tmp_path), *overrides)
    a, b = (torch.load(tmp_path / f"weights{rank}.pt") for rank in (0, 1))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert json.loads((tmp_path / "result1.json").read_text())[0] >= 512
    with pytest.raises(CheckpointError, match=r"written by 2 rank.*this run has 1"):
        run("total_steps=1024")
    assert run("total_steps=1024", "resume=loose").steps >= 1024


def test_what_fails_on_another_rank_is_told_and_counted(tmp_path: Path) -> None:
    said = run_ranks("failing", str(tmp_path))
    assert "environment worker of rank 1 replaced (raised, 1 so far" in " ".join(said.split())
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["fault/count"] == 1


def test_ranks_that_train_on_cpus_are_connected_by_gloo(tmp_path: Path) -> None:
    run_ranks("connecting", str(tmp_path))
    assert [(tmp_path / f"backend{rank}").read_text() for rank in (0, 1)] == ["gloo", "gloo"]


def test_episodes_of_all_ranks_share_a_window() -> None:
    long, short = ([EpisodeEnd(n, 0.0, {}) for n in ns] for ns in (range(10, 15), range(20, 22)))
    mixed = [episode.length for episode in interleave([long, short])]
    assert mixed == [10, 11, 12, 20, 13, 21, 14]


def brute_force(step_seconds: np.ndarray, quota: int, learn: float) -> float:
    """Best steps per second over all moments at which some step arrives."""
    best = 0.0
    for rank in step_seconds:
        for seconds in rank:
            for k in range(1, quota + 1):
                best = max(best, rate(step_seconds, quota, learn, k * seconds))
    return best


def rate(step_seconds: np.ndarray, quota: int, learn: float, duration: float) -> float:
    steps = 0
    for rank in step_seconds:
        done = sum(int(np.floor(duration / s + 1e-9)) for s in rank)
        steps += min(done, quota)
    return steps / (duration + learn)


@pytest.mark.parametrize("seed", range(30))
def test_decider_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks, envs = rng.integers(1, 5), rng.integers(1, 5)
    quota = int(envs * rng.integers(2, 12))
    step_seconds = rng.lognormal(-4, 1.0, (ranks, envs)) * rng.lognormal(0, 0.7, (ranks, 1))
    learn = float(rng.choice([0.0, 0.01, 0.3]))
    duration, steps = best_duration(step_seconds, quota, learn)
    assert steps == round(rate(step_seconds, quota, 0.0, duration) * duration)
    chosen = rate(step_seconds, quota, learn, duration)
    assert chosen == pytest.approx(brute_force(step_seconds, quota, learn), rel=1e-6)


def test_decider_waits_for_equals_and_not_for_stragglers() -> None:
    equal = np.full((4, 8), 0.01)
    assert best_duration(equal, 8 * 16, 0.05) == pytest.approx((0.16, 4 * 128))
    straggler = equal.copy()
    straggler[3] *= 50
    assert best_duration(straggler, 8 * 16, 0.05, 0.05)[0] == pytest.approx(0.16)
    slower = equal.copy()
    slower[3] *= 1.03  # hardly worth a stale row
    assert best_duration(slower, 8 * 16, 0.0, 0.0)[1] < 4 * 128
    assert best_duration(slower, 8 * 16, 0.0, 0.05)[1] == 4 * 128


def test_rollouts_end_by_steps_as_well_as_by_time(tmp_path: Path) -> None:
    """Everything is slower than planned: no rank is cut. One rank breaks down: nobody waits."""
    run_ranks("deciding", str(tmp_path))
    for rank in (0, 1):
        slow, broken = json.loads((tmp_path / f"steps{rank}.json").read_text())
        assert slow["steps"] >= 0.85 * 100
        assert broken["steps"] == (100 if rank == 0 else 10)
        assert broken["seconds"] < 0.5


def test_two_ranks_of_cartpole_inline_fill_their_rollouts(tmp_path: Path) -> None:
    """Unless others take a core away for a while: then one rank waits for no other, rightly."""
    for attempt in range(3):
        lines = cartpole_on_two_ranks(tmp_path / str(attempt))
        assert len(lines) > 5
        full = np.mean([x["collect/steps"] for x in lines]) / (16 * 128)
        # What is not full is filled with rows of the rollout before: the same fact, told twice.
        stale = np.mean([x["learner/stale_fraction"] for x in lines])
        assert stale == pytest.approx(1 - full)
        both = np.mean(np.diff([x["step"] for x in lines])) / (2 * 16 * 128)
        if min(full, both) >= 0.9:
            return
    pytest.fail(f"rollouts are {full:.2f} full on one rank and {both:.2f} on both, three times")


def cartpole_on_two_ranks(out: Path) -> list[dict]:
    """What each rollout of a short training was like, but for the first."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
        *("-m", "tpsrl", "train", "env=CartPole-v1", "scheme=ver", "collector=inline"),
        *("device=cpu", f"out={out}", "total_steps=50000", "log.tensorboard=false"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()][1:]


def test_a_rank_without_a_gpu_of_its_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(
        ConfigError, match=r"rank 1 of this machine asks for GPU 1, and torch sees 1"
    ):
        choose_device("auto")
    with pytest.raises(ConfigError, match="device=cuda:3 asks for GPU 3"):
        choose_device("cuda:3")
