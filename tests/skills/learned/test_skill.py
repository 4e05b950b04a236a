import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.interface import SkillCall
from skills.learned.cards import Card, common_depth, digest, policies_in, write_card
from skills.learned.factory import skill_factory
from skills.learned.find import find_policies, find_policy
from skills.learned.inference import NumpyPolicy
from skills.learned.skill import LearnedSkill
from skills.tasks.sensors import observe
from tests.skills.nets import STATE, saved_policy
from tpsrl.errors import UserError
from tpsrl.robot import fetch


@pytest.fixture(scope="module")
def env():
    made = SkillEnv("pick", **STATE)
    yield made
    made.close()


def _skill(tmp_path, name, stop=None):
    path = saved_policy(tmp_path / f"{name}.safetensors", name, stop)
    return LearnedSkill(Card(name, None), NumpyPolicy.load(path))


def _rests_here(skill, sim):
    """Take the hand's present place for the resting position."""
    skill._row = dataclasses.replace(skill._row, rest=np.asarray(skill._view(sim).ee)[0])
    skill._first_resting = np.zeros((1, 3))


def test_it_acts_as_the_policy_acts_in_its_environment(env, tmp_path):
    skill = _skill(tmp_path, "pick")
    policy = NumpyPolicy.load(tmp_path / "pick.safetensors")
    observation, _ = env.reset(seed=3)
    snapshot, call = env.sim.capture(0), env.worlds.origins[0].call
    bases = []
    for _ in range(8):
        observation, *_ = env.step(policy.step(observation))
        bases.append(env.sim.state().arm_qpos[0])
    env.sim.restore(snapshot, 0)
    skill.reset(env.sim, 0, call, 0)
    for wanted in bases:
        env.sim.step(skill.act(env.sim, 0)[None])
        np.testing.assert_array_equal(env.sim.state().arm_qpos[0], wanted)


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_the_chain_senses_what_the_environment_senses(skill):
    start = "start" if skill == "pick" else "goal"
    sensors = (f"obj_{start}_place", f"obj_{start}_in_base", "base_scan")
    made = SkillEnv(skill, **STATE, sensors=sensors)
    observation, _ = made.reset(seed=5)
    policy = SimpleNamespace(
        observations=dict.fromkeys(sensors), size=10, reset=lambda: None, did=lambda action: None
    )
    learned = LearnedSkill(Card(skill, None), policy)
    learned.reset(made.sim, 0, made.worlds.origins[0].call, 0)
    seen = observe(learned._view(made.sim, scanned=True), sensors)
    for name in sensors:
        np.testing.assert_array_equal(seen[name][0], observation[name])
    made.close()


def test_the_chain_senses_how_the_base_moves_as_the_environment_does():
    """Nothing at entry; nothing either where the base pushes against what it cannot pass."""
    made = SkillEnv(
        "navigate", **STATE, sensors=("goal_pace",), options={"failed_stop_ends": False}
    )
    seen, _ = made.reset(seed=1)
    ahead, felt = np.array([1.0, 0.0, -1.0], np.float32), []

    def step(senses, *drawn, **how):
        felt.append(senses["goal_pace"])
        return ahead

    policy = SimpleNamespace(
        observations={"goal_pace": (2,)}, size=3, reset=lambda: None, did=lambda action: None
    )
    policy.step = step
    learned = LearnedSkill(Card("navigate", None), policy)
    learned.reset(made.sim, 0, made.worlds.origins[0].call, 0)
    for _ in range(120):
        learned.act(made.sim, 0)
        np.testing.assert_array_equal(felt[-1], seen["goal_pace"])
        seen, *_ = made.step(ahead)
    assert not felt[0].any() and felt[1].any() and not felt[-1].any()
    made.close()


def test_memory_is_cleared_at_entry(env, tmp_path):
    env.reset(seed=3)
    skill, call = _skill(tmp_path, "pick"), env.worlds.origins[0].call
    skill.reset(env.sim, 0, call, 0)
    first = skill.act(env.sim, 0)
    assert not np.array_equal(skill.act(env.sim, 0), first)
    skill.reset(env.sim, 0, call, 0)
    np.testing.assert_array_equal(skill.act(env.sim, 0), first)


def test_navigation_stops_itself_but_not_beyond_two_metres(env, tmp_path):
    env.reset(seed=3)
    skill = _skill(tmp_path, "navigate", stop=1.0)
    episode, navigation = env.sim.episode(0), env.sim.scene(0).navigation
    target = np.asarray(episode.objects[episode.targets[0].object_index].pos)[:2]
    rng = np.random.default_rng(0)
    for radius, least, stops in ((4.0, 2.3, False), (1.9, 0.0, True)):
        xy = navigation.sample(rng, near=target, radius=radius, min_distance=least)
        env.sim.set_base(np.array([[*xy, 0.0]]), [0])
        skill.reset(env.sim, 0, SkillCall("navigate", target=0, place="start"), 0)
        assert not skill.status(env.sim, 0).done
        skill.act(env.sim, 0)
        assert skill.status(env.sim, 0).done is stops


