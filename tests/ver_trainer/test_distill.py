"""A student that sees less learns from a teacher that labels every step."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_finetuning import BOX, continuous_storage
from tests.ver_trainer.test_runner import assert_same, config, stop_after, weights
from ver_trainer import evaluate, load_policy, train
from ver_trainer.config import DistillConfig, NetConfig, OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import ConfigError
from ver_trainer.export import save_policy
from ver_trainer.learner.extras import along
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.learner.teacher import make_teacher
from ver_trainer.nets.policy import make_policy
from ver_trainer.parts import build
from ver_trainer.runner import Runner

FACTORY = EnvFactory(make, {"kind": "SplitCartPole"})
STUDENT = {
    "env_args": {"kind": "SplitCartPole"}, "collector": "inline", "collect.num_envs": 8,
    "collect.steps": 32, "net.actor_obs": ["position"], "net.separate_critic": True,
    "net.critic_mlp": [16], "net.core": "lstm", "net.core_size": 32, "net.core_layers": 1,
    "ppo.epochs": 4, "optim.lr": 1e-2, "log.checkpoint_interval": 100,
}  # fmt: skip


def save_teacher(path: Path) -> str:
    """A policy that balances the pole with the full state: pushes to where it falls."""
    policy = make_policy(probe(FACTORY), NetConfig(mlp=[]))
    with torch.no_grad():  # cart's and pole's position, then their velocities
        gain = torch.tensor([0.1, 1.0, 0.3, 0.6])
        policy.actor.linear.weight[:] = 10 * torch.stack([-gain, gain])
    save_policy(policy, path)
    return str(path)


def test_a_student_without_velocities_reaches_its_teacher(tmp_path: Path) -> None:
    teacher = save_teacher(tmp_path / "teacher.safetensors")
    best = evaluate(load_policy(teacher), FACTORY, 8, workers=False).summary()["return"]
    values = {**STUDENT, "distill.teacher": teacher, "total_steps": 12_000, "ppo.epochs": 8}
    assert train(config(tmp_path / "run", **values), make).finished
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    distance = [json.loads(line)["learner/distill_kl"] for line in lines]
    # The first steps of an episode do not show the velocities: what remains cannot be learned.
    assert distance[-1] < 0.7 * distance[0]
    student = load_policy(tmp_path / "run")
    assert student.actor_obs == ("position",)
    reached = evaluate(student, FACTORY, 8, workers=False).summary()["return"]
    assert best > 450 and reached > 0.9 * best


@pytest.mark.parametrize("scheme", ["nover", "ddppo", "htsrl", "async", "decoupled"])
def test_distillation_is_the_same_parts_in_other_schemes(scheme: str, tmp_path: Path) -> None:
    teacher = save_teacher(tmp_path / "teacher.safetensors")
    values = {**STUDENT, "collector": "workers", "scheme": scheme, "total_steps": 1024,
              "distill.teacher": teacher, "distill.coef": [1.0, 0.0],
              "distill.ppo_coef": [0.0, 1.0]}  # fmt: skip
    result = train(config(tmp_path / "run", **values), make)
    assert result.finished and math.isfinite(result.mean_return)


def assert_resumes(folder: Path, values: dict[str, Any]) -> None:
    """A run stopped after three of five updates ends with the weights of one that was not."""
    values = {**values, "total_steps": 1280, "log.checkpoint_interval": 1}
    train(config(folder / "whole", **values), make)
    runner = Runner(config(folder / "part", **values), make)
    stop_after(runner, 3)
    assert not runner.run().finished
    train(config(folder / "part", **values), make)
    assert_same(weights(folder / "part", 5), weights(folder / "whole", 5))


def test_distillation_resumes_bit_for_bit(tmp_path: Path) -> None:
    teacher = save_teacher(tmp_path / "teacher.safetensors")
    values = {**STUDENT, "distill.teacher": teacher, "distill.ppo_coef": [0.0, 1.0]}
    assert_resumes(tmp_path, values)


@pytest.mark.parametrize("error", ["kl", "action"])
def test_actions_of_a_teacher_are_learned(error: str, tmp_path: Path) -> None:
    """Normal actions and a choice between -1 and +1; PPO alone would not move towards them."""
    torch.manual_seed(0)
    net = NetConfig(mlp=[16], binary_actions=[-1], initial_std=0.5)
    teacher = make_policy(BOX, net)
    with torch.no_grad():
        teacher.actor.linear.weight.mul_(100)
    save_policy(teacher, tmp_path / "t.safetensors")
    policy = make_policy(BOX, net)
    storage = continuous_storage(policy)
    choice = DistillConfig(teacher=str(tmp_path / "t.safetensors"), loss=error)
    extras = [make_teacher(policy, choice, storage.num_envs, torch.device("cpu"))]
    optim = OptimConfig(lr=1e-2, schedule="constant")
    learner = PPOLearner(
        policy, PPOConfig(epochs=10), optim, Group(), np.random.default_rng(0), extras=extras,
        weights=[0.0],
    )  # fmt: skip
    found = [learner.update(storage, 0.0)[f"distill_{error}"] for _ in range(15)]
    assert found[-1] < 0.2 * found[0]


def test_labels_may_lead_farther_than_a_rate_by_divergence(tmp_path: Path) -> None:
    """It stays what it is while there are labels, and holds the divergence from there on."""
    torch.manual_seed(0)
    policy = make_policy(BOX, NetConfig(mlp=[16], initial_std=0.5))
    save_policy(make_policy(BOX, NetConfig(mlp=[16])), tmp_path / "t.safetensors")
    storage = continuous_storage(policy)
    choice = DistillConfig(teacher=str(tmp_path / "t.safetensors"), coef=[1.0, 0.0, 0.0])
    extras = [make_teacher(policy, choice, storage.num_envs, torch.device("cpu"))]
    optim = OptimConfig(lr=1e-2, schedule="kl", kl_target=1e-9)
    ppo = PPOConfig(target_kl=1e-6)
    learner = PPOLearner(policy, ppo, optim, Group(), np.random.default_rng(0), extras=extras)
    for progress in (0.0, 0.25):
        found = learner.update(storage, progress)
        assert found["lr"] == 1e-2 and found["gradient_steps"] == ppo.epochs * ppo.mini_batches
    found = learner.update(storage, 0.5)
    assert found["lr"] < 1e-2 and found["gradient_steps"] == 1


def test_schedules_are_straight_lines() -> None:
    assert [along([1.0, 0.0], p) for p in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]
    assert [along([0.0, 0.0, 1.0], p) for p in (0.5, 0.75, 2.0)] == [0.0, 0.5, 1.0]


def test_teachers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    student = make_policy(probe(FACTORY), NetConfig(mlp=[]))
    other = tmp_path / "other.safetensors"
    save_policy(make_policy(BOX, NetConfig(mlp=[])), other)
    with pytest.raises(ConfigError, match=r"observation 'obs'.*position, velocity.*net\.actor_obs"):
        make_teacher(student, DistillConfig(teacher=str(other)), 1, torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"give distill\.teacher=PATH"):
        config(tmp_path, **{"distill.coef": [0.5]})
    with pytest.raises(ConfigError, match=r"choice_coef=4 weighs choices in distill\.loss=action"):
        config(tmp_path, **{"distill.teacher": str(other), "distill.choice_coef": 4.0})


def test_a_run_goes_on_where_its_teacher_lies_elsewhere(tmp_path: Path) -> None:
    """On another machine, or in another checkout: the same file by name, and not where it was."""
    first, values = tmp_path / "a" / "set" / "pole", {**STUDENT, "total_steps": 512}
    first.mkdir(parents=True)
    teacher = save_teacher(first / "teacher.safetensors")

    def go_on(path: Path, steps: int = 1024) -> int:
        more = {**values, "total_steps": steps, "distill.teacher": str(path)}
        return train(config(tmp_path / "run", **more), make).steps

    assert go_on(Path(teacher), 512) == 512
    second = tmp_path / "b" / "set" / "pole"
    second.mkdir(parents=True)
    save_teacher(second / "teacher.safetensors")
    with pytest.raises(ConfigError, match=r"distill\.teacher was"):
        go_on(second / "teacher.safetensors")  # the first is where it was
    (first / "teacher.safetensors").unlink()
    save_teacher(second / "other.safetensors")
    with pytest.raises(ConfigError, match=r"distill\.teacher was"):
        go_on(second / "other.safetensors")
    assert go_on(second / "teacher.safetensors") == 1024


def test_a_teacher_with_memory_follows_what_it_will_label(tmp_path: Path) -> None:
    memory = {"net.core": "lstm", "net.core_size": 8, "net.core_layers": 1, "collector": "inline"}
    values = {**memory, "collect.num_envs": 2, "collect.steps": 8}
    values |= {"env_args": {"kind": "SplitCartPole"}}
    train(config(tmp_path / "t", **values, total_steps=16), make)
    values |= {"distill.teacher": str(tmp_path / "t"), "total_steps": 1600}
    states = []
    for coef in ([1.0, 1.0], [0.0, 1.0], [0.0, 0.0]):
        parts = build(config(tmp_path / "s", **values, **{"distill.coef": coef}), make)
        parts.collector.collect()
        parts.learner.update(parts.storage, 0.0)
        states.append(parts.learner.extras[0].state)
    assert torch.equal(states[0], states[1]) and states[0].abs().sum() > 0
    assert not states[2].any()  # it is never asked
