"""The agents of the comparison with the weights that ship."""

import numpy as np
import pytest

from planner.chain.catalog import policies_of
from planner.chain.make import make_agent
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError
from tpsrl.sim.door import ACTION_BASE
from tpsrl.sim.mujoco.engine import MujocoSimulator


def test_the_restricted_agent_needs_what_its_scenario_needs():
    found = policies_of("tpsrl-restricted", "tidy_house")
    assert sorted(found) == ["navigate", "pick", "place"]
    assert found["pick"].card.actions == found["place"].card.actions == "restricted"
    with pytest.raises(UserError, match=r"no weights of open_cab, open_fridge .*tpsrl train"):
        policies_of("tpsrl-restricted", "set_table")


def _moved(sim, episode):
    """How far the base goes in each skill of the restricted agent's first 600 steps, m.

    Pick never tells it to.
    """
    agent = make_agent("tpsrl-restricted", "hab", "rearrange_easy")
    moved: dict[str, float] = {}
    sim.reset([episode], [1])
    agent.reset(sim, 0, episode, seed=1)
    for _ in range(600):
        before = np.array(sim.state().base_pose[0])
        action = agent.act(sim, 0)
        ran = agent.report().skills[-1].skill
        if action is None or (ran == "navigate" and "pick" in moved):
            break
        assert ran != "pick" or not action[ACTION_BASE].any()
        sim.step(action[None])
        step = float(np.abs(np.array(sim.state().base_pose[0]) - before).max())
        moved[ran] = moved.get(ran, 0.0) + step
    return moved


def test_the_base_stands_still_while_it_picks():
    with MujocoSimulator(depth=64) as sim:
        # A learned Navigate does not arrive in every episode.
        runs = (_moved(sim, episode) for episode in load_shipped("rearrange_easy").episodes[:6])
        moved = next((run for run in runs if "pick" in run), None)
    assert moved is not None, "no Pick was begun in six episodes"
    assert moved["navigate"] > 0.1
    assert moved["pick"] < 0.02  # it gives a little where the arm presses


def test_the_monolithic_agent_acts():
    assert list(policies_of("monolithic", "set_table")) == ["rearrange_easy"]
    agent = make_agent("monolithic", scenario="tidy_house")
    episode = load_shipped("tidy_house").episodes[0]
    with MujocoSimulator(depth=64) as sim:
        sim.reset([episode], [1])
        agent.reset(sim, 0, episode, seed=1)
        start = np.array(sim.state().base_pose[0])
        for _ in range(60):
            action = agent.act(sim, 0)
            assert action is not None
            sim.step(action[None])
        assert np.abs(np.array(sim.state().base_pose[0]) - start).max() > 0.05


def test_the_teacher_opens_the_drawer_by_what_the_simulator_knows():
    assert {"open_cab", "open_fridge", "pick"} <= set(policies_of("teacher", "set_table"))
    agent = make_agent("teacher", "hab", "set_table")
    episode = load_shipped("set_table").episodes[0]
    # Navigate's teacher keeps a student's map beside the state: the picture is for that.
    with MujocoSimulator(depth=64) as sim:
        sim.reset([episode], [1])
        agent.reset(sim, 0, episode, seed=1)
        drawer = sim.joint_names.index("kitchen_counter/drawer3")
        for _ in range(500):
            action = agent.act(sim, 0)
            ran = [record.skill for record in agent.report().skills]
            if action is None or ran[-2:-1] == ["open_cab"]:
                break
            sim.step(action[None])
        assert "open_cab" in ran[:-1]
        assert sim.state().joint_pos[0, drawer] > 0.35
