"""Several teachers: at every step the one whose critic promises most says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_distill import FACTORY, STUDENT, assert_resumes
from tests.ver_trainer.test_finetuning import BOX
from tests.ver_trainer.test_runner import config
from ver_trainer import evaluate, load_policy, train
from ver_trainer.config import DistillConfig, NetConfig
from ver_trainer.envs.slot import probe
from ver_trainer.errors import ConfigError
from ver_trainer.export import save_policy
from ver_trainer.learner.committee import EVERY, MARGIN, Committee, speakers
from ver_trainer.learner.teacher import make_teacher
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import Policy, make_policy

ALONE = {**STUDENT, "net.critic_mlp": [], "net.separate_critic": False, "net.core": "none",
          "net.actor_obs": [], "ppo.epochs": 8}  # fmt: skip


def pushing(side: float) -> Policy:
    """Balances the pole and promises much of it (1), or pushes it over and says so (-1)."""
    policy = make_policy(probe(FACTORY), NetConfig(mlp=[]))
    with torch.no_grad():
        gain = side * torch.tensor([0.1, 1.0, 0.3, 0.6])
        policy.actor.linear.weight[:] = 10 * torch.stack([-gain, gain])
        policy.critic.weight.zero_()
        policy.critic.bias[:] = side
    return policy


def saved(folder: Path, *sides: float) -> list[str]:
    """Files of such policies."""
    paths = [str(folder / f"{k}.safetensors") for k in range(len(sides))]
    for path, side in zip(paths, sides, strict=True):
        save_policy(pushing(side), path)
    return paths


def test_the_one_that_promises_most_begins_and_is_taken_over_from_late_and_for_a_reason():
    steps = 3 * EVERY
    values = torch.zeros(2, steps)
    values[1, 0] = 1.0
    values[0, 1:] = 2 * MARGIN
    rows, last = speakers(values, torch.ones(steps, dtype=torch.int64), torch.zeros(1, 2))
    assert rows.tolist() == [1] * EVERY + [0] * (steps - EVERY)
    assert last.tolist() == [[1.0, 2 * EVERY]]
    values[0, 1:] = 0.9 * MARGIN
    rows, _ = speakers(values, torch.ones(steps, dtype=torch.int64), torch.zeros(1, 2))
    assert rows.tolist() == [1] * steps


def test_sequences_go_on_where_they_were_left():
    torch.manual_seed(0)
    values = torch.randn(3, 40)
    whole, last = speakers(values, torch.ones(40, dtype=torch.int64), torch.zeros(1, 2))
    first, state = speakers(values[:, :17], torch.ones(17, dtype=torch.int64), torch.zeros(1, 2))
    rest, end = speakers(values[:, 17:], torch.ones(23, dtype=torch.int64), state)
    assert torch.equal(whole, torch.cat((first, rest))) and torch.equal(last, end)
    assert len(set(whole.tolist())) > 1
    # Two sequences in one batch are the same as each alone.
    a, b = values[:, :20], values[:, 20:32]
    packed = torch.cat(
        [torch.stack((a[:, k], b[:, k]), 1) if k < 12 else a[:, k : k + 1] for k in range(20)], 1
    )
    sizes = torch.tensor([2] * 12 + [1] * 8)
    both, _ = speakers(packed, sizes, torch.zeros(2, 2))
    alone, _ = speakers(a, torch.ones(20, dtype=torch.int64), torch.zeros(1, 2))
    other, _ = speakers(b, torch.ones(12, dtype=torch.int64), torch.zeros(1, 2))
    assert torch.equal(both[:24:2], alone[:12]) and torch.equal(both[24:], alone[12:])
    assert torch.equal(both[1:24:2], other)


def test_its_rows_are_those_of_who_speaks():
    good, bad = pushing(1.0), pushing(-1.0)
    obs = {k: torch.randn(5, *v.shape) for k, v in good.spec.observations.items()}
    packing = Packing(torch.tensor([3, 2]), torch.zeros(3, 2))
    distribution, last = Committee([bad, good]).actor_pass(obs, packing)
    wanted, _ = good.actor_pass(obs, Packing(torch.tensor([3, 2]), torch.zeros(3, 0)))
    assert torch.allclose(distribution.flat(), wanted.flat())
    assert last.tolist() == [[2.0, 2.0], [2.0, 2.0], [2.0, 1.0]]


def test_a_student_follows_the_one_that_promises_most(tmp_path: Path):
    paths = saved(tmp_path, -1.0, 1.0)
    values = {**ALONE, "distill.teacher": paths[0], "distill.others": paths[1:],
              "total_steps": 12_000}  # fmt: skip
    assert train(config(tmp_path / "run", **values), make).finished
    reached = evaluate(load_policy(tmp_path / "run"), FACTORY, 8, workers=False).summary()
    alone = evaluate(load_policy(paths[0]), FACTORY, 8, workers=False).summary()
    assert reached["return"] > 300 > 30 > alone["return"]


def test_learning_from_several_resumes_bit_for_bit(tmp_path: Path):
    paths = saved(tmp_path, -1.0, 1.0)
    values = {**ALONE, "distill.teacher": paths[0], "distill.others": paths[1:]}
    assert_resumes(tmp_path, values)


def test_teachers_with_a_memory_are_refused():
    remembers = make_policy(probe(FACTORY), NetConfig(mlp=[], core="lstm", core_size=4))
    with pytest.raises(ConfigError, match="without memory"):
        Committee([pushing(1.0), remembers])


def test_others_need_somebody_first(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"distill\.teacher=PATH"):
        config(tmp_path, **{"distill.others": ["a"]})


def test_whose_observation_is_missing_is_said_of_all(tmp_path: Path):
    paths = saved(tmp_path, 1.0, 1.0)
    student = make_policy(BOX, NetConfig(mlp=[]))
    choice = DistillConfig(teacher=paths[0], others=paths[1:])
    with pytest.raises(ConfigError, match=r"one of distill\.teacher and distill\.others="):
        make_teacher(student, choice, 2, torch.device("cpu"))


def test_a_reward_in_another_unit_changes_no_hands():
    """Ten times the reward is ten times the deviation of returns, and the same who speaks."""
    torch.manual_seed(0)
    obs = {k: torch.randn(40, *v.shape) for k, v in BOX.observations.items()}
    packing = Packing(torch.ones(40, dtype=torch.int64), torch.zeros(1, 2))
    members = [make_policy(BOX, NetConfig(mlp=[8], normalize_returns=True)) for _ in range(3)]
    for member in members:
        torch.nn.init.normal_(member.critic.weight, std=0.3)
    found = []
    for scale in (0.2, 2.0):
        for member in members:
            assert member.critic_returns is not None
            member.critic_returns.var.fill_(scale**2)
        distribution, _ = Committee(members).actor_pass(obs, packing)
        found.append(distribution.flat())
    assert torch.equal(*found)
