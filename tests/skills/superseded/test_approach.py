"""The teacher of Navigate."""

from __future__ import annotations

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.superseded.laws.approach import Approach
from skills.superseded.laws.teachers import make_teacher


@pytest.fixture(scope="module")
def env():
    env = SkillEnv("navigate", depth=None, split="val")
    yield env
    env.close()


def _teacher(env: SkillEnv) -> Approach:
    teacher = make_teacher("navigate")
    assert isinstance(teacher, Approach)
    call = env.worlds.origins[0].call
    assert call is not None
    teacher.reset(env.sim, 0, call, 0)
    return teacher


def _step(env: SkillEnv, teacher: Approach) -> tuple[bool, dict]:
    robot = teacher.act(env.sim, 0)
    stop = np.array([teacher.status(env.sim, 0).done])
    flat = env.worlds.task.flat_action(robot[None], stop)[0]
    _, _, terminated, truncated, info = env.step(flat)
    return terminated or truncated, info


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_ends_a_metre_from_the_target_and_faces_it(env, seed):
    env.reset(seed=seed)
    teacher, over = _teacher(env), False
    while not over:
        over, info = _step(env, teacher)
    assert info["success"], info
    assert info["distance"] < 1.2 and info["angle"] < np.radians(6.0)


def test_its_actions_follow_from_the_present_state_alone(env):
    env.reset(seed=4)
    teacher = _teacher(env)
    rng = np.random.default_rng(0)
    for _ in range(8):
        for _ in range(5):
            env.step(np.append(rng.uniform(-1.0, 1.0, 2), -1.0))
        env.sim.step(teacher.act(env.sim, 0)[None])
        again = _teacher(env)
        np.testing.assert_allclose(teacher.act(env.sim, 0), again.act(env.sim, 0), atol=1e-9)