def test_manipulation_ends_by_what_it_observes(env, tmp_path):
    env.reset(seed=3)
    call = env.worlds.origins[0].call
    pick, place = _skill(tmp_path, "pick"), _skill(tmp_path, "place")
    for skill in (pick, place):
        skill.reset(env.sim, 0, SkillCall(skill.name, target=call.target), 0)
        _rests_here(skill, env.sim)
    assert not pick.status(env.sim, 0).done
    env.sim.snap_object(env.sim.episode(0).targets[call.target].object_index, 0)
    assert pick.status(env.sim, 0).done
    assert not place.status(env.sim, 0).done
    env.sim.release([0])
    assert place.status(env.sim, 0).done


def test_open_ends_only_after_the_arm_has_been_away(env, tmp_path):
    env.reset(seed=3)
    rest = np.asarray(fetch.RESET_ARM_TARGET)
    env.sim.set_arm(rest[None], [0])
    skill = _skill(tmp_path, "open_fridge")
    skill.reset(env.sim, 0, SkillCall("open_fridge", joint="fridge/top_door"), 0)
    _rests_here(skill, env.sim)
    assert not skill.status(env.sim, 0).done
    away = rest.copy()
    away[0] += 1.2
    env.sim.set_arm(away[None], [0])
    assert not skill.status(env.sim, 0).done
    env.sim.set_arm(rest[None], [0])
    assert skill.status(env.sim, 0).done


def test_a_held_target_goes_back_to_where_it_lay(env, tmp_path):
    env.reset(seed=3)
    episode = env.sim.episode(0)
    index = episode.targets[0].object_index
    env.sim.snap_object(index, 0)
    skill = _skill(tmp_path, "place")
    skill.reset(env.sim, 0, SkillCall("place", target=0, place="start"), 0)
    np.testing.assert_allclose(skill._row.position, episode.objects[index].pos)


def test_folder_of_skills(tmp_path):
    saved_policy(tmp_path / "pick.safetensors", "pick")
    with pytest.raises(UserError, match=r"pick\.json"):
        policies_in(tmp_path)
    card = Card("pick", None, facts={"command": "tpsrl train skill=pick"})
    write_card(tmp_path / "pick.json", card)
    assert {name: found.card for name, found in policies_in(tmp_path).items()} == {"pick": card}
    make = skill_factory(policies_in(tmp_path))
    assert not make("pick").privileged
    assert make("place").privileged
    with pytest.raises(UserError, match="no such file or folder"):
        find_policies(tmp_path / "absent")
    with pytest.raises(UserError, match="different depth"):
        common_depth({"pick": Card("pick", 64), "place": Card("place", 128)})


def test_weights_that_a_card_was_not_written_for_are_refused(tmp_path):
    path = saved_policy(tmp_path / "pick.safetensors", "pick")
    write_card(
        tmp_path / "pick.json",
        Card("pick", None, facts={"evaluation": {"weights_sha256": digest(path)}}),
    )
    assert policies_in(tmp_path)["pick"].path == path
    saved_policy(path, "pick", 0.5)
    for read in (policies_in, lambda folder: find_policy(folder, "pick")):
        with pytest.raises(UserError, match=r"pick\.safetensors: is not the file that its card"):
            read(tmp_path)


def test_a_card_is_plain_values(tmp_path):
    write_card(tmp_path / "pick.json", Card("pick", None, facts={"command": "x"}))
    plain = {"skill": "pick", "depth": None, "actions": "full", "contract": "fixed", "command": "x"}
    assert json.loads((tmp_path / "pick.json").read_text()) == plain


def test_the_chain_goes_on_to_the_goal_as_the_environment_does():
    """Once the object is held, the way and what is seen of it are those to where it belongs."""
    sensors = ("way", "seen_way", "relief", "obj_start_sensor", "obj_goal_sensor")
    made = SkillEnv("rearrange_easy", depth=64, split="val", sensors=sensors)
    seen, _ = made.reset(seed=4)
    still, felt = np.zeros(made.action_space.shape, np.float32), []
    still[7], still[-1] = 1.0, -1.0

    def step(senses, *drawn, **how):
        felt.append(senses)
        return still

    policy = SimpleNamespace(
        observations=dict.fromkeys(sensors), size=11, reset=lambda: None, did=lambda action: None
    )
    policy.step = step
    learned = LearnedSkill(Card("rearrange_easy", None), policy)
    learned.reset(made.sim, 0, made.worlds.origins[0].call, 0)
    made.sim.snap_object(made.worlds._rows[0].target, 0)
    for _ in range(3):
        seen, *_ = made.step(still)
        learned.act(made.sim, 0)
        for name in ("way", "relief", "obj_start_sensor", "obj_goal_sensor"):
            np.testing.assert_array_equal(felt[-1][name], seen[name])
    assert learned._row.leg == 1 and made.worlds._rows[0].leg == 1
    np.testing.assert_allclose(felt[-1]["seen_way"], seen["seen_way"], atol=1e-5)
    made.close()
