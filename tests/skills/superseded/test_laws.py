"""The teachers of Open and Close, their inputs, and stops that need not end training episodes."""

from __future__ import annotations

import numpy as np
import pytest

from eval.trials import play_episode
from skills.envs.agents import SkillAgent
from skills.envs.single import SkillEnv
from skills.motion.view import look
from skills.superseded.laws.laws import LAWS
from skills.tasks.places import link_pose
from tpsrl.geometry.rotations import to_base, unit


@pytest.mark.parametrize("skill", sorted(LAWS))
def test_a_teacher_succeeds_within_the_horizon(skill: str) -> None:
    env = SkillEnv(skill, depth=None, split="val")
    agent = SkillAgent(env, lambda name: LAWS[name]())
    wins = 0
    for seed in range(3):
        wins += play_episode(env, agent, seed)["success"]
    env.close()
    assert wins >= 1


def test_the_handle_is_seen_from_the_base() -> None:
    env = SkillEnv(
        "close_fridge", depth=None, split="val", sensors=("marker_pose", "marker_start_pose")
    )
    seen, _ = env.reset(seed=1)
    assert env.worlds.view is not None
    view, joint = look(env.sim, 0), int(env.worlds.view.goal.joint[0])
    handle = np.asarray(env.worlds.view.marker_pos)[0]
    np.testing.assert_allclose(seen["marker_pose"][:3], to_base(view.base, handle), atol=1e-5)
    np.testing.assert_allclose(seen["marker_start_pose"], seen["marker_pose"][:3], atol=1e-5)
    front = link_pose(env.sim, 0, joint)[1][:2, 0]
    ahead, left = front @ unit(view.base[2]), front @ unit(view.base[2] + np.pi / 2)
    np.testing.assert_allclose(seen["marker_pose"][3:], [ahead, left], atol=1e-5)
    env.close()


def test_a_failing_stop_may_cost_instead_of_ending() -> None:
    stop = np.zeros(11, np.float32)
    stop[-1] = 1.0
    rewards = {}
    for name, options in {
        "contract": {},
        "training": {"failed_stop_ends": False, "failed_stop_penalty": 0.25},
    }.items():
        env = SkillEnv("open_cab", depth=None, split="val", options=options)
        env.reset(seed=0)
        _, rewards[name], terminated, truncated, info = env.step(stop)
        assert terminated == (name == "contract")
        assert not truncated
        assert info["cause"] == ("stop" if terminated else "")
        env.close()
    assert rewards["training"] == pytest.approx(rewards["contract"] - 0.25)
