"""Executor logic on a world without physics: orders, time limits, recovery, bounds."""

from dataclasses import replace

import numpy as np
import pytest

from planner.chain.calls import TpsrlOptions
from planner.chain.predicates import HabTask
from planner.chain.tpsrl import TpsrlAgent
from skills.interface import SkillStatus
from tests.planner.chain.toy import (
    DRAWER,
    FRIDGE,
    ToySim,
    ToySkill,
    groceries,
    set_table,
    tidy_house,
)
from tpsrl.errors import UserError


def run(episode, executor, fate=None, limit=5000, options=None, each_step=None):
    """Run an episode to the agent's stop; return simulator, report and skill log."""
    sim, log = ToySim(episode), []
    agent = TpsrlAgent(
        lambda name: ToySkill(name, fate or (lambda *_: "ok"), log), executor, options=options
    )
    agent.reset(sim, 0, episode, seed=3)
    for _ in range(limit):
        action = agent.act(sim, 0)
        if action is None:
            assert agent.act(sim, 0) is None  # and stays stopped
            return sim, agent.report(), log
        sim.step(action[None])
        if each_step:
            each_step(sim)
    raise AssertionError("the agent did not stop")


def once(skill, target, ending):
    return lambda name, call, uses: (
        ending if name == skill and call.target == target and uses == 0 else "ok"
    )


def names(report):
    return [r.skill for r in report.skills]


def solved(sim):
    return HabTask().success(sim, 0)


def test_hab_follows_the_benchmarks_order_with_arm_resets():
    sim, report, log = run(tidy_house(), "hab")
    cycle = ["navigate", "reset_arm", "pick", "reset_arm", "navigate", "reset_arm", "place"]
    expected = (cycle + ["reset_arm"]) * 4 + cycle + ["wait"]
    assert names(report) == expected
    assert solved(sim)
    assert report.cursor == len(report.plan) == 20
    assert all(r.outcome == "success" for r in report.skills)
    assert [c.place for c, _ in log if c.skill == "navigate"] == ["start", "goal"] * 5
    assert log[-1][0].steps == 30


def test_hab_drives_to_the_bowl_again_after_opening_the_drawer():
    sim, report, log = run(set_table(), "hab")
    actions = [r.action for r in report.skills if r.skill != "reset_arm"]
    assert actions[:4] == [
        "nav_to_receptacle(cab_push_point_5, bowl_target|0)",
        "open_cab(cab_push_point_5, bowl_target|0)",
        "nav(bowl_target|0)",
        "pick(bowl_target|0)",
    ]
    assert len(actions) == 13  # the plan's 11, the extra navigation, the wait
    first = log[0][0]
    assert (first.place, first.joint, first.target) == ("receptacle", DRAWER, 0)
    assert solved(sim)


def test_hab_without_the_extra_navigation_is_the_pure_plan():
    options = TpsrlOptions(navigate_after_open_cab=False, arm_rest=False, final_wait=0)
    _, report, _ = run(set_table(), "hab", options=options)
    assert [r.action for r in report.skills] == report.plan
    assert len(report.plan) == 11


@pytest.mark.parametrize("executor", ["hab", "replan"])
@pytest.mark.parametrize("ending", ["ok", "hang", "fail"])
def test_containers_are_driven_to_by_way_of_their_front(executor, ending):
    def fate(name, call, uses):
        return ending if call.place == "front" else "ok"

    sim, report, log = run(set_table(), executor, fate, options=TpsrlOptions(front_first=True))
    places = [(c.place, c.joint) for c, _ in log if c.skill == "navigate" and c.joint]
    ways = [(p, j) for j in (DRAWER, FRIDGE) for p in ("front", "receptacle")]
    assert places == [*ways, ("front", FRIDGE)]  # once more to what lies in the open fridge
    targets = [c.target for c, _ in log if c.place == "receptacle"]
    assert targets == [None, 1]  # the drawer's handle, the object in the fridge
    actions = [r.action for r in report.skills if r.skill == "navigate"]
    assert actions == [
        "nav(front of cab_push_point_5)",
        "nav_to_receptacle(cab_push_point_5, bowl_target|0)",
        "nav(bowl_target|0)",
        "nav(TARGET_bowl_target|0)",
        "nav(front of fridge_push_point)",
        "nav_to_receptacle(fridge_push_point, fruit_target|1)",
        "nav(front of fridge_push_point)",
        "nav(fruit_target|1)",
        "nav(TARGET_fruit_target|1)",
    ]
    assert solved(sim)  # however the first leg ended
    assert report.replans == 0


@pytest.mark.parametrize("executor", ["hab", "replan"])
def test_what_lies_in_the_open_fridge_is_driven_to_by_way_of_its_front(executor):
    options = TpsrlOptions(front_first=True)
    sim, report, _ = run(groceries(), executor, options=options)
    actions = [r.action for r in report.skills if r.skill == "navigate"]
    front = "nav(front of fridge_push_point)"
    assert actions == [
        front,
        "nav(obj0_target|0)",
        "nav(TARGET_obj0_target|0)",
        front,
        "nav(obj1_target|1)",
        "nav(TARGET_obj1_target|1)",
        "nav(obj2_target|2)",
        front,
        "nav(TARGET_obj2_target|2)",
    ]
    assert solved(sim)


