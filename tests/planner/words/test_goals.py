"""Goals in words and their plans: by hand, with plans that were read, and generated."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pyperplan.planner import HEURISTICS, SEARCHES, search_plan

from planner import Atom
from planner.chain.errand import about
from planner.chain.problems import GOAL_PREFIX
from planner.pddl import to_pddl
from planner.words import errand_for
from planner.words.lexicon import lexicon
from planner.words.order import plan_on
from tests.planner.words.written import written_goals
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError
from tpsrl.scenes.objects import object_types

WRITTEN = written_goals()


@cache
def episodes(scenario: str):
    return load_shipped(scenario).episodes


def plans(errand):
    return plan_on(errand.problem(), errand.goals)


def test_there_are_forty():
    assert len(WRITTEN) >= 40 and len({w["goal"] for w in WRITTEN}) == len(WRITTEN)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda w: w["goal"][:40])
def test_written_goals_have_their_plans(written):
    errand = errand_for(episodes(written["scenario"])[written["episode"]], written["goal"])
    found = ["; ".join(plan.text()) for plan in plans(errand)]
    assert found == written["plan"]


GENERATED = [
    (scenario, index, seed)
    for seed, scenario in enumerate(["set_table", "tidy_house", "prepare_groceries"] * 4)
    for index in (seed % 3,)
]


@pytest.mark.parametrize(("scenario", "index", "seed"), GENERATED)
def test_generated_goals_mean_what_they_were_made_of(scenario, index, seed, tmp_path):
    """Sentences made of known objects and places come back as those objects and places."""
    rng, episode, words = random.Random(seed), episodes(scenario)[index], lexicon()
    open_places = ["table_01", "table_02", "sofa", "counter_left", "counter_right", "tvstand"]
    wanted = {}
    for target in rng.sample(episode.targets, min(2, len(episode.targets))):
        wanted[target.object_index] = rng.choice(open_places)
    parts = []
    for k, place in wanted.items():
        o = episode.objects[k]
        lies = words.place_name(o.receptacle)
        verb = rng.choice(["bring", "carry", "move", "take"])
        parts.append(
            f"{verb} the {words.object_name(o.type)} from the {lies}"
            f" to the {words.place_name(place)}"
        )
    errand = errand_for(episode, rng.choice([" and ", ", then "]).join(parts))
    met = {t.object_index: t.goal_receptacle for t in errand.targets}
    kinds = {(episode.objects[k].type, place) for k, place in wanted.items()}
    assert {(episode.objects[k].type, place) for k, place in met.items()} == kinds
    last = plans(errand)[-1]
    assert set(last.problem.goal) <= last.states[-1]
    assert {Atom("object_at", (t.label, GOAL_PREFIX + t.label)) for t in errand.targets} <= set(
        errand.goals[-1]
    )
    whole = about(errand.problem(), errand.goals[-1])
    files = [tmp_path / "domain.pddl", tmp_path / "problem.pddl"]
    for path, text in zip(files, to_pddl(whole), strict=True):
        path.write_text(text)
    found = search_plan(*map(str, files), SEARCHES["astar"], HEURISTICS["lmcut"])
    assert len(found) <= sum(len(plan) for plan in plans(errand))


def test_a_drawn_goal_is_the_same_every_time_and_free():
    episode = episodes("tidy_house")[0]
    one, two = (errand_for(episode, "bring a can and a bowl to the coffee table") for _ in "ab")
    assert [t.goal_pos.tolist() for t in one.targets] == [t.goal_pos.tolist() for t in two.targets]
    (a, b), lying = (t.goal_pos for t in one.targets), [o.pos for o in episode.objects]
    assert ((a - b) ** 2).sum() > 0.05**2
    assert all(((a - pos) ** 2).sum() > 0.05**2 for pos in lying)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "bring the aple to the tabel",
            "'aple' (did you mean 'apple'?), 'tabel' (did you mea",
        ),
        ("qqqqq", "unknown word 'qqqqq'"),
        ("", "asks for nothing"),
        ("the apple", "a verb is missing before 'the apple'"),
        ("bring the apple", "does not say where 'the apple' goes"),
        ("bring the table to the sofa", "a thing is missing before 'table to the sofa'"),
        ("bring the apple to the bowl", "a place is missing before 'bowl'"),
        ("take it", "'it' stands for nothing"),
        ("bring the banana to the table", "has no 'the banana'; it has apple, 5 x bowl"),
        ("bring both bowls to the sofa", "'both bowls' does not fit"),
        ("take all bowls", "the robot has one hand"),
        ("open the sofa", "'the sofa' has no handle"),
        ("put the apple in the drawer", "a place in it moves when it is opened"),
        ("bring the apple to the sofa and bring the apple to the table", "to two places"),
        ("bring the cracker box to its place", "has no place of its own"),
        ("take the soup in the fridge and close the fridge", "no plan reaches the goal"),
    ],
)
def test_what_means_nothing_is_refused_in_one_sentence(words, message):
    with pytest.raises(UserError) as caught:
        errand_for(episodes("set_table")[0], words)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_every_place_and_object_has_a_name_that_is_its_own():
    words = lexicon()
    places = {name for names in words.places.values() for name in names}
    assert len({words.place_name(place) for place in places}) == len(places)
    for phrase in words.objects:
        assert words.places.get(phrase) is None, phrase


def test_the_words_file_is_part_of_what_is_installed():
    from tpsrl.rooms import CONFIGS

    assert (CONFIGS / "words.yaml").is_file() and isinstance(CONFIGS, Path)


DRAWERS = [f"opened_cab(cab_push_point_{number})" for number in (4, 5, 6, 7)]


@pytest.mark.parametrize("words", ["every drawer", "each drawer", "all of the drawers", "drawers"])
def test_all_places_of_a_name_are_opened(words):
    (goal,) = errand_for(episodes("set_table")[0], f"open {words}").goals
    assert [str(atom) for atom in goal[:-1]] == DRAWERS


@pytest.mark.parametrize("words", ["one of the drawers", "a drawer", "the drawer"])
def test_one_place_of_a_name_is_opened(words):
    (goal,) = errand_for(episodes("set_table")[0], f"open {words}").goals
    assert len(goal) == 2 and str(goal[0]) in DRAWERS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("open two drawers", "'two drawers' does not say which places; name each"),
        ("bring the apple to both tables", "'both tables' does not say which places; name the one"),
        ("put the apple on every table", "'every table' does not say which places; name the one"),
        ("go to all tables", "'all tables' does not say which places"),
    ],
)
def test_a_number_of_places_is_not_read_as_one_or_all(words, message):
    with pytest.raises(UserError) as caught:
        errand_for(episodes("set_table")[0], words)
    assert message in str(caught.value)


def test_things_come_from_all_places_of_a_name():
    episode = episodes("tidy_house")[0]
    every = errand_for(episode, "bring all cans from all counters to the sofa")
    assert every.goals == errand_for(episode, "bring all cans from counters to the sofa").goals


def test_what_goes_into_one_open_drawer_lies_side_by_side():
    kinds, found = object_types(), 0
    for episode in episodes("rearrange_easy")[:40]:
        names = {item.type for item in episode.objects}
        if not {"007_tuna_fish_can", "018_plum"} <= names:
            continue
        try:
            errand = errand_for(episode, "put a tuna can and a plum into the left drawer")
        except UserError:  # shut, or full
            continue
        one, two = errand.targets
        sizes = [kinds[episode.objects[t.object_index].type].half_size[:2] for t in (one, two)]
        apart = np.linalg.norm((one.goal_pos - two.goal_pos)[:2])
        assert apart > min(sizes[0]) + min(sizes[1]), episode.episode_id
        found += 1
    assert found


def test_clauses_alike_are_stages_of_their_own():
    goal = (
        "open the fridge, take the apple, close it, put the apple on the sofa, open the right"
        " drawer, close it and go to the sofa"
    )
    stages = errand_for(episodes("set_table")[0], goal).stages
    assert len(stages) == 7
    assert stages["close it"] != stages["close it (2)"]
    assert list(stages).index("close it (2)") == 5
