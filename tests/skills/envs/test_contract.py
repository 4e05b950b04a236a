"""Rewards, success and ends of each skill, worked out by hand from the benchmark's contract."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skills.book import BOOK, make_task
from skills.envs.config import EnvConfig
from skills.tasks.state import CAUSES
from tests.skills.envs.states import goals, state, view
from tpsrl.errors import UserError

NO, YES = np.array([False]), np.array([True])
REST = [0.5, 0.0, 1.0]


def judge(task, before, after, stop=NO, geodesic=(None, None), **goal):
    """One step from one state to another."""
    rows = goals(**goal)
    progress = task.begin(view(before, rows, geodesic[0]))
    return task.step(view(after, rows, geodesic[1]), progress, stop)[1]


def cause(outcome) -> str:
    return CAUSES[int(outcome.cause[0])]


def test_pick_approach_is_rewarded_twice_per_metre():
    far = state(ee_pos=[0.0, 0.0, 0.0], object_pos=[0.3, 0.0, 0.0])
    near = state(ee_pos=[0.1, 0.0, 0.0], object_pos=[0.3, 0.0, 0.0])
    outcome = judge(make_task("pick"), far, near)
    assert outcome.reward[0] == pytest.approx(2 * 0.1 - 0.005)
    assert not outcome.terminated[0]


def test_pick_distance_is_rounded_to_millimetres():
    far = state(object_pos=[0.3, 0.0, 0.0])
    near = state(ee_pos=[0.0004, 0.0, 0.0], object_pos=[0.3, 0.0, 0.0])
    assert judge(make_task("pick"), far, near).reward[0] == pytest.approx(-0.005)


def test_pick_grasp_then_rest():
    free = state(ee_pos=[0.5, 0.0, 0.5])
    holding = state(ee_pos=[0.5, 0.0, 0.5], held_object=0)
    task = make_task("pick")
    assert judge(task, free, holding).reward[0] == pytest.approx(2.0 - 0.005)
    resting = state(ee_pos=[0.5, 0.0, 0.9], held_object=0)
    outcome = judge(task, holding, resting)
    assert outcome.reward[0] == pytest.approx(2 * 0.4 - 0.005 + 10.0)
    assert outcome.success[0] and outcome.terminated[0] and cause(outcome) == "success"


@pytest.mark.parametrize(
    ("before", "after", "reward", "why"),
    [
        ({}, {"held_object": 1}, -0.5, "wrong_object"),
        ({}, {"held_marker": 0}, -0.5, "wrong_object"),
        ({"held_object": 0}, {}, -0.5, "dropped"),
        ({"held_object": 0}, {"hold_violation": True}, -1.5, "dropped"),
    ],
)
def test_pick_mistakes_end_the_episode(before, after, reward, why):
    outcome = judge(make_task("pick"), state(**before), state(**after))
    assert outcome.reward[0] == pytest.approx(reward - 0.005)
    assert outcome.terminated[0] and not outcome.success[0] and cause(outcome) == why


def test_force_penalty_is_capped():
    task = make_task("pick")
    assert judge(task, state(), state(force_sum=10.0)).reward[0] == pytest.approx(-0.005 - 0.005)
    assert judge(task, state(), state(force_sum=1e3)).reward[0] == pytest.approx(-0.005 - 0.01)
    assert judge(task, state(force_sum=50.0), state()).reward[0] == pytest.approx(-0.005)


SEVEN = ("navigate", "pick", "place", "open_cab", "close_cab", "open_fridge", "close_fridge")


@pytest.mark.parametrize("skill", SEVEN)
def test_force_ends_every_skill_at_the_limits_of_this_engine(skill):
    task = make_task(skill)
    assert (task.max_force, task.max_force_sum, task.force_end_penalty) == (500.0, 2e3, 1.0)


@pytest.mark.parametrize(
    ("contract", "fine", "strong"),
    [
        ("fixed", {"force": 499.0}, {"force": 501.0}),
        ("fixed", {"force_sum": 1999.0}, {"force_sum": 2001.0}),
        ("parity", {"force": 9e3}, {"force": 2e4}),
        ("parity", {"force_sum": 9e3}, {"force_sum": 2e4}),
    ],
)
def test_force_ends_the_episode(contract, fine, strong):
    task = make_task("pick", contract=contract)
    assert not judge(task, state(**fine), state(**fine)).terminated[0]
    outcome = judge(task, state(**fine), state(**strong))
    assert outcome.terminated[0] and cause(outcome) == "force"
    assert -1.02 < outcome.reward[0] <= -1.0 - 0.005


def test_habitat_s_base_gives_no_way_so_force_ends_nothing_there():
    assert EnvConfig(sim="habitat").task("pick").max_force is None
    assert EnvConfig(sim="habitat", contract="parity").task("pick").max_force == 1e4
    assert EnvConfig().task("pick").max_force == 500.0


def test_place_carries_releases_and_rests():
    task = make_task("place")
    goal = {"position": np.array([0.5, 0.0, 0.5])}
    far = state(object_pos=[0.5, 0.0, 1.0], ee_pos=[0.5, 0.0, 1.0], held_object=0)
    near = state(object_pos=[0.5, 0.0, 0.7], ee_pos=[0.5, 0.0, 0.7], held_object=0)
    assert judge(task, far, near, **goal).reward[0] == pytest.approx(2 * 0.3 - 0.005)
    inside = state(object_pos=[0.5, 0.0, 0.6], ee_pos=[0.5, 0.0, 0.6], held_object=0)
    closer = state(object_pos=[0.5, 0.0, 0.55], ee_pos=[0.5, 0.0, 0.55], held_object=0)
    assert judge(task, inside, closer, **goal).reward[0] == pytest.approx(-0.005)
    let_go = state(object_pos=[0.5, 0.0, 0.6], ee_pos=[0.5, 0.0, 0.6])
    outcome = judge(task, inside, let_go, **goal)
    assert outcome.reward[0] == pytest.approx(5.0 - 0.005) and not outcome.terminated[0]
    home = state(object_pos=[0.5, 0.0, 0.6], ee_pos=REST)
    outcome = judge(task, let_go, home, **goal)
    assert outcome.reward[0] == pytest.approx(2 * 0.4 + 10.0 - 0.005)
    assert outcome.success[0]


def test_who_lets_go_far_from_the_goal_gains_less():
    goal = {"position": np.array([0.5, 0.0, 0.5])}
    free, taught = make_task("place"), EnvConfig(reward="teaching").task("place")
    assert (free.off_penalty, taught.off_penalty) == (0.0, 30.0)
    task = dataclasses.replace(free, off_penalty=taught.off_penalty)
    for gap, lost in ((0.04, 0.0), (0.05, 0.0), (0.1, 1.5), (0.14, 2.7), (0.16, 0.0)):
        held = state(object_pos=[0.5, 0.0, 0.5 + gap], held_object=0)
        let_go = state(object_pos=[0.5, 0.0, 0.5 + gap])
        plain = judge(free, held, let_go, **goal)
        dearer = judge(task, held, let_go, **goal)
        assert plain.reward[0] - dearer.reward[0] == pytest.approx(lost)
        assert plain.terminated[0] == dearer.terminated[0] == (gap > 0.15)


def test_what_strays_after_its_release_ends_a_teachers_episode():
    goal = {"position": np.array([0.5, 0.0, 0.5])}
    free, taught = make_task("place"), EnvConfig(reward="teaching").task("place")
    assert (free.strays_end, taught.strays_end) == (False, True)
    task = dataclasses.replace(free, strays_end=True)
    near = state(object_pos=[0.5, 0.0, 0.6])
    for gap, ends in ((0.1, False), (0.19, False), (0.21, True)):
        rolled = state(object_pos=[0.5 + gap, 0.0, 0.5])
        outcome, plain = judge(task, near, rolled, **goal), judge(free, near, rolled, **goal)
        assert outcome.terminated[0] == ends and not plain.terminated[0]
        # It takes back what the release had paid; a wrong release had paid nothing.
        assert plain.reward[0] - outcome.reward[0] == pytest.approx(5.0 * ends)
        let_go = judge(task, state(object_pos=[0.5 + gap, 0.0, 0.5], held_object=0), rolled, **goal)
        assert let_go.terminated[0] == (gap > 0.15)
        assert let_go.reward[0] == pytest.approx(5.0 * (gap < 0.15) - 0.005)
        held = state(object_pos=[0.5 + gap, 0.0, 0.5], held_object=0)
        assert not judge(task, held, held, **goal).terminated[0]


def test_place_release_elsewhere_ends_without_penalty():
    held = state(object_pos=[1.0, 0.0, 0.5], held_object=0)
    outcome = judge(make_task("place"), held, state(object_pos=[1.0, 0.0, 0.5]))
    assert outcome.reward[0] == pytest.approx(-0.005)
    assert outcome.terminated[0] and cause(outcome) == "wrong_release"


def test_place_force_penalty_is_a_quirk():
    before = state(object_pos=[1.0, 0.0, 0.0], held_object=0)
    after = state(object_pos=[1.0, 0.0, 0.0], held_object=0, force_sum=1e3)
    assert judge(make_task("place"), before, after).reward[0] == pytest.approx(-0.015)
    parity = make_task("place", contract="parity")
    assert judge(parity, before, after).reward[0] == pytest.approx(-0.005)


def test_open_cabinet_needs_drawer_rest_release_and_stop():
    task, goal = make_task("open_cab"), {"joint_goal": 0.45}
    opened = {"joint_pos": [0.41, 0.0], "ee_pos": REST}
    assert judge(task, state(**opened), state(**opened), YES, **goal).success[0]
    assert not judge(task, state(**opened), state(**opened), NO, **goal).success[0]
    for spoilt in ({"joint_pos": [0.39, 0.0]}, {"ee_pos": [0.0, 0.0, 0.5]}, {"held_marker": 0}):
        world = {**opened, **spoilt}
        outcome = judge(task, state(**world), state(**world), YES, **goal)
        assert not outcome.success[0] and outcome.terminated[0] and cause(outcome) == "stop"


def test_open_cabinet_rewards():
    task, goal = make_task("open_cab"), {"joint_goal": 0.45}
    handle = {"marker_pos": [0.4, 0.0, 0.0]}
    before, nearer = state(**handle), state(**handle, ee_pos=[0.1, 0.0, 0.0])
    assert judge(task, before, nearer, **goal).reward[0] == pytest.approx(0.1)
    grasped = state(**handle, held_marker=0)
    assert judge(task, before, grasped, **goal).reward[0] == pytest.approx(5.0)
    pulled = state(**handle, held_marker=0, joint_pos=[0.1, 0.0])
    assert judge(task, grasped, pulled, **goal).reward[0] == pytest.approx(10 * 0.1)
    done = state(**handle, held_marker=0, joint_pos=[0.42, 0.0])
    assert judge(task, grasped, done, **goal).reward[0] == pytest.approx(5.0)
    home = state(**handle, joint_pos=[0.42, 0.0], ee_pos=[0.0, 0.0, 1.0])
    gone = np.linalg.norm(REST) - 0.5
    outcome = judge(task, done, home, **goal)
    assert outcome.reward[0] == pytest.approx(gone + 5.0)  # `begin` forgets that it was reached
    parity = judge(make_task("open_cab", contract="parity"), done, home, **goal)
    assert parity.reward[0] == pytest.approx(10 * gone + 5.0)


@pytest.mark.parametrize(
    ("after", "why", "reward"),
    [
        ({"held_object": 1}, "wrong_grasp", -5.0),
        ({"held_marker": 1}, "wrong_grasp", -5.0),
        ({"hold_violation": True}, "hold_violation", -1.0),
    ],
)
def test_open_fridge_mistakes(after, why, reward):
    outcome = judge(make_task("open_fridge"), state(), state(**after), joint_goal=1.22)
    assert outcome.terminated[0] and cause(outcome) == why
    assert outcome.reward[0] == pytest.approx(reward)


def test_close_is_absolute_and_has_no_suction():
    task = make_task("close_fridge")
    for angle, success in ((0.04, True), (0.06, False)):
        world = {"joint_pos": [angle, 0.0], "ee_pos": REST}
        assert judge(task, state(**world), state(**world), YES).success[0] == success
    sees = view(state(), goals())
    robot, _ = task.robot_action(sees, np.ones((1, 11)))
    assert robot[0, 7] == -1.0


def test_navigate_rewards_distance_everywhere_and_angle_nearby():
    task = make_task("navigate")
    goal = {"position": np.array([5.0, 0.0, 0.8])}
    far = [state(base_pose=[0.0, 0.0, 0.5]), state(base_pose=[0.1, 0.0, 0.3])]
    assert judge(task, *far, **goal).reward[0] == pytest.approx(0.1 - 0.005)
    near = [state(base_pose=[3.0, 0.0, 0.5]), state(base_pose=[3.1, 0.0, 0.3])]
    assert judge(task, *near, **goal).reward[0] == pytest.approx(0.1 + 0.2 - 0.005)


@pytest.mark.parametrize(
    ("pose", "success"), [([3.6, 0, 0.2], True), ([3.4, 0, 0], False), ([3.6, 0, 0.3], False)]
)
def test_navigate_success(pose, success):
    here = state(base_pose=pose)
    outcome = judge(make_task("navigate"), here, here, YES, position=np.array([5.0, 0.0, 0.8]))
    assert outcome.success[0] == success and outcome.terminated[0]
    assert cause(outcome) == ("success" if success else "stop")


def test_navigate_may_go_on_after_a_failed_stop():
    task = make_task("navigate", options={"failed_stop_ends": False, "failed_stop_penalty": 0.1})
    goal = {"position": np.array([5.0, 0.0, 0.8])}
    far, near = state(base_pose=[0.0, 0.0, 0.5]), state(base_pose=[3.6, 0.0, 0.2])
    failed = judge(task, far, far, YES, **goal)
    assert not failed.terminated[0] and failed.reward[0] == pytest.approx(-0.1 - 0.005)
    done = judge(task, near, near, YES, **goal)
    assert done.terminated[0] and done.reward[0] == pytest.approx(10.0 - 0.005)


def test_navigate_penalties_are_a_quirk():
    worse = state(force_sum=1e3, hold_violation=True)
    goal = {"position": np.array([5.0, 0.0, 0.8])}
    fixed = judge(make_task("navigate"), state(), worse, **goal)
    assert fixed.reward[0] == pytest.approx(-0.005 - 0.01 - 1.0)
    parity = judge(make_task("navigate", contract="parity"), state(), worse, **goal)
    assert parity.reward[0] == pytest.approx(-0.005)


def test_pointnav_spl():
    task = make_task("pointnav")
    rows = goals(position=np.array([1.0, 0.0, 0.0]))
    progress = task.begin(view(state(), rows, np.array([1.0])))
    detour = state(base_pose=[0.0, 0.5, 0.0])
    progress, _ = task.step(view(detour, rows, np.array([1.1])), progress, NO)
    there = state(base_pose=[0.9, 0.5, 0.0])
    _, outcome = task.step(view(there, rows, np.array([0.1])), progress, YES)
    spl = 1.0 / 1.4
    assert outcome.success[0] and outcome.metrics["spl"][0] == pytest.approx(spl)
    assert outcome.reward[0] == pytest.approx(1.0 - 0.01 + 2.5 * spl)


def test_explore_counts_each_cell_once():
    task, rows = make_task("explore"), goals()
    progress = task.begin(view(state(), rows))
    rewards = []
    for x in (0.6, 0.55, 0.0, -0.6):  # cells of 1 m, the first one centred on the start
        progress, outcome = task.step(view(state(base_pose=[x, 0, 0]), rows), progress, NO)
        rewards.append(float(outcome.reward[0]))
    assert rewards == [0.25, 0.0, 0.0, 0.25]
    assert outcome.metrics["cells"][0] == 3


def test_time_limit_truncates_and_divergence_too():
    task = make_task("pick", options={"horizon": 1})
    late = judge(task, state(object_pos=[1.0, 0, 0]), state(object_pos=[1.0, 0, 0]))
    assert late.truncated[0] and not late.terminated[0] and cause(late) == "time"
    broken = judge(task, state(held_object=0), state(diverged=True))
    assert broken.truncated[0] and not broken.terminated[0] and cause(broken) == "diverged"
    assert broken.reward[0] == 0.0


def test_success_in_the_last_step_is_no_timeout():
    task = make_task("pick", options={"horizon": 1})
    done = judge(task, state(held_object=0), state(held_object=0, ee_pos=REST))
    assert done.terminated[0] and not done.truncated[0] and done.success[0]


def test_grip_rules():
    holding, empty = view(state(held_object=0), goals()), view(state(), goals())

    def grip(skill, sees, command):
        task = make_task(skill)
        action = np.zeros((1, task.layout.size))
        action[0, 7] = command
        return task.robot_action(sees, action)[0][0, 7]

    assert grip("pick", holding, -1.0) > 0  # no release while holding
    assert grip("pick", empty, -1.0) < 0 and grip("pick", empty, 0.0) >= 0
    assert grip("place", empty, 1.0) < 0  # no second grasp
    assert grip("place", holding, -1.0) < 0


def test_action_layouts():
    sizes = {name: row.task.layout.size for name, row in BOOK.items()}
    assert [sizes[k] for k in ("navigate", "pick", "place", "open_cab")] == [3, 10, 10, 11]
    assert make_task("pick", actions="restricted").layout.size == 8
    assert make_task("close_fridge", actions="restricted").layout.size == 9
    assert make_task("navigate", actions="restricted").layout.size == 3
    task = make_task("open_cab")
    action = np.arange(1, 12)[None] / 20
    robot, stop = task.robot_action(view(state(), goals()), action)
    assert np.array_equal(robot, action[:, :10]) and stop[0]
    robot, _ = make_task("navigate").robot_action(
        view(state(), goals()), np.array([[0.5, -0.5, -1.0]])
    )
    assert np.array_equal(robot[0], [0, 0, 0, 0, 0, 0, 0, -1.0, 0.5, -0.5])


def test_bad_names_are_refused():
    for arguments, word in (
        ({"name": "pikc"}, "pick"),
        ({"name": "pick", "contract": "strict"}, "parity"),
        ({"name": "pick", "actions": "none"}, "restricted"),
        ({"name": "pick", "options": {"horizn": 3}}, "horizon"),
    ):
        with pytest.raises(UserError, match=word):
            make_task(**arguments)


def test_what_is_said_of_the_rewards_of_driving_and_of_the_whole_task_is_so():
    """Who changes these changes the table in docs/skill_environments.md."""
    held = judge(make_task("navigate"), state(), state(hold_violation=True))
    assert held.reward[0] == pytest.approx(-1.0 - 0.005) and not held.terminated[0]
    taught = EnvConfig(reward="teaching").task("rearrange_easy")
    assert (taught.mistake_penalty, taught.haste, taught.failed_stop_ends) == (4.0, 0.1, False)
    assert (taught.slack_reward, taught.violation_penalty) == (-0.005, 1.0)
