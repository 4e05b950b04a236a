"""What a policy that may know the whole state sees, and the rewards that teach it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from skills import series, training
from skills.book import BOOK, chained, make_task
from skills.envs.batch import BatchSkillEnv
from skills.envs.config import EnvConfig
from skills.envs.single import SkillEnv
from skills.envs.worlds import follow
from skills.learned.cards import TEACHERS, Card
from skills.learned.skill import LearnedSkill
from skills.tasks.around import HIGH, LOW, half_size
from skills.tasks.sensors import observe
from skills.tasks.state import CAUSES, NEIGHBOURS
from tests.skills.envs.states import goals, state, view
from tests.skills.envs.test_environments import shipped
from tests.skills.nets import STATE
from tpsrl.errors import UserError
from tpsrl.geometry.rotations import to_base
from tpsrl.robot import fetch
from ver_trainer.errors import ConfigError

FOLLOWS = {
    "obj_start_fine": "obj_start_sensor",
    "obj_goal_fine": "obj_goal_sensor",
    "marker_fine": "marker_rel_pos",
    "resting_fine": "relative_resting_position",
}


@pytest.fixture(scope="module")
def pick():
    env = SkillEnv("pick", **STATE, sensors=("state", "course"))
    yield env
    env.close()


def test_neighbours_are_the_nearest_other_objects(pick):
    for seed in range(5):
        seen, _ = pick.reset(seed=seed)
        rows = seen["neighbours"].reshape(NEIGHBOURS, 4)
        state, row = pick.sim.state(), pick.worlds._rows[0]
        place = state.object_pos[0]
        gap = np.linalg.norm(place - row.object_start, axis=1)
        for k, (found, size) in enumerate(zip(rows[:, :3], rows[:, 3], strict=True)):
            index = row.neighbours[k]
            if index < 0:
                assert not found.any() and size == 0.0
                continue
            assert index != row.target
            others = np.delete(gap, row.target)
            assert np.sum(others < gap[index] - 1e-9) == k
            pose = np.append(state.ee_pos[0, :2], state.base_pose[0, 2])
            ahead = to_base(pose, place[index])[:2]
            np.testing.assert_allclose(found[:2], ahead, atol=1e-5)
            assert found[2] == pytest.approx(place[index, 2] - state.ee_pos[0, 2], abs=1e-5)
            kind = pick.sim.episode(0).objects[index].type
            assert size == pytest.approx(half_size(kind).max(), rel=1e-5)


def test_the_nearest_neighbour_is_seen_finely(pick):
    """As the neighbours say it, and nothing where there are none."""
    alone = 0
    for seed in range(8):
        seen, _ = pick.reset(seed=seed)
        rows = seen["neighbours"].reshape(NEIGHBOURS, 4)
        known = pick.worlds._rows[0].neighbours >= 0
        if not known.any():
            alone += 1
            np.testing.assert_array_equal(seen["neighbour_gap"], [0.0, 0.0, 0.0, 1.0])
            continue
        beyond = np.linalg.norm(rows[known, :3], axis=1) - rows[known, 3]
        nearest = rows[known][beyond.argmin(), :3]
        wanted = np.tanh([*nearest / 0.1, beyond.min() / 0.05])
        np.testing.assert_allclose(seen["neighbour_gap"], wanted, atol=1e-5)
    assert alone < 8


def test_a_teacher_feels_motors_base_and_time(pick):
    seen, _ = pick.reset(seed=1)
    for name in ("base_pace", "base_strain", "elapsed"):
        assert not seen[name].any()
    turn = np.array([1.0] + [0.0] * 6 + [-1.0, 0.0, 1.0], np.float32)
    for step in range(1, 4):
        before = pick.sim.state().base_pose[0]
        seen, *_ = pick.step(turn)
        now = pick.sim.state()
        lag = (now.arm_target - now.arm_qpos)[0]
        np.testing.assert_allclose(seen["arm_strain"], np.tanh(lag / 0.1), atol=1e-6)
        assert seen["arm_strain"][0] > 0.01
        assert seen["elapsed"][0] == pytest.approx(np.tanh(step / 200), abs=1e-6)
        turned = (now.base_pose[0, 2] - before[2]) / fetch.BASE_DELTA_ANGULAR
        assert turned > 0.1
        np.testing.assert_allclose(seen["base_pace"], [0.0, np.tanh(turned)], atol=0.02)
        np.testing.assert_allclose(seen["base_strain"], [0.0, 1.0 - turned], atol=0.02)


def test_a_base_that_is_stopped_feels_what_it_was_told(pick):
    pick.reset(seed=1)
    ahead = np.array([0.0] * 7 + [-1.0, 1.0, 0.0], np.float32)
    felt = [pick.step(ahead)[0]["base_strain"] for _ in range(30)]
    np.testing.assert_allclose(felt[0], 0.0, atol=0.02)
    np.testing.assert_allclose(felt[-1], [1.0, 0.0], atol=0.02)


def test_the_way_fades_where_the_base_stands_within_reach(pick):
    near = 0
    for seed in range(20):
        seen, _ = pick.reset(seed=seed)
        length, *heading = seen["way"]
        left = min(length / 0.3, 1.0)
        np.testing.assert_allclose(seen["way_gap"], left * np.array([1.0, *heading]), atol=1e-5)
        near += left < 1.0
    assert 0 < near < 20


def test_relief_shows_what_the_object_lies_on(pick):
    inside = 0
    for seed in range(8):
        seen, _ = pick.reset(seed=seed)
        row = pick.worlds._rows[0]
        heights = seen["relief"][1:].reshape(3, 3)
        assert heights.min() >= LOW and heights.max() <= HIGH
        kind = pick.sim.episode(0).objects[row.target].type
        # It lies on what is below it, whatever side it lies on.
        assert -max(half_size(kind)) - 0.03 < heights[1, 1] < 0.0
        if row.container >= 0:
            inside += 1
            assert seen["container"][0] > 0.1
        else:
            assert not seen["container"].any()
    assert 0 < inside < 8


@pytest.mark.parametrize("skill", ["navigate", "pick", "open_fridge"])
def test_the_chain_sees_the_same_state(skill):
    env = SkillEnv(skill, **STATE, sensors="state")
    observation, _ = env.reset(seed=2)
    sensors = env.worlds.task.sensors
    policy = SimpleNamespace(
        observations=dict.fromkeys(sensors), size=env.action_space.shape[0], reset=lambda: None
    )
    learned = LearnedSkill(Card(skill, None), policy)
    learned.reset(env.sim, 0, env.worlds.origins[0].call, 0)
    for name, value in observe(learned._view(env.sim, scanned=True), sensors).items():
        np.testing.assert_array_equal(value[0], observation[name], err_msg=name)
    env.close()


def test_rewards_that_teach_leave_success_alone():
    assert EnvConfig(**STATE, reward="teaching").task("open_cab").ajar == 0.3
    assert EnvConfig(**STATE).task("open_cab").ajar == 0.0
    own = EnvConfig(**STATE, reward="teaching", options={"ajar": 0.1})
    assert own.task("open_cab").ajar == 0.1
    for skill in chained():
        task, contract = EnvConfig(**STATE, reward="teaching").task(skill), BOOK[skill].task
        for name in ("goal", "joint_threshold", "rest_threshold", "success_distance", "horizon"):
            assert getattr(task, name, None) == getattr(contract, name, None)
        assert set(BOOK[skill].switches) == set(task.layout.switches)
    with pytest.raises(UserError, match="reward='harsh' is unknown"):
        EnvConfig(**STATE, reward="harsh").task("pick")


def test_grip_and_stop_begin_as_the_book_says():
    _, config = training.parse(["skill=open_cab", "config=teacher"])
    assert config.net.binary_actions == [7, 10]
    assert config.net.binary_initial == [0.5, 0.02]
    _, config = training.parse(["skill=place", "config=teacher"])
    assert (config.net.binary_actions, config.net.binary_initial) == ([7], [0.998])


def test_a_student_reads_the_contract_and_its_critic_the_state():
    _, config = training.parse(["skill=open_fridge"])
    assert config == training.parse(["skill=open_fridge", "config=student"])[1]
    for skill in ("flee", "rearrange_easy"):  # no teacher of them ships
        plain = training.parse([f"skill={skill}"])
        assert plain == training.parse([f"skill={skill}", "config=laptop"])
    contract, state = BOOK["open_fridge"].task.sensors, BOOK["open_fridge"].state
    assert tuple(config.net.actor_obs) == (*contract, *BOOK["open_fridge"].fine)
    assert "head_depth" in contract
    assert tuple(config.net.critic_obs) == state
    assert Path(config.distill.teacher) == TEACHERS / "open_fridge.safetensors"
    assert EnvConfig(**config.env_args).task("open_fridge").failed_stop_ends  # as in evaluation
    assert training.parse(["skill=pick"])[1].env_args["options"] == {"pressing": 0.0}
    for words, sentence in (
        (["skill=open_fridge", "teacher=/nowhere"], "no such file or folder"),
        (["skill=pick", "env_args.actions=restricted"], "no teacher of 'pick' of actions=restr"),
        (["skill=flee", "teacher=shipped"], "no teacher of 'flee' ships"),
        (["env=CartPole-v1", "teacher=shipped"], "teacher= is of skills"),
        (["skill=open_fridge", "teacher=shipped", "distill.teacher=a"], "give one of them"),
    ):
        with pytest.raises(UserError, match=sentence):
            training.parse(words)


@pytest.mark.parametrize("skill", ["navigate", "pick", "place", "open_fridge"])
def test_fine_senses_follow_from_the_contract_s(skill):
    env = SkillEnv(skill, **STATE, sensors=("contract", "fine"))
    seen, _ = env.reset(seed=4)
    for _ in range(3):
        past = seen
        seen, *_ = env.step(env.action_space.sample())
        for name in BOOK[skill].fine:
            if name.startswith("goal_"):
                distance, bearing = seen["goal_to_agent_gps_compass"]
                gone = past["goal_to_agent_gps_compass"] - seen["goal_to_agent_gps_compass"]
                wanted = [(distance - 1.5) / 0.25, (abs(bearing) - math.radians(15)) / 0.1]
                wanted = 12 * gone if name == "goal_pace" else wanted
            else:
                way = seen[FOLLOWS[name]]
                wanted = [*way / 0.1, (np.linalg.norm(way) - 0.15) / 0.05]
            np.testing.assert_allclose(seen[name], np.tanh(wanted), atol=1e-4)
    env.close()
    with pytest.raises(UserError, match="sensors=fine: the skill 'flee' lists none"):
        EnvConfig(**STATE, sensors="fine").task("flee")


def test_skills_in_a_row_are_named_once():
    assert series.wanted(["skills=all"]) == chained()
    assert series.wanted(["skills=place,pick", "out=a"]) == ("pick", "place")
    assert series.wanted(["skill=pick"]) == ()
    for words, sentence in (
        (["skills=pck"], "skills= has no 'pck'"),
        (["skills=all", "skill=pick"], "give one of the two"),
    ):
        with pytest.raises(UserError, match=sentence):
            series.wanted(words)


def test_without_a_config_teachers_are_trained_first_and_then_their_students(tmp_path, capsys):
    small = ["total_steps=32", "collect.num_envs=2", "collect.worlds=1", "collect.steps=16"]
    more = [
        "chain_starts=0",
        "env_args.depth=36",
        f"env_args.episodes={shipped('in_fridge')}",
        "ppo.mini_batches=1",
    ]
    words = ["skills=open_fridge", *small, *more, "log.tensorboard=false", f"out={tmp_path}"]
    series.run(series.wanted(words), words)
    student = yaml.safe_load((tmp_path / "open_fridge" / "config.yaml").read_text())
    assert student["distill"]["teacher"].startswith(str(tmp_path / "teachers" / "open_fridge"))
    assert student["net"]["core"] == "lstm"
    capsys.readouterr()
    series.run(series.wanted(words), words)
    assert capsys.readouterr().out.count("done before, 32 steps") == 2
    with pytest.raises(ConfigError, match="unknown key"):
        series.run(("pick",), [*words, "net.mpl=[3]"])


def test_mistakes_cost_more_the_better_a_policy_is():
    options = {"mistake_penalty": 4.0, "haste": 0.1}
    env = SkillEnv("place", depth=None, options=options, episodes=shipped("rearrange_easy"))
    env.reset(seed=1)
    worlds, release = env.worlds, np.zeros((1, 10))
    begun = worlds.progress
    release[:, 7] = -1.0
    outcome = worlds.step(release)
    assert CAUSES[int(outcome.cause[0])] == "wrong_release" and not begun.mastery.any()
    never = np.zeros(1, dtype=bool)
    for mastery in (0.25, 1.0):
        skilled = dataclasses.replace(begun, mastery=np.full(1, mastery))
        _, dearer = worlds.task.step(worlds.view, skilled, never)
        assert dearer.reward == pytest.approx(outcome.reward - 4.1 * mastery)
    env.close()


@pytest.mark.parametrize(
    ("gap", "grip", "held", "lost"),
    [(0.3, 1.0, -1, 0.02), (0.3, -1.0, -1, 0.0), (0.1, 1.0, -1, 0.0), (0.3, 1.0, 0, 0.0)],
)
def test_a_cup_that_sucks_far_from_the_object_loses(gap, grip, held, lost):
    task, rows = make_task("pick", options={"suction_penalty": 0.02}), goals()
    seen = view(state(object_pos=[gap, 0.0, 0.0], held_object=held), rows)
    seen.told = np.array([[grip, 0.0, 0.0]])
    begun = task.begin(seen)
    free = dataclasses.replace(task, suction_penalty=0.0)
    unpaid, paid = (t.step(seen, begun, np.zeros(1, dtype=bool))[1].reward[0] for t in (free, task))
    assert unpaid - paid == pytest.approx(lost)


def test_pressing_costs_more_the_better_a_policy_is():
    with SkillEnv("place", depth=None, options={"pressing": 1e-3}) as env:
        env.reset(seed=1)
        worlds, never = env.worlds, np.zeros(1, dtype=bool)
        state = worlds.view.state
        rewards = []
        for mastery, force in ((0.0, 300.0), (0.5, 0.0), (0.5, 300.0)):
            begun = dataclasses.replace(
                worlds.progress, mastery=np.full(1, mastery), force_sum=state.force_sum - force
            )
            rewards.append(float(worlds.task.step(worlds.view, begun, never)[1].reward[0]))
        unskilled, free, pressed = rewards
        capped = worlds.task.max_force_penalty
        assert free - unskilled == pytest.approx(capped) and free - pressed == pytest.approx(
            capped + 0.5 * 1e-3 * 300.0
        )


@pytest.mark.parametrize("skill", ["open_cab", "navigate"])
def test_who_cannot_stop_does_not_stop_in_vain(skill):
    """With stop="success" the environment asks in every step whether the skill is done."""
    made = {"reward": "teaching", "depth": None, "stop": "success", "options": {"haste": 0.0}}
    with contextlib.closing(SkillEnv(skill, **made)) as env:
        env.reset(seed=0)
        still = np.zeros((1, env.action_space.shape[0]))
        begun, rewards = env.worlds.progress, []
        for mastery in (0.0, 1.0):
            env.reset(seed=0)
            skilled = dataclasses.replace(begun, mastery=np.full(1, mastery))
            env.worlds.progress = skilled
            rewards.append(float(env.worlds.step(still).reward[0]))
        assert not env.worlds.task.layout.stop and rewards[0] == rewards[1]


def test_mastery_is_what_the_last_episodes_say_and_survives_a_break():
    env = BatchSkillEnv("open_fridge", 2, depth=None, episodes=shipped("in_fridge"))
    env.reset(seed=0)
    assert follow(0.5, np.zeros(0, dtype=bool)) == 0.5
    assert 0.5 < follow(0.5, np.array([True])) < 0.51
    share = 0.0
    for _ in range(1000):
        share = follow(share, np.array([True, False]))
    assert share == pytest.approx(0.5, abs=0.01)
    assert env.worlds.get_state()["mastery"] == 0.0
    env.worlds.set_state({**env.worlds.get_state(), "mastery": 0.7})
    env.reset(seed=1)
    assert env.worlds.progress.mastery.tolist() == [0.7, 0.7]
    env.close()
