"""Predicates, grounding and the benchmark's success on a world without physics."""

import numpy as np
import pytest

from planner import Atom, find_plan
from planner.chain.grounding import rename
from planner.chain.predicates import HabTask, SymbolicWorld, present_problem
from planner.chain.problems import hab_problem, scenarios
from tests.planner.chain.toy import (
    DRAWER,
    FRIDGE,
    ToySim,
    groceries,
    make_episode,
    set_table,
    tidy_house,
)
from tpsrl.errors import UserError

A = Atom.parse
BOWL, FRUIT = "bowl_target|0", "fruit_target|1"


@pytest.mark.parametrize(
    ("text", "change", "below", "above"),
    [
        ("opened_cab(cab_push_point_5)", "joint0", 0.349, 0.351),
        ("opened_fridge(fridge_push_point)", "joint1", 1.069, 1.071),
        ("closed_cab(cab_push_point_5)", "joint0", 0.151, 0.149),
        ("closed_fridge(fridge_push_point)", "joint1", 0.151, -0.149),
        (f"robot_at({BOWL})", "base", 2.01, 1.99),
        (f"object_at({BOWL}, TARGET_{BOWL})", "object", 0.301, 0.299),
    ],
)
def test_tolerances(text, change, below, above):
    sim = ToySim(set_table())
    world = SymbolicWorld(sim, 0)
    for value, wanted in ((below, False), (above, True)):
        if change == "base":
            sim.base[:] = [*(sim.objects[0, :2] + [0, value]), 0.0]
        elif change == "object":
            sim.objects[0] = sim.episode().targets[0].goal_pos + [0, 0, value]
        else:
            sim.joints[int(change[-1])] = value
        assert world.holds(A(text)) is wanted


def test_contents_move_with_the_drawer_and_not_with_the_door():
    sim = ToySim(set_table())
    world = SymbolicWorld(sim, 0)
    for opened in (0.0, 0.45):
        sim.move_joint(DRAWER, opened)
        sim.move_joint(FRIDGE, 3 * opened)
        assert world.container(BOWL) == "cab_push_point_5"
        assert world.container(FRUIT) == "fridge_push_point"
    sim.objects[1] = [0, 0, 0.8]
    assert world.holds(A(f"outside({FRUIT})"))
    sim.objects[0] = np.nan
    assert world.container(BOWL) is None


def test_what_is_held_is_in_nothing():
    sim = ToySim(set_table())
    world = SymbolicWorld(sim, 0)
    assert world.holds(A("not_holding()"))
    sim.held = 0
    assert world.holds(A(f"holding({BOWL})"))
    assert not world.holds(A("not_holding()"))
    assert not world.holds(A(f"holding({FRUIT})"))
    assert world.container(BOWL) is None
    assert world.held_target() == 0
    sim.held, sim.handle = -1, 1
    assert not world.holds(A("not_holding()"))


@pytest.mark.parametrize(("make", "length"), [(set_table, 11), (tidy_house, 20), (groceries, 12)])
def test_the_present_at_reset_gives_the_benchmarks_plan(make, length):
    episode = make()
    base = hab_problem(episode.scenario)
    problem = present_problem(rename(base, episode), SymbolicWorld(ToySim(episode), 0))
    plan, own = find_plan(problem), find_plan(base)
    assert plan.text() == own.text()
    assert len(plan) == length


def test_a_container_that_stands_ajar_is_opened():
    sim = ToySim(set_table())
    sim.joints[:] = [0.2, 0.8]
    world = SymbolicWorld(sim, 0)
    assert not world.holds(A("closed_cab(cab_push_point_5)"))
    assert A("closed_cab(cab_push_point_5)") in world.state()
    assert A("closed_fridge(fridge_push_point)") in world.state()


def test_a_goal_in_a_drawer_is_known_by_its_receptacle():
    episode = make_episode(
        "rearrange_easy",
        [[0, 0, 1]],
        [[5.6, 0, 0.8]],
        ["any_targets|0"],
        {DRAWER: 0.5},
        ["drawer_right_top"],
    )
    world = SymbolicWorld(ToySim(episode), 0)
    assert world.container("TARGET_any_targets|0") == "cab_push_point_5"


def test_labels_of_the_episode_become_entities():
    episode = make_episode("rearrange_easy", [[0, 0, 1]], [[9, 9, 1]], ["obj0_target|0"])
    plan = find_plan(rename(hab_problem("rearrange_easy"), episode))
    assert plan.text()[1] == "pick(obj0_target|0)"


def test_stages_and_success_follow_the_benchmarks_order():
    sim, task = ToySim(set_table()), HabTask()
    assert list(task.stages(sim, 0)) == ["stage_0_5", "stage_1", "stage_1_5", "stage_2"]
    sim.held = 0
    assert list(task.stages(sim, 0).values()) == [True, False, False, False]
    sim.objects[0] = sim.episode().targets[0].goal_pos
    assert list(task.stages(sim, 0).values()) == [True, False, False, False]  # still held
    sim.held = -1
    assert list(task.stages(sim, 0).values()) == [False, True, False, False]
    sim.held = 1
    assert list(task.stages(sim, 0).values()) == [False, False, True, False]
    sim.objects[1] = sim.episode().targets[1].goal_pos
    assert not task.success(sim, 0)
    sim.held = -1
    assert list(task.stages(sim, 0).values()) == [False, True, False, True]
    assert task.success(sim, 0)


def test_nav_pick_nav_place_has_two_stages():
    episode = make_episode("rearrange_easy", [[0, 0, 1]], [[9, 9, 1]], ["any_targets|0"])
    assert list(HabTask("rearrange_easy").stages(ToySim(episode), 0)) == ["stage_0_5", "stage_1"]


def test_bad_input_is_one_sentence():
    sim = ToySim(set_table())
    with pytest.raises(UserError, match=r"unknown scenario 'set_tabel', .*; did you mean 'set_t"):
        hab_problem("set_tabel")
    with pytest.raises(UserError, match=r"in_drawer.yaml has no 'goals', so there is nothing"):
        hab_problem("in_drawer")
    with pytest.raises(UserError, match="episode 7 has 2 targets, but tidy_house is about 5"):
        HabTask("tidy_house").success(sim, 0)
    with pytest.raises(UserError, match="unknown entity 'bowl'"):
        SymbolicWorld(sim, 0).holds(A("holding(bowl)"))
    with pytest.raises(UserError, match="predicate 'holdin' cannot be evaluated; did you mean"):
        SymbolicWorld(sim, 0).holds(A("holdin(x)"))
    assert scenarios() == ["prepare_groceries", "rearrange_easy", "set_table", "tidy_house"]
