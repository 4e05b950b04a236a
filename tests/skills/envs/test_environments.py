"""The registered environments in the real apartment: checker, random agents, seeds, imports."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import skills.envs
from skills.book import BOOK
from skills.tasks.scan import RAYS, REACH
from skills.tasks.state import CAUSES
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError
from tpsrl.provide import find_episodes
from tpsrl.robot import fetch

SKILLS = list(BOOK)


def make(skill: str, **config):
    config = {"depth": 64, "split": "val", **config}
    return gymnasium.make(skills.envs.env_id(skill), **config)


def shipped(scenario):
    return find_episodes(scenario, "val")


def roll(env, seed: int, steps: int):
    """Observations, rewards and infos of a random agent; never stops by itself."""
    observation, info = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    trail = [(observation, 0.0, info)]
    for _ in range(steps):
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        if env.unwrapped.worlds.task.layout.stop:
            action[-1] = -1.0
        observation, reward, terminated, truncated, info = env.step(action)
        trail.append((observation, reward, info))
        assert env.observation_space.contains(observation)
        assert np.isfinite(reward) and info["cause"] in CAUSES
        assert bool(info["cause"]) == (terminated or truncated)
        if terminated or truncated:
            break
    return trail


@pytest.mark.parametrize("skill", SKILLS)
def test_gymnasium_checker(skill):
    env = make(skill)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=".*m(in|ax)imum value is.*infinity")
            warnings.filterwarnings("ignore", message=".*different to the unwrapped version")
            check_env(env.unwrapped, skip_render_check=True)
    finally:
        env.close()


@pytest.mark.parametrize("skill", SKILLS)
def test_random_agent_and_same_seed_same_trajectory(skill):
    env = make(skill)
    first, again, other = (roll(env, seed, 12) for seed in (3, 3, 4))
    env.close()
    assert len(first) == len(again)
    for (a, r, i), (b, s, j) in zip(first, again, strict=True):
        assert r == s and i == j
        assert all(np.array_equal(a[key], b[key]) for key in a)
    depth = first[0][0]["head_depth"]
    assert depth.std() > 0.01 and not np.array_equal(depth, other[0][0]["head_depth"])


def test_seed_option_repeats_an_episode():
    env = make("pick", depth=None)
    env.reset(seed=0)
    observation, info = env.reset()
    env.reset()
    again, same = env.reset(options={"seed": info["seed"]})
    assert same == info
    assert all(np.array_equal(observation[k], again[k]) for k in observation)
    with pytest.raises(UserError, match="sede"):
        env.reset(options={"sede": 1})
    env.close()


def test_time_limit_truncates():
    env = make("pick", depth=None, options={"horizon": 5})
    env.reset(seed=1)
    still = np.zeros(10, dtype=np.float32)
    still[7] = -1.0
    ends = [env.step(still)[2:4] for _ in range(5)]
    env.close()
    assert ends == [(False, False)] * 4 + [(False, True)]


@pytest.mark.parametrize("skill", ["pick", "place", "open_cab", "close_fridge"])
def test_restricted_robot_does_not_drive(skill):
    env = make(skill, depth=None, actions="restricted")
    env.reset(seed=2)
    before = env.unwrapped.sim.state().base_pose.copy()
    env.step(np.concatenate([np.ones(env.action_space.shape[0] - 1), [-1.0]]))
    assert np.array_equal(before, env.unwrapped.sim.state().base_pose)
    env.close()


def test_start_states_follow_the_contract():
    env = make("pick", depth=None).unwrapped
    gaps = []
    for seed in range(12):
        env.reset(seed=seed)
        state, goal = env.sim.state(), env.worlds.view.goal
        here, there = state.base_pose[0], goal.object_start[0]
        gaps.append(np.hypot(*(there[:2] - here[:2])))
        assert not env.sim.robot_contacts()
        assert np.allclose(there, state.object_pos[0, goal.target[0]])
    env.close()
    assert max(gaps) < 2.5 and np.ptp(gaps) > 0.3
    env = make("navigate", depth=None).unwrapped
    holding = 0
    for seed in range(30):
        env.reset(seed=seed)
        goal, state = env.worlds.view.goal, env.sim.state()
        assert np.linalg.norm(goal.position[0] - [*state.base_pose[0, :2], 0.0]) > 3.0
        if state.held_object[0] >= 0:
            holding += 1
            target = [t for t in env.sim.episode().targets if t.object_index == goal.target[0]]
            assert np.allclose(goal.position[0], target[0].goal_pos)
    env.close()
    assert 0 < holding < 15


@pytest.mark.parametrize(
    ("skill", "low", "high"),
    [
        ("open_cab", 0.0, 0.0),
        ("close_cab", 0.4, 0.5),
        ("open_fridge", 0.0, 0.0),
        ("close_fridge", np.pi / 4, 2 * np.pi / 3),
    ],
)
def test_articulated_starts(skill, low, high):
    env = make(skill, depth=None).unwrapped
    for seed in range(4):
        env.reset(seed=seed)
        view = env.worlds.view
        assert low - 0.01 <= view.joint_pos[0] <= high + 0.01
        x, y, _ = view.ee[0] + view.marker_pos[0] - view.state.ee_pos[0]
        assert not env.sim.robot_contacts() and np.hypot(x, y) < 2.0
    env.close()


def test_some_episodes_may_begin_later_in_the_task():
    env = make("open_cab", depth=None, options={"ajar": 0.5}).unwrapped
    found = []
    for seed in range(12):
        env.reset(seed=seed)
        found.append(float(env.worlds.view.joint_pos[0]))
    env.close()
    assert 2 <= sum(q == 0.0 for q in found) <= 10
    assert max(found) > 0.2 and max(found) <= 0.45


def test_who_closes_may_begin_with_the_drawer_partly_shut():
    env = make("close_cab", depth=None, options={"ajar": 1.0}).unwrapped
    found = []
    for seed in range(12):
        env.reset(seed=seed)
        found.append(float(env.worlds.view.joint_pos[0]))
    env.close()
    assert sum(0.05 < q < 0.39 for q in found) >= 6


def test_place_starts_with_the_target_in_the_hand_far_from_its_goal():
    env = make("place", depth=None).unwrapped
    for seed in range(4):
        observation, _ = env.reset(seed=seed)
        assert observation["is_holding"][0] == 1.0 and env.worlds.view.holds_target[0]
    env.close()


def _places(skill, scenario, sensor, seeds=range(12)):
    """Kinds of places that a skill's starts are at, and how its target lies to where they face."""
    found = []
    env = make(skill, depth=None, episodes=shipped(scenario), sensors=(sensor,)).unwrapped
    for seed in seeds:
        place = env.reset(seed=seed)[0][sensor]
        assert np.hypot(*place[:2]) == pytest.approx(1.0, abs=1e-5)
        found.append(("cabinet" if place[2] else "drawer" if place[3] else "open", env.worlds.view))
    env.close()
    return found


