"""Grounding and predicates on the real engine and the shipped episodes."""

import numpy as np
import pytest

from planner import Atom, find_plan
from planner.chain.grounding import rename
from planner.chain.predicates import HabTask, SymbolicWorld, present_problem
from planner.chain.problems import hab_problem
from tpsrl.episodes.shipped import load_shipped
from tpsrl.sim.mujoco.engine import MujocoSimulator

A = Atom.parse


@pytest.fixture(scope="module")
def sim():
    with MujocoSimulator(depth=None) as simulator:
        yield simulator


@pytest.mark.parametrize(
    ("scenario", "length"),
    [("tidy_house", 20), ("prepare_groceries", 12), ("set_table", 11), ("rearrange_easy", 4)],
)
def test_shipped_episodes_have_the_benchmarks_plans(sim, scenario, length):
    for episode in load_shipped(scenario).episodes[:20]:
        sim.reset([episode], [0])
        problem = rename(hab_problem(scenario), episode)
        plan = find_plan(present_problem(problem, SymbolicWorld(sim, 0)))
        assert plan.text() == find_plan(problem).text(), episode.episode_id
        assert len(plan) == length
        assert not any(HabTask(scenario).stages(sim, 0).values())


def test_contents_are_known_from_the_state(sim):
    for episode in load_shipped("set_table").episodes[:5]:
        sim.reset([episode], [0])
        world = SymbolicWorld(sim, 0)
        bowl, fruit = (t.label for t in episode.targets)
        assert world.container(bowl) == "cab_push_point_5"
        assert world.container(fruit) == "fridge_push_point"
        sim.set_joint("kitchen_counter/drawer3", 0.45)
        sim.set_joint("fridge/top_door", 1.5)
        assert world.container(bowl) == "cab_push_point_5"
        assert world.container(fruit) == "fridge_push_point"
        assert world.holds(A("opened_cab(cab_push_point_5)"))
        assert world.holds(A("closed_cab(cab_push_point_6)"))
        assert world.holds(A("opened_fridge(fridge_push_point)"))
        length = len(find_plan(present_problem(rename(hab_problem("set_table"), episode), world)))
        assert length == 8


def test_teleported_targets_succeed(sim):
    episode = load_shipped("tidy_house").episodes[0]
    sim.reset([episode], [0])
    task, last = HabTask(), episode.targets[-1]
    for target in episode.targets:
        assert not task.success(sim, 0)
        sim.set_object(target.object_index, np.asarray(target.goal_pos), np.array([1.0, 0, 0, 0]))
    assert task.success(sim, 0)
    assert task.stages(sim, 0)["stage_5"]
    sim.snap_object(last.object_index)
    assert not task.success(sim, 0)
    assert SymbolicWorld(sim, 0).held_target() == 4
