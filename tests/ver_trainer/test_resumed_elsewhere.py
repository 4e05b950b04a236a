"""What of a run holds where it is stopped on one rank, goes on elsewhere, or is done already."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_batched import Worlds
from tests.ver_trainer.test_distributed import run_ranks
from tests.ver_trainer.test_finetuning import BOX
from tests.ver_trainer.test_runner import config
from tests.ver_trainer.test_vector_envs import batch
from ver_trainer import run_folder, train
from ver_trainer.config import NetConfig
from ver_trainer.envs.batch_slot import BatchSlot
from ver_trainer.envs.shared import transfer_specs
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import ConfigError, NonFiniteError
from ver_trainer.export import load_pretrained, save_policy
from ver_trainer.nets.policy import make_policy
from ver_trainer.resume import read_state


def test_a_signal_of_one_rank_is_that_of_all(tmp_path: Path) -> None:
    run_ranks("signalled", str(tmp_path))
    for rank in (0, 1):
        found = json.loads((tmp_path / f"signal{rank}.json").read_text())
        assert found == [False, signal.SIGTERM]


def test_a_new_rank_goes_on_with_what_was_carried(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "Carrying", "longest": 2}}
    train(config(tmp_path, **values, total_steps=128), make)
    (checkpoint, *_) = sorted((tmp_path / "checkpoints").glob("update_*"), reverse=True)
    kept, new = (read_state(checkpoint, rank, 2, loose=True) for rank in (0, 1))
    assert new["carried"] == kept["carried"] and min(kept["carried"]) > 3


def test_a_batch_made_of_two_carries_their_mean() -> None:
    factory = EnvFactory(batch, worlds=4)
    specs = transfer_specs(probe(factory), ())
    count = int(factory().num_envs)
    buffers = {name: np.zeros((count, *s.shape), s.dtype) for name, s in specs.items()}
    buffers["carried"][count // 2 :] = 0.5
    made = factory()
    made.unwrapped.carried = 0.0
    slot = BatchSlot(lambda: made, buffers, 0, 0, (), 0, (0,) * count)
    assert made.unwrapped.carried == pytest.approx(0.5 * (count - count // 2) / count)
    slot.close()


def test_provenance_tells_of_every_commit_that_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(commit: str, steps: int) -> dict:
        state = {"commit": commit, "dirty": False}
        monkeypatch.setattr(run_folder, "git_state", lambda: (state, ""))
        train(config(tmp_path, collector="inline", total_steps=steps), make)
        return json.loads((tmp_path / "git.json").read_text())

    first = {"commit": "a", "dirty": False}
    assert at("a", 64) == first
    assert at("b", 64) == first, "there was nothing left to train"
    assert at("b", 128) == {"commit": "b", "dirty": False, "earlier": [first]}
    assert at("b", 192) == {"commit": "b", "dirty": False, "earlier": [first]}


def test_a_clone_whose_switch_begins_likely_keeps_its_signs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = make_policy(BOX, NetConfig(mlp=[8]))
    with torch.no_grad():
        source.actor.linear.weight.normal_()
        source.actor.linear.bias[-1] = 1.0
    save_policy(source, tmp_path / "bc.safetensors")
    obs, state = {"obs": torch.randn(50, 3)}, source.initial_state(50)
    for chance, least in ((0.998, 0.998), (0.5, 0.731)):
        net = NetConfig(mlp=[8], binary_actions=[2], binary_initial=[chance])
        target = make_policy(BOX, net)
        load_pretrained(target, tmp_path / "bc.safetensors", [])
        with torch.no_grad():
            old, new = source.act_mode(obs, state)[0], target.act_mode(obs, state)[0]
        assert torch.equal(old[:, 2].sign(), new[:, 2])
        found = torch.sigmoid(target.actor.linear.bias[-1]).item()
        assert found == pytest.approx(least, abs=1e-3)


def test_rewards_are_not_checked_where_nothing_is(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "Faulty", "fault": "nan_reward"}}
    with pytest.raises(NonFiniteError, match="the reward of environment"):
        train(config(tmp_path / "checked", **values), make)
    with pytest.raises(NonFiniteError, match="loss"):  # which is not an option
        train(config(tmp_path / "not", **values, **{"collect.check_finite": False}), make)


class Registered(Worlds, VectorEnv):
    """Tensors by a name."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}


def test_batches_of_tensors_by_name_are_evaluated_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "Tensors-v0"
    spec = EnvSpec(name, entry_point=make, vector_entry_point=Registered)
    monkeypatch.setitem(gymnasium.registry, name, spec)
    values = {"collector": "inline", "env": name, "log.eval_interval": 1, "collect.worlds": 4}
    with pytest.raises(ConfigError, match=r"use log\.eval_interval=0 with a batched"):
        train(config(tmp_path, **values, **{"collect.num_envs": 4}))
