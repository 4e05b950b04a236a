"""Whole runs: schemes, exact resume, determinism, signals, faults and the run folder."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file

from tests.ver_trainer.envs import make
from ver_trainer import evaluate, load_config, load_policy, train
from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import PoolOptions
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.errors import ConfigError, NonFiniteError, TrainerError
from ver_trainer.runner import Runner

ROOT = Path(__file__).parents[2]
SMALL = {
    "log.progress": False,
    "log.tensorboard": False,
    "collect.num_envs": 4,
    "collect.steps": 16,
    "log.checkpoint_interval": 1,
    "net.mlp": [16],
}


def config(out: Path, **values):
    return load_config(**{**SMALL, "out": str(out), "total_steps": 640, **values})


def weights(folder: Path, update: int) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"update_{update:09d}" / "weights.safetensors")


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name].cpu(), b[name].cpu()), name


@pytest.mark.parametrize("scheme", ["ver", "nover", "ddppo", "htsrl", "async", "decoupled"])
@pytest.mark.parametrize("core", ["none", "lstm"])
def test_schemes_run_and_log_their_lag(scheme: str, core: str, tmp_path: Path) -> None:
    values = {"scheme": scheme, "net.core": core, "net.core_size": 8, "env": "CartPole-v1"}
    result = train(config(tmp_path, **values))
    assert result.finished and result.steps == 640 and result.updates == 10
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [x["update"] for x in lines] == list(range(1, 11))
    assert all(np.isfinite(x["learner/loss"]) for x in lines)
    lag = [x["learner/policy_lag"] for x in lines]
    if scheme == "ddppo":
        assert max(lag) == 0
    elif scheme in ("ver", "nover", "decoupled"):
        assert max(lag) <= 4 / 64 * 1.01  # only the steps in flight
        assert core == "lstm" or max(lag) > 0  # a memory waits for the new weights
        # Four gradient steps, the third and fourth at weights two behind.
        behind = {x["learner/gradient_asynchrony"] for x in lines}
        assert behind == ({1.25} if scheme == "decoupled" else {0.0})
    elif scheme == "htsrl":
        assert all(1 <= x <= 1.1 for x in lag[2:])
        assert lines[-1]["learner/gradient_asynchrony"] == 1
    else:
        assert max(lag) <= 4


@pytest.mark.parametrize(
    ("scheme", "final_batch"),
    [
        *itertools.product(["ver", "nover", "decoupled"], ["dispatch", "replay"]),
        ("ddppo", "auto"),
    ],
)
def test_resume_is_bit_for_bit(scheme: str, final_batch: str, tmp_path: Path) -> None:
    """Killed at any update and resumed: the weights at the end are the ones of the whole run."""
    values = {
        "env": "CartPole-v1",
        "scheme": scheme,
        "collector": "inline",
        "collect.final_batch": final_batch,
        "net.core": "lstm",
        "net.core_size": 8,
        "net.normalize_obs": True,
        "net.normalize_returns": True,
        "optim.schedule": "kl",
        "ppo.learned_entropy": True,
        "ppo.entropy_target": 0.3,
        "log.keep_checkpoints": 20,
    }
    train(config(tmp_path / "whole", **values))
    for update in (1, 4, 9):
        part = tmp_path / f"part{update}"
        runner = Runner(config(part, **values))
        stop_after(runner, update)
        assert not runner.run().finished
        assert_same(weights(part, update), weights(tmp_path / "whole", update))
        result = train(config(part, **{**values, "resume": "exact"}))
        assert result.finished and result.updates == 10
        assert_same(weights(part, 10), weights(tmp_path / "whole", 10))
        assert strip(part / "metrics.jsonl") == strip(tmp_path / "whole" / "metrics.jsonl")


def stop_after(runner: Runner, update: int) -> None:
    """Delivers SIGTERM in the middle of the rollout after ``update``."""
    pool, calls = runner.parts.pool, 0
    original = pool.receive

    def receive(max_wait):
        nonlocal calls
        if runner.updates == update:
            calls += 1
            if calls == 7:
                os.kill(os.getpid(), signal.SIGTERM)
        return original(max_wait)

    pool.receive = receive


def check_resume(folder: Path, settings, environment, stop: int, last: int) -> None:
    """A run stopped in the rollout after update ``stop`` ends, in ``last``, as one that was not."""
    whole, part = folder / "whole", folder / "part"
    train(settings(whole), environment)
    runner = Runner(settings(part), environment)
    stop_after(runner, stop)
    assert not runner.run().finished
    train(settings(part, resume="exact"), environment)
    assert_same(weights(part, last), weights(whole, last))
    assert strip(part / "metrics.jsonl") == strip(whole / "metrics.jsonl")


def strip(path: Path) -> list[dict[str, float]]:
    """Records without times."""
    records = [json.loads(x) for x in path.read_text().splitlines()]
    return [{k: v for k, v in r.items() if not k.startswith("time/")} for r in records]


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_resume_is_exact_with_continuous_actions(optimizer: str, tmp_path: Path) -> None:
    values = {"env": "Pendulum-v1", "collector": "inline", "optim.name": optimizer}
    train(config(tmp_path / "whole", **values))
    runner = Runner(config(tmp_path / "part", **values))
    stop_after(runner, 5)
    runner.run()
    train(config(tmp_path / "part", **values))
    assert_same(weights(tmp_path / "part", 10), weights(tmp_path / "whole", 10))


def test_resume_is_exact_with_images(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "DictEnv"}, "net.image_features": 8,
              "net.core": "lstm", "net.core_size": 8, "total_steps": 256}  # fmt: skip
    train(config(tmp_path / "whole", **values), make)
    runner = Runner(config(tmp_path / "part", **values), make)
    stop_after(runner, 2)
    runner.run()
    train(config(tmp_path / "part", **values), make)
    assert_same(weights(tmp_path / "part", 4), weights(tmp_path / "whole", 4))


def test_same_seed_same_run_and_other_seed_other_run(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(config(tmp_path / name, collector="inline", seed=seed))
    a, b, c = (weights(tmp_path / name, 10) for name in "abc")
    assert_same(a, b)
    assert any(not torch.equal(a[k], c[k]) for k in a)


def test_longer_run_continues_and_other_config_is_refused(tmp_path: Path) -> None:
    train(config(tmp_path, collector="inline"))
    assert train(config(tmp_path, collector="inline")).updates == 10
    result = train(config(tmp_path, collector="inline", total_steps=768))
    assert result.updates == 12
    with pytest.raises(ConfigError, match=r"ppo.clip was 0.2, is 0.1.*another out="):
        train(config(tmp_path, collector="inline", **{"ppo.clip": 0.1}))
    with pytest.raises(ConfigError, match="resume=never"):
        train(config(tmp_path, collector="inline", resume="never"))


def test_workers_resume_with_new_episodes(tmp_path: Path) -> None:
    train(config(tmp_path, total_steps=640))  # a slow worker, too, ends its first episode
    runner = Runner(config(tmp_path, total_steps=960))
    pool = runner.parts.pool
    episodes = pool.options.first_episodes
    assert len(episodes) == 4 and min(episodes) > 1  # seeds of old episodes are not used again
    result = runner.run()
    assert result.finished and result.steps == 960


def test_environment_that_ignores_its_seed_is_named(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "Unseeded"}}
    train(config(tmp_path, total_steps=320, **values), make)
    with pytest.raises(TrainerError, match=r"differs.*resume=loose"):
        train(config(tmp_path, total_steps=640, **values), make)
    assert train(config(tmp_path, total_steps=640, resume="loose", **values), make).steps == 640


def test_run_folder(tmp_path: Path) -> None:
    train(config(tmp_path, collector="inline", **{"log.tensorboard": True}))
    versions = json.loads((tmp_path / "versions.json").read_text())
    assert versions["torch"] == torch.__version__ or "torch" in versions
    assert set(json.loads((tmp_path / "git.json").read_text())) == {"commit", "dirty"}
    assert list((tmp_path / "tensorboard").iterdir())
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert not [n for n in names if n.startswith(".")]
    kept = [n for n in names if n.startswith("update")]
    best = json.loads((tmp_path / "checkpoints" / "best.json").read_text())["name"]
    assert kept[-3:] == [f"update_{u:09d}" for u in (8, 9, 10)]
    assert set(kept) == {*kept[-3:], best}
    policy = load_policy(tmp_path)
    result = evaluate(policy, EnvFactory("CartPole-v1"), episodes=3, num_envs=2, workers=False)
    assert len(result.returns) == 4 and (result.returns == result.lengths).all()


def new_children(before: set[psutil.Process]) -> set[psutil.Process]:
    """Child processes that are not in ``before``: other tests may have left helpers running."""
    return set(psutil.Process().children(recursive=True)) - before


@pytest.mark.parametrize("collector", ["inline", "workers"])
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("nan_reward", "reward of environment"),
        ("nan_obs", "observation 'obs' of environment"),
        ("nan_final", "observation 'obs' of environment"),  # of an episode that was cut
    ],
)
def test_nan_from_an_environment_stops_the_run(
    collector: str, fault: str, sentence: str, tmp_path: Path
) -> None:
    others = new_children(set())
    values = {"collector": collector, "env_args": {"kind": "Faulty", "fault": fault}}
    with pytest.raises(NonFiniteError, match=sentence):
        train(config(tmp_path, **values), make)
    kept = [p.name for p in (tmp_path / "checkpoints").iterdir() if p.name.startswith("update")]
    assert kept  # the last good one
    policy = load_policy(tmp_path)
    assert all(torch.isfinite(p).all() for p in policy.parameters())
    assert not new_children(others)


@pytest.mark.parametrize("fault", ["raise", "die", "hang"])
@pytest.mark.parametrize("scheme", ["ver", "ddppo", "async"])
def test_run_survives_a_faulty_worker(fault: str, scheme: str, tmp_path: Path) -> None:
    others = new_children(set())
    arguments = {"kind": "Faulty", "fault": fault, "marker": str(tmp_path / "m")}
    values = {"scheme": scheme, "env_args": arguments, "collect.step_timeout": 0.7}
    if fault == "hang":  # the others must still be at work when the time limit is over
        values["total_steps"] = 4096
        arguments["seconds"] = 0.002
    result = train(config(tmp_path, **values), make)
    assert result.finished and result.steps == values.get("total_steps", 640)
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["fault/count"] == 1
    assert not new_children(others)


STARTED: list[subprocess.Popen[str]] = []


def start_run(out: Path, **values: str) -> subprocess.Popen[str]:
    settings = {
        "env": "CartPole-v1", "out": str(out), "total_steps": "100000000",
        "collect.num_envs": "3", "collect.steps": "32", "log.tensorboard": "false",
        "log.checkpoint_interval": "5", **values,
    }  # fmt: skip
    overrides = [f"{k}={v}" for k, v in settings.items()]
    code = "import sys; from skills.commands.train import run; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *overrides], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    STARTED.append(process)
    end = time.monotonic() + 90
    while not list(out.glob("checkpoints/update_*")) and time.monotonic() < end:
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_write_a_checkpoint_and_leave_nothing_behind(number: int, tmp_path: Path) -> None:
    process = start_run(tmp_path)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 4
    before = max(p.name for p in tmp_path.glob("checkpoints/update_*"))
    time.sleep(0.3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "checkpoint written" in errors and "Traceback" not in errors
    assert max(p.name for p in tmp_path.glob("checkpoints/update_*")) > before
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


def test_sigkill_leaves_a_folder_that_resumes(tmp_path: Path) -> None:
    process = start_run(tmp_path, collector="inline")
    process.kill()
    process.communicate()
    steps = json.loads(max(tmp_path.glob("checkpoints/update_*/meta.json")).read_text())["steps"]
    config_ = load_config(
        env="CartPole-v1", out=str(tmp_path), collector="inline", total_steps=steps + 96,
        **{"collect.num_envs": 3, "collect.steps": 32, "log.progress": False,
           "log.tensorboard": False, "log.checkpoint_interval": 5},
    )  # fmt: skip
    assert train(config_).steps == steps + 96


def test_evaluation_and_video_during_training(tmp_path: Path) -> None:
    pytest.importorskip("imageio")
    values = {"log.eval_interval": 5, "log.eval_episodes": 2, "log.eval_video": True}
    train(config(tmp_path, **values), make)
    records = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    evaluations = [r for r in records if "eval/return" in r]
    assert len(evaluations) == 2 and "eval/success" in evaluations[0]
    assert len(list((tmp_path / "videos").rglob("*.mp4"))) == 4  # each environment's own


def test_pretrained_weights_start_the_run(tmp_path: Path) -> None:
    train(config(tmp_path / "first", collector="inline"))
    values = {"pretrained": str(tmp_path / "first"), "seed": 7, "collector": "inline"}
    runner = Runner(config(tmp_path / "second", **values))
    expected = load_policy(tmp_path / "first").state_dict()
    assert_same(expected, runner.parts.policy.state_dict())
    runner.parts.pool.close()


def test_dict_observations_and_box_actions_train(tmp_path: Path) -> None:
    values = {"env_args": {"kind": "DictEnv"}, "net.image_features": 8, "total_steps": 128,
              "net.core": "lstm", "net.core_size": 8, "net.normalize_obs": True}  # fmt: skip
    assert train(config(tmp_path, **values), make).finished


def test_periodic_evaluation_keeps_to_the_limits_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[PoolOptions] = []

    class Pool(InlinePool):
        def __init__(self, factory, spec, options) -> None:
            super().__init__(factory, spec, options)
            made.append(options)

    monkeypatch.setattr("ver_trainer.evaluation.InlinePool", Pool)
    limits = {"step_timeout": 7.0, "start_timeout": 8.0, "max_faults": 3, "worker_nice": 2}
    values = {"collector": "inline", "total_steps": 64, "log.eval_interval": 1}
    train(config(tmp_path, **values, **{f"collect.{k}": v for k, v in limits.items()}), make)
    (options,) = made
    assert options.seed == 1_000_000 and options.first_episodes == ()
    found = (options.step_timeout, options.start_timeout, options.max_faults, options.nice)
    assert found == (7.0, 8.0, 3, 2)


def test_a_signal_during_the_evaluation_ends_it(tmp_path: Path) -> None:
    values = {"collector": "inline", "total_steps": 128, "log.eval_interval": 1}
    values |= {"log.eval_episodes": 100_000, "log.interval": 1}
    runner = Runner(config(tmp_path, **values), make)
    update = runner.parts.learner.update

    def then_signal(*args, **kwargs):
        found = update(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    runner.parts.learner.update = then_signal
    begin = time.monotonic()
    assert not runner.run().finished and runner.updates == 1
    assert time.monotonic() - begin < 4  # all of its episodes take minutes
    assert len(strip(tmp_path / "metrics.jsonl")) == 1  # the record of the update is there
    assert weights(tmp_path, 1)
