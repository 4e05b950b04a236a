"""The executor replan on a world without physics: recovery, bounds."""

from dataclasses import replace

import numpy as np
import pytest

from planner import load_problem
from planner.chain.calls import TpsrlOptions
from planner.chain.problems import hab_domain
from tests.planner.chain.toy import (
    DRAWER,
    FRIDGE,
    groceries,
    make_episode,
    names,
    once,
    run,
    set_table,
    solved,
    tidy_house,
)


@pytest.mark.parametrize("episode", [tidy_house(), set_table(), groceries()])
def test_replan_without_faults_plans_once(episode):
    sim, report, _ = run(episode, "replan")
    assert solved(sim)
    assert report.replans == 0
    assert report.cursor == len(report.plan)
    assert report.extra["given_up"] == []


@pytest.mark.parametrize("ending", ["miss", "fail", "hang"])
@pytest.mark.parametrize("skill", ["navigate", "pick", "place", "open_cab", "open_fridge"])
def test_replan_recovers_from_one_failure_of_any_skill(skill, ending):
    target = 1 if skill == "open_fridge" else 0
    sim, report, _ = run(set_table(), "replan", once(skill, target, ending))
    assert solved(sim)
    failed = [r for r in report.skills if r.outcome in ("failure", "timeout")]
    assert [r.skill for r in failed][:1] == [skill]
    assert failed[0].outcome == ("timeout" if ending == "hang" else "failure")
    assert failed[0].cause
    assert report.replans >= 1


def actions_with_detours(fate):
    sim, report, _ = run(tidy_house(), "replan", fate, options=TpsrlOptions(detour=True))
    assert solved(sim)
    return [r.action for r in report.skills if r.skill != "reset_arm"]


def test_replan_comes_back_from_another_side_after_a_failure():
    actions = actions_with_detours(once("pick", 1, "miss"))
    failed = actions.index("pick(any_targets|1)")
    # The nearest object or goal that is out of reach: the robot stands 2 m from the next object.
    away, back, again = actions[failed + 1 : failed + 4]
    assert away == "nav(any_targets|3) first"
    assert (back, again) == ("nav(any_targets|1)", "pick(any_targets|1)")
    assert len([a for a in actions if a.endswith("first")]) == 1


def test_replan_drives_elsewhere_with_an_object_in_the_hand():
    actions = actions_with_detours(once("place", 0, "miss"))
    failed = actions.index("place(any_targets|0, TARGET_any_targets|0)")
    away = actions[failed + 1]
    assert away.startswith("nav(")
    assert away.endswith("first")
    assert away != "nav(TARGET_any_targets|0) first"


def test_replan_turns_by_chance_when_a_navigation_runs_out_of_time():
    actions = actions_with_detours(once("navigate", 1, "hang"))
    stuck = actions.index("nav(any_targets|1)")
    assert actions[stuck + 1] == "spin()"
    assert "spin()" not in actions_with_detours(once("pick", 1, "hang"))
    sim, report, _ = run(tidy_house(), "replan", once("navigate", 1, "hang"))
    assert solved(sim)
    assert "spin" not in names(report)


def replanned_after_a_drop(drop):
    """Return the report of a run in which ``drop`` happens on the first way to a goal."""

    def fate(name, call, uses):
        carrying = name == "navigate" and call.place == "goal" and call.target == 0
        return drop if carrying and uses == 0 else "ok"

    sim, report, _ = run(tidy_house(), "replan", fate)
    assert solved(sim)
    assert [r.cause for r in report.skills if r.outcome == "failure"] == ["dropped"]
    return report


def test_replan_picks_up_what_was_dropped_on_the_way():
    def drop(sim):
        sim.held = -1
        sim.objects[0] = [3.0, 15.0, 0.0]

    report = replanned_after_a_drop(drop)
    pick = [r.action for r in report.skills if r.skill == "pick"]
    assert pick[:2] == ["pick(any_targets|0)"] * 2


def test_a_drop_within_reach_of_the_goal_is_a_drop():
    """The robot is within 2 m of the goal, so the navigation's own effect holds."""

    def drop(sim):
        sim.base[:2] = sim.episode().targets[0].goal_pos[:2]
        sim.held = -1
        sim.objects[0] = [3.0, 15.0, 0.0]

    replanned_after_a_drop(drop)


def shut_while_holding(target):
    """Return what shuts the fridge once, as soon as a target is in the hand."""
    fell = []

    def shut(sim):
        if sim.held == target and not fell:
            fell.append(True)
            sim.move_joint(FRIDGE, 0.0)

    return shut


def test_replan_opens_a_fridge_that_fell_shut():
    sim, report, _ = run(groceries(), "replan", each_step=shut_while_holding(0))
    assert solved(sim)
    assert names(report).count("open_fridge") == 1
    assert report.replans >= 1


def test_replan_puts_an_object_back_to_open_its_closed_goal():
    sim, report, _ = run(groceries(), "replan", each_step=shut_while_holding(2))
    assert solved(sim)
    actions = [r.action for r in report.skills]
    assert "place(obj2_target|2, START_obj2_target|2)" in actions
    assert names(report).count("open_fridge") == 1


