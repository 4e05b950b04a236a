"""The executor hab on a world without physics: order, time limits, ends."""

import pytest

from planner.chain.calls import TpsrlOptions
from planner.chain.tpsrl import TpsrlAgent
from skills.interface import SkillStatus
from tests.planner.chain.toy import (
    DRAWER,
    FRIDGE,
    ToySim,
    ToySkill,
    groceries,
    names,
    once,
    run,
    set_table,
    solved,
    tidy_house,
)


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


def test_hab_says_that_a_pick_took_another_object():
    """It goes on with it, as the benchmark does, and the reason is in the results."""
    episode = tidy_house()
    other = episode.targets[2].object_index
    _, report, _ = run(episode, "hab", once("pick", 1, lambda sim: sim.grasp(other)))
    failed = [r for r in report.skills if r.outcome == "failure"]
    assert (failed[0].skill, failed[0].cause) == ("pick", "wrong object")


@pytest.mark.parametrize(
    ("skill", "target", "cause"),
    [("pick", 1, "nothing grasped"), ("place", 2, "not at goal")],
)
def test_hab_says_that_a_pick_or_place_found_its_container_shut(skill, target, cause):
    fate = once(skill, target, lambda sim: sim.move_joint(FRIDGE, 0.0))
    _, report, _ = run(groceries(), "hab", fate)
    failed = next(r for r in report.skills if r.skill == skill and r.outcome == "failure")
    assert failed.cause == f"{cause}, container not open"
