"""Grounding and predicates on the real engine and the shipped episodes."""

import numpy as np
import pytest

from planner import Atom, find_plan
from planner.chain.calls import MOTION_STEPS
from planner.chain.grounding import rename
from planner.chain.motions import Spin
from planner.chain.predicates import HabTask, SymbolicWorld, present_problem
from planner.chain.problems import hab_problem
from skills.interface import SkillCall
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


def test_a_spin_turns_the_robot_and_keeps_what_it_holds(sim):
    episode, ends = load_shipped("tidy_house").episodes[0], set()
    for seed in range(3):
        sim.reset([episode], [0])
        sim.snap_object(episode.targets[0].object_index)
        before, spin = np.array(sim.state().base_pose[0]), Spin()
        spin.reset(sim, 0, SkillCall("wait"), seed)
        steps = 0
        while not spin.status(sim, 0).done:
            sim.step(spin.act(sim, 0)[None])
            steps += 1
        after = np.array(sim.state().base_pose[0])
        assert steps <= spin.MOST <= MOTION_STEPS
        turned = abs((after[2] - before[2] + np.pi) % (2 * np.pi) - np.pi)
        assert turned > 0.5  # furniture may be in the way
        assert int(sim.state().held_object[0]) == episode.targets[0].object_index
        ends.add(round(float(after[2]), 2))
    assert len(ends) == 3  # another one by another seed


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
