"""Grip and stop are drawn where a policy stands still, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eval.trials import PolicyAgent
from skills.envs.single import SkillEnv
from skills.learned.cards import Card
from skills.learned.inference import NumpyPolicy
from skills.learned.restless import LASTS, WINDOW
from skills.learned.skill import LearnedSkill
from tests.skills.learned.test_inference import ACTION, VECTOR
from tests.skills.nets import STATE
from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.export import save_policy
from ver_trainer.nets.policy import make_policy

MOVES = 30


@pytest.fixture(scope="module")
def env():
    made = SkillEnv("place", **STATE, sensors=("joint",))
    yield made
    made.close()


def test_choices_alone_are_drawn_and_as_often_as_the_policy_would(tmp_path):
    torch.manual_seed(0)
    net = NetConfig(mlp=[16], initial_std=0.5, binary_actions=[-1], binary_initial=[0.3])
    save_policy(make_policy(EnvSpec(VECTOR, ACTION), net).eval(), tmp_path / "p.safetensors")
    policy, rng = NumpyPolicy.load(tmp_path / "p.safetensors"), np.random.default_rng(0)
    seen = {k: rng.random(s.shape, np.float32) for k, s in VECTOR.items()}
    mean = policy.step(seen)
    drawn = np.array([policy.step(seen, rng, motions=False) for _ in range(3000)])
    np.testing.assert_array_equal(drawn[:, :-1], np.tile(mean[:-1], (3000, 1)))
    assert np.mean(drawn[:, -1] > 0) == pytest.approx(np.mean(_all(policy, seen, rng)), abs=0.04)
    assert 0.1 < np.mean(drawn[:, -1] > 0) < 0.6


def _all(policy, seen, rng):
    return np.array([policy.step(seen, rng)[-1] for _ in range(3000)]) > 0


class Driver:
    """A policy that drives, then stands still, and notes in which steps its choices are drawn."""

    def __init__(self, size: int) -> None:
        self.observations, self.size = {"joint": (7,)}, size
        self.reset()

    def reset(self) -> None:
        self.drawn: list[bool] = []
        self.told: list[np.ndarray] = []

    def did(self, action):
        self.told.append(action)

    def step(self, seen, rng=None, motions=True):
        assert not motions
        self.drawn.append(rng is not None)
        action = np.zeros(self.size, np.float32)
        action[-2:] = (0.0, 0.5) if len(self.drawn) <= MOVES else (0.0, 0.0)  # it turns
        action[7] = 1.0
        return action


def test_a_chain_and_a_trial_draw_them_in_the_same_steps(env):
    env.reset(seed=3)
    snapshot, call = env.sim.capture(0), env.worlds.origins[0].call
    policy = Driver(env.action_space.shape[0])
    agent = PolicyAgent(env, policy)
    agent.reset(7)
    actions = []
    for _ in range(MOVES + 40):
        actions.append(agent.act())
        env.step(actions[-1])
    alone = policy.drawn
    begun = alone.index(True)
    assert MOVES + WINDOW - 3 < begun <= MOVES + WINDOW and all(alone[begun : begun + LASTS])
    assert not all(alone[begun:]) and len(policy.told) == sum(alone), "where it is stirred"

    env.sim.restore(snapshot, 0)
    learned = LearnedSkill(Card("place", None), policy)
    learned.reset(env.sim, 0, call, 7)
    for action in actions:
        np.testing.assert_allclose(learned.act(env.sim, 0)[:10], _robot(action), atol=1e-6)
        env.sim.step(_robot(action)[None])
    assert policy.drawn == alone


def _robot(action):
    return np.asarray(action, np.float64)[:10]


def test_who_looks_at_all_of_a_policys_noise_draws_everything():
    asked = []
    policy = SimpleNamespace(reset=lambda: None, step=lambda *words: asked.append(words))
    layout = SimpleNamespace(moving=np.ones(10, dtype=bool))
    task = SimpleNamespace(worlds=SimpleNamespace(task=SimpleNamespace(layout=layout)))
    agent = PolicyAgent(task, policy, sample=True)
    agent.reset(0)
    agent.act()
    assert len(asked[0]) == 2 and isinstance(asked[0][1], np.random.Generator)
