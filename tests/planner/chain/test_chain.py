"""Planner, executors and scripted skills together on the real engine."""

import numpy as np
import pytest

from planner.chain.predicates import HabTask
from planner.chain.tpsrl import TpsrlAgent
from skills.book import make_skill
from tpsrl.episodes.shipped import load_shipped
from tpsrl.sim.mujoco.engine import MujocoSimulator


@pytest.fixture(scope="module")
def sim():
    with MujocoSimulator(depth=None) as simulator:
        yield simulator


def run(sim, episode, executor, disturb=None, limit=1500):
    """Return success, stages ever reached and the report of one episode."""
    sim.reset([episode], [1])
    agent, task, ever = TpsrlAgent(make_skill, executor), HabTask(), {}
    agent.reset(sim, 0, episode, seed=1)
    for _ in range(limit):
        action = agent.act(sim, 0)
        if action is None:
            break
        sim.step(action[None])
        if disturb:
            disturb(sim, agent.report())
        for name, reached in task.stages(sim, 0).items():
            ever[name] = ever.get(name, False) or reached
    return task.success(sim, 0), ever, agent.report()


@pytest.mark.parametrize("executor", ["hab", "replan"])
def test_nav_pick_nav_place(sim, executor):
    results = [run(sim, e, executor) for e in load_shipped("rearrange_easy").episodes[2:5]]
    assert sum(success for success, _, _ in results) >= 2
    for success, ever, report in results:
        if success:
            assert ever == {"stage_0_5": True, "stage_1": True}
            assert all(r.outcome == "success" for r in report.skills if r.skill == "place")
            assert report.cursor == len(report.plan) == 4


def test_an_object_taken_out_of_the_hand_is_fetched_again(sim):
    """Carrying begins, then the object is back where it was: only planning again can help."""
    solved = 0
    for episode in load_shipped("rearrange_easy").episodes[2:6]:
        robbed = []

        def rob(sim, report, robbed=robbed, episode=episode):
            carrying = report.skills[-1].action.startswith("nav(TARGET")
            if carrying and report.skills[-1].steps == 5 and not robbed:
                index = episode.targets[0].object_index
                home = episode.objects[index]
                sim.release()
                sim.set_object(index, np.asarray(home.pos), np.asarray(home.quat))
                robbed.append(True)

        success, _, report = run(sim, episode, "replan", rob)
        if robbed:
            assert "dropped" in [r.cause for r in report.skills]
            assert report.replans >= 1
        solved += bool(robbed) and success
        if solved == 2:
            return
    pytest.fail("fewer than two episodes recovered")
