"""What helps a memory: the previous action as an input, and CPC|A as a loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skills.learned.inference import NumpyPolicy
from tests.ver_trainer.test_collector import build as make_collector
from tests.ver_trainer.test_finetuning import BOX
from tests.ver_trainer.test_runner import assert_same, config, stop_after, weights
from tests.ver_trainer.test_sequences import SPEC
from ver_trainer import load_config, train
from ver_trainer.config import CPCConfig, NetConfig, OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.errors import ConfigError
from ver_trainer.export import export_policy, load_policy, save_policy
from ver_trainer.learner.cpc import ActionCPC
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.learner.teacher import Teacher
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.sequences import pack
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.runner import Runner


@pytest.mark.parametrize("spec", [SPEC, BOX])
@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("separate", [False, True])
def test_a_packed_pass_reads_the_actions_that_steps_remembered(spec, core, separate) -> None:
    torch.manual_seed(0)
    net = NetConfig(mlp=[8], core=core, core_size=6, previous_action=True, initial_std=0.5,
                    separate_critic=separate)  # fmt: skip
    policy = make_policy(spec, net)
    with torch.no_grad():
        policy.actor.linear.weight.mul_(100)
    lengths = np.array([5, 3, 1])
    starts = np.cumsum(lengths) - lengths
    packed = pack(np.arange(9), starts, lengths)
    obs, first = torch.randn(9, 3), torch.randn(3, policy.state_size)
    row = spec.action.row
    actions = torch.zeros(9, *row.shape, dtype=getattr(torch, row.dtype))
    log_prob, value, last = torch.zeros(9), torch.zeros(9), []
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for sequence, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            state = first[sequence : sequence + 1]
            for i in range(start, start + length):
                step = policy.act({"obs": obs[i : i + 1]}, state, generator)
                actions[i], log_prob[i], value[i] = step.action[0], step.log_prob, step.value
                state = step.state
            last.append(state[0, : policy.actor_state_size])
        sizes = torch.from_numpy(packed.batch_sizes)
        packing = Packing(sizes, first, actions[packed.rows])
        out = policy.evaluate({"obs": obs[packed.rows]}, actions[packed.rows], packing)
        own = Packing(sizes, first[:, : policy.actor_state_size], packing.action)
        _, ends = policy.actor_pass({"obs": obs[packed.rows]}, own)
    torch.testing.assert_close(out.log_prob, log_prob[packed.rows])
    torch.testing.assert_close(out.value, value[packed.rows])
    torch.testing.assert_close(ends, torch.stack(last))
    with pytest.raises(ConfigError, match="actions of the rows"):
        policy.distribution(
            {"obs": obs}, Packing(torch.tensor([9]), torch.zeros(9, 99)[:, : policy.state_size])
        )


def test_the_previous_action_leaves_the_trainer(tmp_path: Path) -> None:
    """The policy, TorchScript and NumPy remember alike."""
    torch.manual_seed(0)
    net = NetConfig(mlp=[8], core="lstm", core_size=6, previous_action=True, binary_actions=[-1])
    policy = make_policy(BOX, net)
    with torch.no_grad():
        policy.actor.linear.weight.mul_(100)
    save_policy(policy, tmp_path / "p.safetensors")
    script = torch.jit.load(export_policy(policy, tmp_path / "p.pt"))
    worker = NumpyPolicy.load(tmp_path / "p.safetensors")
    state, exported = policy.initial_state(1), torch.zeros(1, policy.actor_state_size)
    assert policy.actor_state_size == 3 + 2 * 2 * 6
    for _ in range(4):
        obs = torch.randn(1, 3)
        with torch.no_grad():
            step = policy.act({"obs": obs}, state, deterministic=True)
            action, exported = script(obs, exported)
        state, expected = step.state, step.action.clamp(-1, 1)
        torch.testing.assert_close(state[:, :3], step.action)
        torch.testing.assert_close(action, expected)
        np.testing.assert_allclose(worker.step({"obs": obs[0].numpy()}), expected[0], atol=1e-5)


def test_a_teacher_remembers_what_the_student_did() -> None:
    collector = make_collector(0)
    storage = collector.storage
    net = NetConfig(mlp=[8], core="lstm", core_size=6, previous_action=True)
    teacher = Teacher(
        make_policy(collector.policy.spec, net), storage.num_envs, lambda *_: 1.0, "t"
    )
    for _ in range(2):
        collector.collect()
        rollout = Rollout(storage, PPOConfig(), recurrent=True)
        teacher.prepare(rollout, 0.0, 0)
        rows = storage.fresh_rows()
        for env in range(storage.num_envs):
            own = rows[storage.env[rows] == env]
            if not len(own):
                continue
            newest = own[np.lexsort((storage.step[own], storage.episode[own]))[-1]]
            done = teacher.policy.action_features(storage.tensors["action"][newest : newest + 1])
            torch.testing.assert_close(teacher.state[env, :3], done[0])
        storage.after_update()


def test_cpc_learns_what_its_memory_will_see() -> None:
    """A counter that the actions move: what comes is known only with the actions to come."""
    torch.manual_seed(0)
    net = NetConfig(mlp=[16], core="lstm", core_size=16, core_layers=1)
    policy = make_policy(SPEC, net)
    storage = RolloutStorage(SPEC, 8, 32, policy.state_size)
    rng = np.random.default_rng(0)
    place, envs = np.zeros(8, np.int64), np.arange(8)
    for step in range(32):
        rows = storage.append(envs, np.zeros(8), np.full(8, step), 0)
        storage.obs["obs"][rows] = torch.eye(3)[torch.from_numpy(place)]
        action = rng.integers(3, size=8)
        storage.tensors["action"][rows] = torch.from_numpy(action)
        place = (place + action) % 3
        storage.tensors["log_prob"][rows] = -1.1
        storage.finish_step(envs, np.zeros(8), np.zeros(8, bool), np.zeros(8))
    extra = ActionCPC(policy, CPCConfig(coef=1.0, steps=4, negatives=4, size=32))
    optim = OptimConfig(lr=5e-3, schedule="constant")
    learner = PPOLearner(
        policy, PPOConfig(), optim, Group(), np.random.default_rng(0), extras=[extra]
    )
    found = [learner.update(storage, 0.0)["cpc_accuracy"] for _ in range(40)]
    assert found[0] == pytest.approx(0.5, abs=0.1)
    # A third of the wrong ones is as right as the right one, so 5/6 is the most.
    assert np.mean(found[-5:]) > 0.75


def test_memory_options_resume_bit_for_bit(tmp_path: Path) -> None:
    values = {"env": "CartPole-v1", "collector": "inline", "net.core": "lstm", "net.core_size": 8,
              "net.previous_action": True, "cpc.coef": 0.1, "cpc.samples": 16}  # fmt: skip
    train(config(tmp_path / "whole", **values))
    runner = Runner(config(tmp_path / "part", **values))
    stop_after(runner, 5)
    assert not runner.run().finished
    train(config(tmp_path / "part", **values))
    assert_same(weights(tmp_path / "part", 10), weights(tmp_path / "whole", 10))
    assert load_policy(tmp_path / "part").config.previous_action


def test_cpc_without_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"use net\.core=lstm"):
        load_config(["cpc.coef=0.1"])


def test_another_action_than_its_own_is_remembered_where_it_was_carried_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    policy = make_policy(BOX, NetConfig(mlp=[8], core="lstm", core_size=6, previous_action=True))
    save_policy(policy, tmp_path / "p.safetensors")
    told, untold = (NumpyPolicy.load(tmp_path / "p.safetensors") for _ in range(2))
    state, obs = policy.initial_state(1), torch.randn(2, 1, 3)
    done = np.array([0.9, -0.9, 0.5], np.float32)
    with torch.no_grad():
        state = policy.act({"obs": obs[0]}, state, deterministic=True).state
        state[:, :3] = torch.from_numpy(done)
        expected = policy.act({"obs": obs[1]}, state, deterministic=True).action.clamp(-1, 1)
    for worker in (told, untold):
        worker.step({"obs": obs[0, 0].numpy()})
    told.did(done)
    seen = {"obs": obs[1, 0].numpy()}
    np.testing.assert_allclose(told.step(seen), expected[0], atol=1e-5)
    assert np.abs(untold.step(seen) - expected[0].numpy()).max() > 1e-4