def test_place_sensors_name_what_carries_the_target():
    groceries = _places("pick", "prepare_groceries", "obj_start_place")
    assert {kind for kind, _ in groceries} == {"cabinet", "open"}
    for kind, view in groceries:
        pose = view.state.base_pose[0]
        if kind == "cabinet":  # a fridge can only be entered where it faces
            face = view.goal.start_place[0, :2]
            assert (pose[:2] - view.goal.object_start[0, :2]) @ face > 0.0
    assert "drawer" in {kind for kind, _ in _places("pick", "set_table", "obj_start_place")}
    assert {k for k, _ in _places("place", "set_table", "obj_goal_place", range(4))} == {"open"}
    goals = {k for k, _ in _places("place", "prepare_groceries", "obj_goal_place")}
    assert goals == {"cabinet", "open"}


def test_scan_shows_what_stops_the_base():
    env = make("pick", depth=None, sensors=("base_scan",)).unwrapped
    checked = 0
    for seed in range(12):  # which of them come to rest against furniture is the engine's matter
        near = env.reset(seed=seed)[0]["base_scan"]
        assert near.min() >= 0.0 and near.max() <= 1.0 - fetch.BASE_RADIUS / REACH + 1e-6
        for _ in range(40):
            seen = env.step(np.array([0.0] * 7 + [-1.0, 1.0, 0.0], np.float32))[0]["base_scan"]
            pose = env.sim.state().base_pose[0].copy()
        env.step(np.array([0.0] * 7 + [-1.0, 1.0, 0.0], np.float32))
        if np.allclose(env.sim.state().base_pose[0], pose, atol=1e-6):  # it touches something ahead
            ahead = REACH * (1.0 - seen[RAYS // 2 - 9 : RAYS // 2 + 10]).min()
            assert ahead == pytest.approx(fetch.BASE_RADIUS, abs=0.03)
            checked += 1
        if checked == 3:
            break
    env.close()
    assert checked == 3


def test_episodes_of_several_files_are_drawn():
    files = [shipped("prepare_groceries"), shipped("set_table")]
    env = make("pick", depth=None, episodes=files).unwrapped
    scenarios = {len(env.worlds.starts.episodes)}
    assert scenarios == {len(load_shipped("prepare_groceries").episodes) * 2}
    env.close()
    with pytest.raises(UserError, match="single one"):
        make("pick", depth=None, episodes=files, path="elsewhere")


def test_arguments_are_checked():
    for config, word in (
        ({"actions": "ful"}, "restricted"),
        ({"start": "handoff"}, "handoff=FILE"),
        ({"start": "elsewhere"}, "generated"),
        ({"spawn": "far"}, "near"),
        ({"sensors": ("joints",)}, "joint"),
        ({"split": "tset"}, "tset"),
        ({"episodes": "missing.json"}, "missing.json"),
        ({"options": {"depth": 3}}, "depth"),
    ):
        with pytest.raises(UserError, match=word):
            make("pick", **{"depth": None, **config})


def test_environments_do_not_import_torch():
    code = (
        "import sys, gymnasium, skills.envs\n"
        "env = gymnasium.make('tpsrl/Pick-v0', depth=64, split='val')\n"
        "env.reset(seed=0); env.step(env.action_space.sample()); env.close()\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


@pytest.mark.timeout(120)
def test_forked_environments_see_what_their_parent_sees():
    env = make("pick", render_mode="rgb_array")
    alone, _ = env.reset(seed=3)
    env.render()
    vector = gymnasium.make_vec(
        skills.envs.env_id("pick"), 2, vectorization_mode="async", depth=64, split="val",
        vector_kwargs={"context": "fork"}, render_mode="rgb_array",
    )  # fmt: skip
    try:
        together, _ = vector.reset(seed=[3, 4])
        for name, values in alone.items():
            assert np.array_equal(together[name][0], values), name
        vector.step(vector.action_space.sample())
        assert vector.call("render")[0].shape == env.render().shape
    finally:
        vector.close()
        env.close()


def test_what_fell_lies_on_the_floor_within_reach_and_stays_there():
    settings = {"depth": None, "episodes": shipped("rearrange_easy"), "places": ["open"]}
    found = {}
    for name, more in {"fallen": {"options": {"fallen": 1.0}}, "contract": {}}.items():
        env = make("pick", **settings, **more)
        with contextlib.closing(env):
            worlds = env.unwrapped.worlds
            lain = []
            for seed in range(8):
                env.reset(seed=seed)
                before = worlds.view.object_pos[0]
                for _ in range(5):
                    env.step(np.zeros(10, np.float32))
                lain.append((before, worlds.view.object_pos[0]))
                base = worlds.view.state.base_pose[0]
                assert np.linalg.norm(before[:2] - base[:2]) < 2.3
            found[name] = lain
    assert sum(before[2] < 0.2 for before, _ in found["fallen"]) >= 5
    assert all(before[2] > 0.3 for before, _ in found["contract"])
    assert all(np.linalg.norm(b - a) < 0.02 for b, a in found["fallen"] if b[2] < 0.2)


def test_kinds_of_places_can_be_drawn_more_evenly_than_episodes_hold_them():
    settings = {"depth": None, "sensors": ("joint",), "episodes": shipped("set_table")}
    env = make("pick", places="balanced", **settings).unwrapped
    kinds, begun = [], []
    for seed in range(12):
        env.reset(seed=seed)
        kinds.append(env.worlds.place_kind(0))
        begun.append(env.worlds.origins[0].episode_id)
    assert {"cabinet", "drawer"} <= set(kinds)
    env.reset(seed=3)  # what it has learned of the episodes does not change what a seed means
    assert (env.worlds.place_kind(0), env.worlds.origins[0].episode_id) == (kinds[3], begun[3])
    env.close()
    with contextlib.closing(make("navigate", **settings, places="balanced")):
        pass  # one config serves all skills
