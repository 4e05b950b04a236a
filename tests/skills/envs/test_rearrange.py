"""The whole task by one policy: its rewards, success and end, and where training begins it."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from skills.book import make_task
from tests.skills.envs.states import state
from tests.skills.envs.test_contract import NO, YES, cause, judge
from tests.skills.envs.test_environments import make


def test_rearrangement_pays_for_each_stage():
    task = make_task("rearrange_easy")
    far = state(ee_pos=[0.0, 0.0, 0.0], object_pos=[1.0, 0.0, 0.0])
    near = state(ee_pos=[0.4, 0.0, 0.0], object_pos=[1.0, 0.0, 0.0])
    goal = {"position": np.array([3.0, 0.0, 0.0])}
    assert judge(task, far, near, **goal).reward[0] == pytest.approx(0.4 - 0.01)
    holding = state(held_object=0, ee_pos=[1.0, 0, 0], object_pos=[1.0, 0.0, 0.0])
    assert judge(task, near, holding, **goal).reward[0] == pytest.approx(1.0 - 0.01)
    carried = state(held_object=0, ee_pos=[2.0, 0, 0], object_pos=[2.0, 0.0, 0.0])
    assert judge(task, holding, carried, **goal).reward[0] == pytest.approx(1.0 - 0.01)
    there = state(held_object=0, ee_pos=[2.9, 0, 0], object_pos=[2.9, 0.0, 0.0])
    assert judge(task, carried, there, **goal).reward[0] == pytest.approx(0.9 + 1.0 - 0.01)


@pytest.mark.parametrize(
    ("held", "gap", "stop", "success"),
    [(-1, 0.29, YES, True), (-1, 0.31, YES, False), (0, 0.1, YES, False), (-1, 0.1, NO, False)],
)
def test_rearrangement_succeeds_when_stop_is_called_at_the_goal(held, gap, stop, success):
    now = state(held_object=held, object_pos=[3.0 - gap, 0.0, 0.0])
    goal = {"position": np.array([3.0, 0.0, 0.0])}
    outcome = judge(make_task("rearrange_easy"), now, now, stop, **goal)
    assert bool(outcome.success[0]) is success
    assert bool(outcome.terminated[0]) is bool(stop[0])
    assert cause(outcome) == ("success" if success else "stop" if stop[0] else "")
    assert outcome.reward[0] == pytest.approx(100.0 * success - 0.01)


def test_teaching_a_whole_rearrangement_pays_for_the_release_and_forgives_a_stop():
    options = {"release_reward": 5.0, "failed_stop_ends": False, "failed_stop_penalty": 1.0}
    task = make_task("rearrange_easy", options=options)
    goal = {"position": np.array([3.0, 0.0, 0.0])}
    held = state(held_object=0, ee_pos=[2.9, 0, 0], object_pos=[2.9, 0.0, 0.0])
    left = state(ee_pos=[2.9, 0.0, 0.0], object_pos=[2.9, 0.0, 0.0])
    assert judge(task, held, left, **goal).reward[0] == pytest.approx(5.0 - 0.01)
    again = judge(task, left, left, **goal)  # it was let go before
    assert again.reward[0] == pytest.approx(-0.01)
    stopped = judge(task, held, held, YES, **goal)
    assert not stopped.terminated[0] and stopped.reward[0] == pytest.approx(-1.0 - 0.01)


def test_a_whole_task_may_begin_at_its_object_or_with_it_in_the_hand():
    settings = {"depth": None, "reward": "teaching", "sensors": "state"}
    env = make("rearrange_easy", **settings, options={"later": 1.0})
    near = {False: 0, True: 0}
    with contextlib.closing(env):
        worlds = env.unwrapped.worlds
        for seed in range(12):
            observation, _ = env.reset(seed=seed)
            held = bool(observation["is_holding"][0])
            point = "obj_goal_gps_compass" if held else "obj_start_gps_compass"
            assert observation[point][0] < 2.5, (seed, held)
            assert bool(worlds.view.holds_target[0]) is held
            near[held] += 1
    assert min(near.values()) >= 2


def test_while_it_learns_another_object_or_a_loss_ends_it():
    task = make_task("rearrange_easy", options={"mistakes_end": True, "mistake_cost": 2.0})
    goal = {"position": np.array([3.0, 0.0, 0.0])}
    empty = state(object_pos=[1.0, 0.0, 0.0])
    other = state(held_object=1, object_pos=[1.0, 0.0, 0.0])
    wrong = judge(task, empty, other, **goal)
    assert cause(wrong) == "wrong_object" and wrong.reward[0] == pytest.approx(-2.0 - 0.01)
    held = state(held_object=0, ee_pos=[1.0, 0, 0], object_pos=[1.0, 0.0, 0.0])
    lost = judge(task, held, empty, **goal)
    assert cause(lost) == "wrong_release" and bool(lost.terminated[0])
    kept = judge(make_task("rearrange_easy"), held, empty, **goal)  # the benchmark's goes on
    assert cause(kept) == "" and not kept.terminated[0]


def test_once_the_object_is_held_it_is_about_its_goal():
    settings = {
        "depth": 64,
        "reward": "teaching",
        "sensors": ["contract", "state", "seen", "course"],
    }
    env = make("rearrange_easy", **settings, options={"later": 0.0})
    with contextlib.closing(env):
        worlds = env.unwrapped.worlds
        first, _ = env.reset(seed=3)
        row, still = worlds._rows[0], np.zeros(env.action_space.shape, np.float32)
        env.unwrapped.sim.snap_object(row.target, 0)
        still[7] = 1.0  # what is held is kept
        step = env.step(still)
        then, after = step[0], worlds._rows[0]
        assert (row.leg, after.leg) == (0, 1)
        np.testing.assert_array_equal(after.object_start, row.object_start)
        np.testing.assert_array_equal(worlds.task.about(after), row.position)
        pose = np.asarray(worlds.sim.state().base_pose)[0]
        expected = worlds.task.course(worlds.sim, 0, after).look(pose[:2])
        assert then["way"][0] == pytest.approx(expected[0], abs=1e-3)
        assert abs(then["way"][0] - first["way"][0]) > 0.1
        assert not np.allclose(then["relief"], first["relief"])
        assert then["seen_way"].any() and not np.allclose(then["seen_way"], first["seen_way"])
        # Another way is no progress: the step in which it changes is not paid for either.
        assert abs(env.step(still)[1]) < 0.2


def test_it_can_be_put_back_on_its_way_to_the_goal():
    settings = {"depth": 64, "reward": "teaching", "sensors": ["contract", "seen", "course"]}
    env = make("rearrange_easy", **settings, options={"later": 0.0})
    with contextlib.closing(env):
        own, still = env.unwrapped, np.zeros(env.action_space.shape, np.float32)
        still[7] = 1.0
        env.reset(seed=3)
        own.sim.snap_object(own.worlds._rows[0].target, 0)
        env.step(still)
        kept = own.worlds.get_state()
        then = env.step(still)
        own.worlds.set_state(kept)
        again = env.step(still)
        for name, value in then[0].items():
            np.testing.assert_array_equal(again[0][name], value)
        assert again[1] == then[1]
        for name in ("leg", "empty"):  # as a version before wrote it
            del kept["progress"]["fields"][name]
        own.worlds.set_state(kept)
        np.testing.assert_array_equal(own.worlds.progress.leg, [1])


def test_whatever_it_holds_it_goes_on_as_it_senses():
    env = make("rearrange_easy", depth=None, sensors=["contract"])
    with contextlib.closing(env):
        worlds, still = env.unwrapped.worlds, np.zeros(env.action_space.shape, np.float32)
        still[7] = 1.0
        env.reset(seed=3)
        worlds.sim.snap_object(1 if worlds._rows[0].target == 0 else 0, 0)
        observation, *_ = env.step(still)
        assert observation["is_holding"][0] == 1.0 and worlds._rows[0].leg == 1
