"""The scripted skills run through every environment; flat actions lose nothing."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import skills.envs
from eval.trials import Trial, scripted_agent
from skills.book import BOOK, row_of
from skills.envs.agents import RandomAgent

SOLVED = ("navigate", "pick", "place", "open_cab", "close_cab", "open_fridge", "pointnav", "flee")


@pytest.mark.parametrize("skill", list(BOOK))
def test_scripted_agent(skill):
    options = dict(row_of(skill).needs)
    if skill == "explore":
        options["horizon"] = 300
    env = gymnasium.make(
        skills.envs.env_id(skill), depth=None, split="val", options=options
    ).unwrapped
    agent, won, returns = scripted_agent(env), 0, []
    for seed in range(3):
        _, info = env.reset(seed=seed)
        agent.reset(seed)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(agent.act())
            total, over = total + reward, terminated or truncated
        won += info["success"]
        returns.append(total)
        if won:
            break
    env.close()
    if skill in SOLVED:
        assert won, info
    if skill == "explore":
        assert info["cells"] >= 10


def test_random_agent_seldom_succeeds():
    env = gymnasium.make("tpsrl/OpenFridge-v0", depth=None, split="val").unwrapped
    agent = RandomAgent(env)
    for seed in range(3):
        assert not Trial(env, agent, seed).play()["success"]
    env.close()


@pytest.mark.parametrize("skill", list(BOOK))
def test_flat_action_inverts_robot_action(skill):
    from tests.skills.envs.states import goals, state, view

    task, rng = BOOK[skill].task, np.random.default_rng(0)
    sees = view(state(held_object=0), goals())
    action = rng.uniform(-1, 1, (1, task.layout.size))
    robot, stop = task.robot_action(sees, action)
    back = task.flat_action(robot, stop)
    if task.layout.stop:
        assert np.sign(back[0, -1]) == np.sign(action[0, -1])
        back, action = back[:, :-1], action[:, :-1]
    if task.layout.grip:  # the task may overrule the grip
        back, action = np.delete(back, 7, axis=1), np.delete(action, 7, axis=1)
    assert np.array_equal(back, action)
