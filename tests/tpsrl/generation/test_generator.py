"""Generated episodes keep the rules; each is measured here anew, in the engine."""

from collections import Counter

import numpy as np
import pytest

from tpsrl.errors import UserError
from tpsrl.generation.generator import Generator
from tpsrl.generation.rules import load_scenario, scenario_names, with_clutter
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.geometry import receptacle_box
from tpsrl.sim.mujoco.engine import MujocoSimulator

OPEN_TOPS = {"chair", "table_01", "table_02", "tvstand", "sink", "sofa"}
OPEN_TOPS |= {"counter_left", "counter_right"}
LABELS = {
    "tidy_house": [f"any_targets|{i}" for i in range(5)],
    "prepare_groceries": ["obj0_target|0", "obj1_target|1", "obj2_target|2"],
    "set_table": ["bowl_target|0", "fruit_target|1"],
    "rearrange_easy": ["goal0|0"],
    "in_drawer": [],
    "in_fridge": [],
}
OBJECTS = {
    "tidy_house": 30,
    "prepare_groceries": 30,
    "set_table": 29,
    "rearrange_easy": 30,
    "in_drawer": 1,
    "in_fridge": 1,
}


@pytest.fixture(scope="module")
def made():
    """Three episodes of every scenario."""
    out = {}
    for name in scenario_names():
        generator = Generator(load_scenario(name), "val", seed=3)
        out[name] = [generator.make(i).episode for i in range(3)]
        generator.close()
    return out


@pytest.fixture(scope="module")
def sim():
    with MujocoSimulator(1, depth=None) as sim:
        yield sim


ALL = pytest.mark.parametrize("name", sorted(LABELS))


@ALL
def test_objects_targets_and_labels(made, name):
    for e in made[name]:
        assert e.scenario == name
        assert e.layout.startswith("sc3_")
        assert [t.label for t in e.targets] == LABELS[name]
        # clutter that fell while settling is left out
        assert OBJECTS[name] - 3 <= len(e.objects) <= OBJECTS[name]
        assert max(Counter(o.type for o in e.objects).values()) <= 5
        assert [o.type for o in e.objects] == sorted(o.type for o in e.objects)
        on = Counter(o.receptacle for o in e.objects)
        assert on["chair"] <= 2
        assert on["sink"] <= 2
        assert {"cab_push_point_5", "fridge_push_point"} <= set(e.markers)


@ALL
def test_start_and_goal_are_apart(made, name):
    for e in made[name]:
        for t in e.targets:
            assert np.linalg.norm(e.objects[t.object_index].pos - t.goal_pos) >= 0.45


def test_receptacles_and_joints_of_the_benchmark(made):
    for e in made["tidy_house"]:
        assert {t.goal_receptacle for t in e.targets} <= OPEN_TOPS
        assert {o.receptacle for o in e.objects} <= OPEN_TOPS
        assert dict(e.joints) == {}
    for e in made["prepare_groceries"]:
        starts = [t.start_receptacle for t in e.targets]
        goals = [t.goal_receptacle for t in e.targets]
        assert starts[:2] == ["fridge_middle", "fridge_middle"]
        assert goals[2] == "fridge_middle"
        assert {starts[2], *goals[:2]} <= {"counter_left", "counter_right"}
        assert dict(e.joints) == {"fridge/top_door": 1.5}
    for e in made["set_table"]:
        assert [t.start_receptacle for t in e.targets] == ["drawer_right_top", "fridge_middle"]
        assert [t.goal_receptacle for t in e.targets] == ["table_01", "table_01"]
        assert [e.objects[t.object_index].type for t in e.targets] == ["024_bowl", "013_apple"]
        assert dict(e.joints) == {}
    for e in made["in_drawer"]:
        assert e.objects[0].receptacle.startswith("drawer_")
    for e in made["in_fridge"]:
        assert e.objects[0].receptacle == "fridge_middle"


def test_rearrange_easy_opens_the_container_that_is_used():
    generator = Generator(load_scenario("rearrange_easy"), "train", seed=0)
    doors = {"fridge_middle": "fridge/top_door", "drawer_left_top": "kitchen_counter/drawer1_top"}
    doors |= {"drawer_middle_top": "kitchen_counter/drawer2_top"}
    doors |= {"drawer_right_top": "kitchen_counter/drawer3"}
    opened = 0
    for i in range(8):
        e = generator.make(i).episode
        (t,) = e.targets
        used = {doors[r] for r in (t.start_receptacle, t.goal_receptacle) if r in doors}
        assert set(e.joints) == used
        assert all(q == (1.5 if "fridge" in j else 0.5) for j, q in e.joints.items())
        opened += len(used)
    assert opened > 0


