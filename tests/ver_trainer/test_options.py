"""Options that need something extra: a compiler, wandb, SLURM; and lower precision."""

from __future__ import annotations

import copy
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_networks import SPEC, random_obs
from tests.ver_trainer.test_runner import ROOT, config, start_run, weights
from ver_trainer import load_policy, train
from ver_trainer.config import NetConfig
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import make_policy
from ver_trainer.signals import StopSignals

compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
SMALL = {"image_features": 16, "core": "lstm", "core_size": 8, "core_layers": 1}


@compiler
def test_compiled_encoder_computes_the_same() -> None:
    torch.manual_seed(0)
    plain = make_policy(SPEC, NetConfig(**SMALL))
    compiled = make_policy(SPEC, NetConfig(**SMALL, compile=True))
    compiled.load_state_dict(plain.state_dict())
    packing = Packing(torch.tensor([2, 2]), plain.initial_state(2))
    obs, action = random_obs(SPEC, 4), torch.randn(4, 4)
    gradients = []
    for policy in (plain, compiled):
        out = policy.evaluate(obs, action, packing)
        (out.log_prob.sum() + out.value.sum()).backward()
        gradients.append({n: p.grad for n, p in policy.named_parameters()})
    assert compiled.encoder._compiled_call_impl is not None
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-3, atol=1e-4)
    copied = copy.deepcopy(compiled)  # as overlapped schemes and the anchor do
    with torch.no_grad():
        one, other = (p.act(obs, p.initial_state(4), None, True) for p in (plain, copied))
    torch.testing.assert_close(one.action, other.action, rtol=1e-3, atol=1e-4)


@compiler
def test_compiled_run_trains_and_its_weights_load_anywhere(tmp_path: Path) -> None:
    values = {"net.compile": True, "collector": "inline", "total_steps": 128}
    assert train(config(tmp_path, **values)).finished
    policy = load_policy(tmp_path)
    assert policy.config.compile is False and set(weights(tmp_path, 2)) == set(policy.state_dict())


@pytest.mark.parametrize("encoder", ["cnn", "resnet18", "se_resnet9"])
def test_bf16_stays_near_float32(encoder: str) -> None:
    torch.manual_seed(0)
    net = NetConfig(**SMALL, encoder=encoder, width=16)
    exact = make_policy(SPEC, net)
    rough = make_policy(SPEC, net, "bf16")
    rough.load_state_dict(exact.state_dict())
    obs = random_obs(SPEC, 8)
    with torch.no_grad():
        a, b = (p.act(obs, p.initial_state(8), None, True) for p in (exact, rough))
    assert b.value.dtype == torch.float32 and not torch.equal(a.value, b.value)
    torch.testing.assert_close(a.value, b.value, atol=0.03, rtol=0.03)
    torch.testing.assert_close(a.state, b.state, atol=0.03, rtol=0.03)


def test_bf16_run_trains(tmp_path: Path) -> None:
    values = {"precision": "bf16", "env_args": {"kind": "DictEnv"}, "total_steps": 128,
              "collector": "inline", **{f"net.{k}": v for k, v in SMALL.items()}}  # fmt: skip
    assert train(config(tmp_path, **values), make).finished
    assert all(
        w.dtype == torch.float32 for n, w in weights(tmp_path, 2).items() if "count" not in n
    )


def test_wandb_run_is_recorded_offline(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    values = {"log.wandb": True, "collector": "inline"}
    assert train(config(tmp_path, **values, total_steps=128)).finished
    name = (tmp_path / "wandb_id").read_text()
    assert list((tmp_path / "wandb").glob(f"offline-run-*-{name}/run-{name}.wandb"))
    train(config(tmp_path, **values, total_steps=256))  # goes on under the same name
    assert (tmp_path / "wandb_id").read_text() == name
    assert len(list((tmp_path / "wandb").glob(f"offline-run-*-{name}"))) >= 1


def fake_scontrol(folder: Path) -> dict[str, str]:
    """A PATH whose first ``scontrol`` notes its arguments, as a cluster's would requeue the job."""
    folder.mkdir()
    script = folder / "scontrol"
    script.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n')
    script.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "1234"}


def test_sigusr1_under_slurm_checkpoints_and_requeues(tmp_path: Path, monkeypatch) -> None:
    for name, value in fake_scontrol(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    process = start_run(tmp_path / "run", collector="inline")
    process.send_signal(signal.SIGUSR1)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR1
    assert "checkpoint written, put back into the queue" in errors
    assert (tmp_path / "bin" / "calls").read_text() == "requeue 1234\n"
    assert list((tmp_path / "run" / "checkpoints").glob("update_*"))


def test_submitit_requeues_by_itself(tmp_path: Path, monkeypatch) -> None:
    """Its own signal is SIGUSR2; SIGUSR1 puts nothing back below it."""
    for name, value in fake_scontrol(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    for number, comes_back in ((signal.SIGUSR1, False), (signal.SIGUSR2, True)):
        with StopSignals() as signals:
            os.kill(os.getpid(), number)
            assert signals.received == number and signals.requeue() is comes_back
    assert not (tmp_path / "bin" / "calls").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_other_signals_do_not_requeue(number: int, tmp_path: Path, monkeypatch) -> None:
    for name, value in fake_scontrol(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    with StopSignals() as signals:
        os.kill(os.getpid(), number)
        assert signals.received == number and not signals.requeue()
    assert not (tmp_path / "bin" / "calls").exists()


def test_missing_wandb_is_refused_with_the_remedy(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['wandb'] = None\n"
        "from tpsrl.cli import main\n"
        f"sys.exit(main(['train', 'out={tmp_path}', 'log.wandb=true', 'collector=inline']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0 and "pip install wandb" in done.stderr
    assert "Traceback" not in done.stderr


def test_learned_actions_are_finite_in_half_precision_of_the_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("fp16 needs a GPU")
    policy = make_policy(SPEC, NetConfig(**SMALL), "fp16").cuda()
    obs = {k: v.cuda() for k, v in random_obs(SPEC, 4).items()}
    step = policy.act(obs, policy.initial_state(4, "cuda"))
    assert np.isfinite(step.value.detach().cpu().numpy()).all()