@pytest.mark.parametrize(("skill", "steps"), [("pick", 200), ("navigate", 300)])
def test_hab_ends_the_episode_when_a_skill_times_out(skill, steps):
    _, report, _ = run(tidy_house(), "hab", once(skill, 0, "hang"))
    last = report.skills[-1]
    assert (last.skill, last.steps, last.outcome) == (skill, steps, "timeout")


def test_hab_ends_even_if_the_effects_hold_when_time_is_up():
    def grasp_and_go_on(sim):
        sim.grasp(0)

    def fate(name, call, uses):
        return grasp_and_go_on if name == "pick" else "ok"

    class Endless(ToySkill):
        def status(self, sim, env_id):
            return SkillStatus() if self.name == "pick" else super().status(sim, env_id)

    sim, log = ToySim(tidy_house()), []
    agent = TpsrlAgent(lambda name: Endless(name, fate, log), "hab")
    agent.reset(sim, 0, sim.episode(), seed=0)
    while (action := agent.act(sim, 0)) is not None:
        sim.step(action[None])
    last = agent.report().skills[-1]
    assert (last.outcome, last.cause) == ("timeout", "effects hold, but the skill did not end")


def test_hab_goes_on_after_an_arm_reset_that_times_out():
    sim, report, _ = run(
        tidy_house(), "hab", lambda name, *_: "hang" if name == "reset_arm" else "ok"
    )
    assert {r.steps for r in report.skills if r.skill == "reset_arm"} == {250}
    assert solved(sim)


def test_hab_ends_when_a_manipulation_gives_up_and_not_when_navigation_stops():
    _, report, _ = run(tidy_house(), "hab", once("pick", 1, "fail"))
    assert (report.skills[-1].skill, report.skills[-1].cause) == ("pick", "stuck")
    _, report, _ = run(tidy_house(), "hab", once("navigate", 1, "fail"))
    assert len(report.skills) == 40
    assert next(r.action for r in report.skills if r.outcome == "failure") == "nav(any_targets|1)"


def test_hab_does_not_notice_a_missed_pick():
    sim, report, _ = run(tidy_house(), "hab", once("pick", 1, "miss"))
    failed = [r for r in report.skills if r.outcome == "failure"]
    assert (failed[0].skill, failed[0].cause) == ("pick", "nothing grasped")
    assert len(report.skills) == 40
    assert not solved(sim)
    assert report.replans == 0


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


def test_replan_opens_a_fridge_that_fell_shut():
    fell = []

    def shut(sim):
        if sim.held == 0 and not fell:
            fell.append(True)
            sim.move_joint(FRIDGE, 0.0)

    sim, report, _ = run(groceries(), "replan", each_step=shut)
    assert solved(sim)
    assert names(report).count("open_fridge") == 1
    assert report.replans >= 1


def test_replan_puts_an_object_back_to_open_its_closed_goal():
    fell = []

    def shut(sim):
        if sim.held == 2 and not fell:
            fell.append(True)
            sim.move_joint(FRIDGE, 0.0)

    sim, report, _ = run(groceries(), "replan", each_step=shut)
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


def test_seeds_of_skills_differ_and_repeat():
    first, second = run(tidy_house(), "hab")[2], run(tidy_house(), "hab")[2]
    assert [s for _, s in first] == [s for _, s in second]
    assert len({s for _, s in first}) == len(first)


def test_a_skill_is_told_how_often_the_same_call_has_failed_in_this_episode():
    told, episode = [], tidy_house()

    class Told(ToySkill):
        def reset(self, sim, env_id, call, seed):
            told.append((call.skill, call.target, self.failed_before))
            super().reset(sim, env_id, call, seed)

    def fate(name, call, uses):
        return "miss" if (name, call.target) == ("pick", 1) and uses < 2 else "ok"

    agent = TpsrlAgent(lambda name: Told(name, fate, log), "replan")
    for _ in range(2):
        sim, log = ToySim(episode), []
        told.clear()
        agent.wrap_skills(lambda make: make)  # skills anew, with the log of this episode
        agent.reset(sim, 0, episode, seed=3)
        while (action := agent.act(sim, 0)) is not None:
            sim.step(action[None])
        assert solved(sim)
        assert [n for skill, target, n in told if (skill, target) == ("pick", 1)] == [0, 1, 2]
        assert {n for skill, target, n in told if (skill, target) != ("pick", 1)} == {0}


def test_unknown_executor_and_missing_reset():
    with pytest.raises(UserError, match="unknown executor 'replann'; did you mean 'replan'"):
        TpsrlAgent(lambda name: None, "replann")
    with pytest.raises(UserError, match="was not reset"):
        TpsrlAgent(lambda name: None).act(None, 0)
