"""Scripted skills against the real engine: effects in the world, limits, determinism, refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tpsrl.episodes
from skills.book import make_skill
from skills.interface import SkillCall
from skills.motion.view import look, what_if
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.robot.fetch import RESET_ARM_TARGET
from tpsrl.sim.mujoco.engine import MujocoSimulator

DATA = Path(tpsrl.episodes.__file__).parent / "data"
DRAWER, FRIDGE = "kitchen_counter/drawer3", "fridge/top_door"
LIMITS = {"navigate": 300, "reset_arm": 50}


def first(name):
    found = load_episodes(DATA / f"{name}_val.json.gz")
    return next(iter(getattr(found, "episodes", found)))


@pytest.fixture(scope="module")
def sim():
    with MujocoSimulator(depth=None) as simulator:
        yield simulator


def carry_out(sim, call, seed=0):
    """Run a skill to its end; return (status, steps, actions)."""
    skill = make_skill(call.skill)
    skill.reset(sim, 0, call, seed)
    actions = []
    for _ in range(LIMITS.get(call.skill, 200) + 1):
        status = skill.status(sim, 0)
        if status.done or status.failed:
            return status, len(actions), actions
        actions.append(skill.act(sim, 0))
        sim.step(actions[-1][None])
    pytest.fail(f"{call.skill} did not end within its limit")


def test_rearranges_an_object(sim):
    episode = first("tidy_house")
    sim.reset([episode], [0])
    target = episode.targets[0]
    for call in (
        SkillCall("navigate", target=0, place="start"),
        SkillCall("reset_arm"),
        SkillCall("pick", target=0),
    ):
        status, _, actions = carry_out(sim, call)
        assert status.done, (call, status.reason)
        assert all(a.shape == (10,) and np.isfinite(a).all() for a in actions)
    view = look(sim, 0)
    assert view.held_object == target.object_index and view.rest_distance < 0.15
    for call in (
        SkillCall("reset_arm"),
        SkillCall("navigate", target=0, place="goal"),
        SkillCall("place", target=0),
    ):
        status, _, _ = carry_out(sim, call)
        assert status.done, (call, status.reason)
    view = look(sim, 0)
    assert not view.holding and view.rest_distance < 0.15
    sim.settle(1.0)
    off = np.linalg.norm(look(sim, 0).objects[target.object_index] - target.goal_pos)
    assert off < 0.15


def test_picks_up_what_lies_on_the_floor(sim):
    episode = first("tidy_house")
    sim.reset([episode], [0])
    index, navigation = episode.targets[0].object_index, sim.scene().navigation
    rng = np.random.default_rng(0)
    while navigation.clearance(spot := navigation.sample(rng)) < 0.6:
        pass
    sim.set_object(index, np.append(spot, 0.06), np.array([1.0, 0.0, 0.0, 0.0]))
    sim.settle(0.5)
    status, _, _ = carry_out(sim, SkillCall("navigate", target=0, place="start"))
    assert status.done, status.reason
    skill = make_skill("pick")
    skill.reset(sim, 0, SkillCall("pick", target=0), 0)
    for _ in range(200):  # of a plan; the way up to rest may go on in its arm reset
        sim.step(skill.act(sim, 0)[None])
        if skill.status(sim, 0).done:
            break
    view = look(sim, 0)
    assert view.held_object == index and view.objects[index, 2] > 0.1


def test_navigate_meets_the_benchmark_success(sim):
    episode = first("tidy_house")
    sim.reset([episode], [3])
    status, steps, actions = carry_out(sim, SkillCall("navigate", target=1, place="start"))
    assert status.done and steps > 10
    assert not any(a[:7].any() for a in actions), "navigation moves the base only"
    view = look(sim, 0)
    gap = view.objects[episode.targets[1].object_index][:2] - view.base[:2]
    bearing = np.arctan2(gap[1], gap[0]) - view.base[2]
    assert np.hypot(*gap) < 1.5
    assert abs((bearing + np.pi) % (2 * np.pi) - np.pi) < np.radians(15)


@pytest.mark.parametrize(
    ("kind", "joint", "least", "opened"),
    [("cab", DRAWER, 0.4, 0.45), ("fridge", FRIDGE, 1.17, 1.2)],
)
def test_opens_and_closes(sim, kind, joint, least, opened):
    sim.reset([first("set_table")], [0])
    index = sim.joint_names.index(joint)
    for skill in (f"open_{kind}", f"close_{kind}"):
        if skill.startswith("close"):
            sim.set_joint(joint, opened)
        status, _, _ = carry_out(sim, SkillCall("navigate", 0, "receptacle", joint))
        assert status.done, status.reason
        carry_out(sim, SkillCall("reset_arm"))
        status, _, _ = carry_out(sim, SkillCall(skill, joint=joint))
        assert status.done, status.reason
        value = look(sim, 0).joints[index]
        assert value > least if skill.startswith("open") else value < 0.05
        assert not look(sim, 0).holding and look(sim, 0).rest_distance < 0.15


def test_same_seed_same_actions(sim):
    runs = []
    for _ in range(2):
        sim.reset([first("tidy_house")], [5])
        runs.append(carry_out(sim, SkillCall("navigate", target=2, place="start"))[2])
    assert np.array_equal(np.array(runs[0]), np.array(runs[1]))


def test_what_if_leaves_no_trace(sim):
    episode = first("tidy_house")
    sim.reset([episode], [1])
    before = sim.state()
    with what_if(sim, 0) as world:
        counter = sim.scene().furniture_pose["kitchen_counter"]
        assert world.touches(counter, RESET_ARM_TARGET), "a robot inside the counter touches it"
        world.remove(0)
    after = sim.state()
    for name in ("base_pose", "arm_qpos", "arm_target", "object_pos", "joint_pos"):
        assert np.array_equal(getattr(before, name), getattr(after, name), equal_nan=True), name


def test_gives_up_with_a_reason(sim):
    episode = first("tidy_house")
    sim.reset([episode], [0])
    assert carry_out(sim, SkillCall("place", target=0))[0].reason == "object not held"
    assert "no target 99" in carry_out(sim, SkillCall("pick", target=99))[0].reason
    joint = "kitchen_counter/drawer1_bottom"
    assert "no handle" in carry_out(sim, SkillCall("open_cab", joint=joint))[0].reason
    assert "no furniture joint" in carry_out(sim, SkillCall("open_cab", joint="oven"))[0].reason
    index = episode.targets[0].object_index
    sim.set_object(index, np.array([0.0, 0.0, 2.2]), np.array([1.0, 0, 0, 0]))
    status, steps, _ = carry_out(sim, SkillCall("pick", target=0))
    assert status.failed and status.reason == "target out of reach" and steps <= 1


def test_wait_and_reset_arm(sim):
    sim.reset([first("tidy_house")], [0])
    before = look(sim, 0)
    assert carry_out(sim, SkillCall("wait", steps=7))[1] == 8
    carry_out(sim, SkillCall("reset_arm"))
    view = look(sim, 0)
    assert np.array_equal(view.base, before.base)
    assert np.abs(view.qpos - RESET_ARM_TARGET).max() < 0.05


def test_unknown_skill_is_refused():
    with pytest.raises(ValueError, match="choose from"):
        make_skill("juggle")


def test_put_back_goes_to_the_start(sim):
    episode = first("tidy_house")
    sim.reset([episode], [0])
    index = episode.targets[0].object_index
    home = episode.objects[index].pos
    episode = replace(episode, start=None)
    sim.snap_object(index)
    assert carry_out(sim, SkillCall("navigate", target=0, place="start"))[0].done
    carry_out(sim, SkillCall("reset_arm"))
    assert carry_out(sim, SkillCall("place", target=0, place="start"))[0].done
    assert np.linalg.norm(look(sim, 0).objects[index] - home) < 0.15
