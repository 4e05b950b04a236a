"""The laws of Pick and Place for the fridge, and environments about one kind of place."""

import contextlib
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.motion.view import look
from skills.superseded.imitation.collect import CollectOptions, record_episode
from skills.superseded.laws.above import PickFromAbove, PlaceFromAbove
from skills.superseded.laws.cabinet import PickInCabinet, PlaceInCabinet
from skills.superseded.laws.teachers import PickByPlace, PlaceByPlace, make_teacher
from skills.tasks.places import kind_of
from tests.skills.nets import STATE
from tpsrl import episodes
from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.errors import UserError
from tpsrl.geometry.rotations import wrap

EPISODES = Path(next(iter(episodes.__path__))) / "data" / "prepare_groceries_val.json.gz"
GROCERIES = {**STATE, "episodes": EPISODES}


@pytest.fixture(params=["pick", "place"])
def fridge(request):
    with contextlib.closing(SkillEnv(request.param, **GROCERIES, places=["cabinet"])) as env:
        yield env


def place(env):
    goal = env.worlds.view.goal
    rows = goal.start_place if env.worlds.task.name == "pick" else goal.goal_place
    return np.asarray(rows)[0]


def test_the_law_succeeds(fridge):
    found = [record_episode(fridge, seed, CollectOptions(noise=0.0)) for seed in range(8)]
    assert sum(d.success for d in found) >= 5
    assert np.median([len(d) for d in found if d.success]) < 190


def test_the_law_comes_through_the_front(fridge):
    for seed in range(3):
        fridge.reset(seed=seed)
        call, inward = fridge.worlds.origins[0].call, place(fridge)
        law = make_teacher(call.skill)
        law.reset(fridge.sim, 0, call, seed)
        held = look(fridge.sim, 0).holding
        for _ in range(250):
            action = law.act(fridge.sim, 0)[None]
            fridge.worlds.sim.step(action)
            if look(fridge.sim, 0).holding != held:
                break
        else:
            continue
        yaw = look(fridge.sim, 0).base[2]
        assert abs(wrap(yaw - np.arctan2(-inward[1], -inward[0]))) < 0.85


def test_the_law_is_a_function_of_the_present_state(fridge):
    fridge.reset(seed=1)
    call = fridge.worlds.origins[0].call
    first, second = make_teacher(call.skill), make_teacher(call.skill)
    first.reset(fridge.sim, 0, call, 0)
    for _ in range(40):
        fridge.worlds.sim.step(first.act(fridge.sim, 0)[None])
    second.reset(fridge.sim, 0, call, 7)  # knows nothing of what came before
    np.testing.assert_array_equal(first.act(fridge.sim, 0), second.act(fridge.sim, 0))


def test_all_starts_are_about_the_kind_of_place(fridge):
    for seed in range(6):
        fridge.reset(seed=seed)
        assert kind_of(place(fridge)) == "cabinet"


def test_the_kind_of_place_decides_which_law_teaches():
    for name, above, own in (
        ("pick", PickFromAbove, PickInCabinet),
        ("place", PlaceFromAbove, PlaceInCabinet),
    ):
        for kind, law in (("open", above), ("cabinet", own)):
            with contextlib.closing(SkillEnv(name, **GROCERIES, places=[kind])) as env:
                env.reset(seed=0)
                teacher = make_teacher(name)
                teacher.reset(env.sim, 0, env.worlds.origins[0].call, 0)
                assert isinstance(teacher, PickByPlace | PlaceByPlace)
                assert type(teacher.law) is law


def test_bad_places_are_refused():
    with pytest.raises(UserError, match="no kind 'fridge'"):
        SkillEnv("pick", **STATE, places=["fridge"])
    with pytest.raises(UserError, match="pick and place, not of 'navigate'"):
        SkillEnv("navigate", **STATE, places=["cabinet"])


def test_a_kind_that_no_episode_has_is_reported(tmp_path):
    one = dataclasses.replace(
        load_episodes(EPISODES), episodes=load_episodes(EPISODES).episodes[:1]
    )
    save_episodes(tmp_path / "one.json.gz", one)  # many layouts would have to be built
    env = SkillEnv("pick", **{**STATE, "episodes": tmp_path / "one.json.gz"}, places=["drawer"])
    with contextlib.closing(env), pytest.raises(UserError, match="lies in a place of kind"):
        env.reset(seed=0)