@ALL
def test_objects_lie_on_their_receptacles_and_stay(made, sim, name):
    apartment = load_apartment()
    joints = {"drawer_left_top": "drawer1_top", "drawer_middle_top": "drawer2_top"}
    joints |= {"drawer_right_top": "drawer3"}
    for e in made[name]:
        for o in e.objects:
            joint = f"kitchen_counter/{joints.get(o.receptacle)}"
            q = e.joints.get(joint, 0.0)
            box = receptacle_box(apartment, apartment.layouts[e.layout], o.receptacle, q)
            assert box.contains(o.pos, margin=0.1), o.instance
        sim.reset([e], [0])
        assert not sim.robot_contacts()
        sim.settle(2.0)
        moved = sim.state().object_pos[0, : len(e.objects)] - [o.pos for o in e.objects]
        assert np.linalg.norm(moved, axis=1).max() < 0.01
        assert sim.deepest_overlap() < 0.003


@pytest.mark.parametrize("name", ["tidy_house", "prepare_groceries", "set_table"])
def test_goals_are_free_supported_and_within_reach(made, sim, name):
    for e in made[name]:
        sim.reset([e], [0])
        navigation = sim.scene().navigation
        for t in e.targets:
            assert np.linalg.norm(navigation.snap(t.goal_pos[:2]) - t.goal_pos[:2]) <= 0.85
            start = e.objects[t.object_index].pos
            if t.start_receptacle != "drawer_right_top":  # it comes out with its drawer
                assert np.linalg.norm(navigation.snap(start[:2]) - start[:2]) <= 0.85
            sim.set_object(t.object_index, t.goal_pos, t.goal_quat)
        before = sim.state().object_pos[0, : len(e.objects)].copy()
        sim.settle(2.0)
        after = sim.state().object_pos[0, : len(e.objects)]
        assert np.linalg.norm(after - before, axis=1).max() < 0.01
        assert sim.deepest_overlap() < 0.003


def test_same_seed_same_episode_and_other_seed_another(made):
    scenario = load_scenario("tidy_house")
    again = Generator(scenario, "val", seed=3).make(2).episode
    other = Generator(scenario, "val", seed=4).make(2).episode
    first = made["tidy_house"][2]
    assert again.layout == first.layout
    for a, b in zip(again.objects, first.objects, strict=True):
        assert a.instance == b.instance
        np.testing.assert_array_equal(a.pos, b.pos)
        np.testing.assert_array_equal(a.quat, b.quat)
    positions = [o.pos.tolist() for o in other.objects]
    assert positions != [o.pos.tolist() for o in first.objects]


def test_splits_use_their_own_layouts():
    scenario = load_scenario("in_fridge")
    for split, macros in {"train": {"sc0", "sc1", "sc2"}, "test": {"sc4"}}.items():
        generator = Generator(scenario, split, seed=0)
        assert {n.split("_")[0] for n in generator.layouts} == macros
        assert len(generator.layouts) == 21 * len(macros)
        assert generator.make(0).episode.layout in generator.layouts
    with pytest.raises(UserError, match="unknown split 'vall'; did you mean 'val'"):
        Generator(scenario, "vall", seed=0)


def test_every_layout_is_used_once_before_any_is_used_twice():
    generator = Generator(load_scenario("in_fridge"), "val", seed=1)
    layouts = [generator.make(i).episode.layout for i in range(21)]
    assert len(set(layouts)) == 21


def test_less_clutter():
    for count in (0, 3):
        scenario = with_clutter(load_scenario("set_table"), count)
        e = Generator(scenario, "val", seed=0).make(0).episode
        assert len(e.objects) == 2 + count


def test_an_impossible_scenario_says_why():
    scenario = load_scenario("tidy_house")
    for sampler in scenario.samplers.values():
        sampler.receptacles = ["chair"]
    for goal in scenario.goals.values():
        goal.receptacles = ["chair"]
    with pytest.raises(UserError, match="episode 0: none of 48 draws was usable"):
        Generator(scenario, "val", seed=0).make(0)


def test_unknown_names_in_a_scenario():
    scenario = load_scenario("in_fridge")
    scenario.samplers["fridge"].receptacles = ["frige"]
    with pytest.raises(UserError, match="unknown receptacle 'frige'"):
        Generator(scenario, "val", seed=0)
    scenario = load_scenario("in_fridge")
    scenario.samplers["fridge"].objects = ["can"]
    with pytest.raises(UserError, match="unknown object 'can'"):
        Generator(scenario, "val", seed=0)
    with pytest.raises(
        UserError, match=r"unknown scenario 'tidyhouse', .*; did you mean 'tidy_house'"
    ):
        load_scenario("tidyhouse")