def test_replan_releases_a_wrong_object_before_the_arm_moves():
    tidy = tidy_house()
    clutter = replace(tidy.objects[0], instance="024_bowl_:0005", pos=np.array([0, 10.2, 0.8]))
    episode = replace(tidy, objects=(*tidy.objects, clutter))
    sim, report, _ = run(episode, "replan", once("pick", 0, lambda sim: sim.grasp(5)))
    assert solved(sim)
    assert [r.cause for r in report.skills if r.outcome == "failure"] == ["wrong object"]
    assert names(report)[2:5] == ["release", "reset_arm", "navigate"]


def test_replan_delivers_another_target_that_it_grasped_instead():
    sim, report, _ = run(tidy_house(), "replan", once("pick", 0, lambda sim: sim.grasp(4)))
    assert solved(sim)
    assert report.skills[1].cause == "wrong object"
    actions = [r.action for r in report.skills if r.skill != "reset_arm"]
    assert actions[2:4] == [
        "nav(TARGET_any_targets|4)",
        "place(any_targets|4, TARGET_any_targets|4)",
    ]


def test_replan_releases_a_handle_that_stuck():
    def stuck(sim):
        sim.move_joint(DRAWER, 0.45)
        sim.handle = 0

    sim, report, _ = run(set_table(), "replan", once("open_cab", 0, stuck))
    assert solved(sim)
    assert "release" in names(report)


def test_replan_repairs_what_was_disturbed_at_the_end():
    moved = []

    def disturb(sim):
        if not moved and np.allclose(sim.objects[4], sim.episode().targets[4].goal_pos):
            moved.append(True)
            sim.objects[1] = [40.0, 0, 0]

    sim, report, _ = run(tidy_house(), "replan", each_step=disturb)
    assert solved(sim)
    assert report.skills[-2].action == "reset_arm()"
    assert [r.action for r in report.skills if r.skill == "pick"][-1] == "pick(any_targets|1)"


def test_replan_rotates_to_other_targets_and_comes_back():
    def fate(name, call, uses):
        return "miss" if name == "pick" and call.target == 0 and uses < 3 else "ok"

    sim, report, _ = run(tidy_house(), "replan", fate)
    assert solved(sim)
    order = [r.action[-2] for r in report.skills if r.skill == "pick"]
    assert order == ["0", "0", "1", "2", "3", "4", "0", "0"]


def test_replan_gives_up_a_hopeless_target_and_solves_the_rest():
    sim, report, _ = run(
        tidy_house(), "replan", lambda n, c, u: "fail" if n == "pick" and c.target == 2 else "ok"
    )
    assert not solved(sim)
    assert report.extra["given_up"] == ["any_targets|2"]
    assert sum(r.action == "pick(any_targets|2)" for r in report.skills) == 8
    stages = [np.allclose(sim.objects[i], sim.episode().targets[i].goal_pos) for i in range(5)]
    assert stages == [True, True, False, True, True]


def test_replan_drops_what_cannot_be_placed():
    sim, report, _ = run(
        tidy_house(), "replan", lambda n, c, u: "miss" if n == "place" and c.target == 0 else "ok"
    )
    assert report.extra["given_up"] == ["any_targets|0"]
    assert "release" in names(report)
    assert sim.held == -1


def test_replan_always_stops():
    _, report, _ = run(set_table(), "replan", lambda *_: "fail", limit=20000)
    assert report.extra["given_up"] == ["bowl_target|0", "fruit_target|1"]


def to_shut(ajar):
    """The fridge stands ajar and should be shut."""
    described = {"name": "shut", "objects": {}, "init": ["not_holding()"], "stages": {}}
    goal = ["closed_fridge(fridge_push_point)", "not_holding()"]
    problem = load_problem({**described, "goal": goal}, hab_domain())
    episode = make_episode("shut", [], [], [], {FRIDGE: ajar})
    return episode, problem


@pytest.mark.parametrize("executor", ["hab", "replan"])
@pytest.mark.parametrize(
    ("ajar", "calls"), [(0.6, ["close_fridge"]), (1.5, ["close_fridge"]), (0.1, [])]
)
def test_what_stands_ajar_is_shut_where_that_is_the_goal(executor, ajar, calls):
    episode, problem = to_shut(ajar)
    sim, _, log = run(episode, executor, problem=lambda _: problem)
    closes = [call.skill for call, _ in log if call.skill.endswith("_fridge")]
    assert closes == calls and abs(sim.joints[1]) < 0.15


def test_a_door_that_was_left_ajar_is_tried_again():
    episode, problem = to_shut(1.5)

    def half(name, call, uses):
        return (
            (lambda sim: sim.move_joint(FRIDGE, 0.5))
            if uses < 2 and name == "close_fridge"
            else "ok"
        )

    sim, _, log = run(episode, "replan", half, problem=lambda _: problem)
    assert [call.skill for call, _ in log].count("close_fridge") == 3 and sim.joints[1] == 0.0


def test_replan_drives_to_the_fridge_in_which_the_object_belongs_not_to_the_object():
    options = TpsrlOptions(front_first=True)
    shut = shut_while_holding(2)
    sim, _, log = run(groceries(), "replan", each_step=shut, options=options)
    assert solved(sim)
    to_fridge = [c for c, _ in log if c.skill == "navigate" and c.joint and c.place != "front"]
    assert [(c.target, c.place, c.joint) for c in to_fridge] == [(2, "goal", FRIDGE)]
