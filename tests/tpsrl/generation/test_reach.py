"""What the generator takes to be within the robot's reach, and free places."""

import numpy as np
import pytest

from tpsrl.generation.draw import Draft, Drawer
from tpsrl.generation.placement import Placement, Placer
from tpsrl.generation.prisms import Solids
from tpsrl.generation.reach import REACH, approach, from_above
from tpsrl.generation.room import Pose, Room
from tpsrl.generation.rules import Scenario
from tpsrl.geometry.rotations import yaw_quat
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.scene_info import SceneLibrary

LAYOUT = "sc3_staging_00"
CAN = "005_tomato_soup_can"
TALL = "003_cracker_box"


@pytest.fixture(scope="module")
def room():
    apartment = load_apartment()
    return Room(apartment, SceneLibrary(apartment).scene(LAYOUT))


@pytest.fixture(scope="module")
def placer(room):
    return Placer(room, object_types())


def on(room, placer, kind, receptacle, x, y):
    """Outline of an object at a point of a receptacle given in half sizes."""
    box = room.boxes[receptacle]
    pos = box.center + box.rotation @ (np.array([x, y, -1.0]) * box.half_size)
    pos[2] += object_types()[kind].half_size[2] + 0.001
    yaw = np.arctan2(box.rotation[1, 0], box.rotation[0, 0])
    return placer.outline(kind, Pose(pos, yaw_quat(yaw)), kind)


def test_fridge_needs_an_open_door(room, placer):
    can = on(room, placer, CAN, "fridge_middle", 0.5, 0.0)
    assert not from_above(can, room.closed)
    furniture, navigation = room.opened({"fridge/top_door": 1.5})
    stand = approach(can, navigation, furniture, Solids())
    assert stand is not None
    middle = np.array(can.polygon.centroid.coords[0])
    assert np.linalg.norm(stand - middle) <= REACH + 1e-9
    assert navigation.is_navigable(stand)
    assert approach(can, room.scene.navigation, room.closed, Solids()) is None


def test_fridge_clutter_hides_what_is_behind_it(room, placer):
    furniture, navigation = room.opened({"fridge/top_door": 1.5})
    back = on(room, placer, CAN, "fridge_middle", -0.5, 0.0)
    front = on(room, placer, TALL, "fridge_middle", 0.5, 0.0)
    beside = on(room, placer, TALL, "fridge_middle", 0.5, 0.9)
    assert approach(back, navigation, furniture, Solids()) is not None
    assert approach(back, navigation, furniture, Solids([front])) is None
    assert approach(back, navigation, furniture, Solids([beside])) is not None
    assert approach(front, navigation, furniture, Solids([back])) is not None


def test_drawer_is_reached_when_pulled_out_only(room, placer):
    joint = "kitchen_counter/drawer3"
    assert room.container_of("drawer_right_top") == joint
    shut = on(room, placer, "024_bowl", "drawer_right_top", 0.5, 0.0)
    assert approach(shut, room.scene.navigation, room.closed, Solids()) is None
    box = room.boxes["drawer_right_top"]
    pose = Pose(np.array([*shut.polygon.centroid.coords[0], box.center[2]]), yaw_quat(0.0))
    moved = room.moved(pose, "drawer_right_top", 0.0, 0.45)
    np.testing.assert_allclose(moved.pos - pose.pos, box.rotation[:, 0] * 0.45, atol=1e-9)
    back = room.moved(moved, "drawer_right_top", 0.45, 0.0)
    np.testing.assert_allclose(back.pos, pose.pos, atol=1e-9)
    furniture, navigation = room.opened({joint: 0.45})
    low = object_types()["024_bowl"].half_size[2]
    pulled = Pose(np.array([*moved.pos[:2], shut.bottom + low]), yaw_quat(0.0))
    outline = placer.outline("024_bowl", pulled, "bowl")
    assert approach(outline, navigation, furniture, Solids()) is not None


def test_surfaces_are_reached_over_clutter(room, placer):
    can = on(room, placer, CAN, "counter_left", 0.0, 0.0)
    wall = [on(room, placer, TALL, "counter_left", 0.9, y) for y in (-0.4, -0.2, 0.0, 0.2, 0.4)]
    assert approach(can, room.scene.navigation, room.closed, Solids(wall)) is not None


def test_placement_stands_on_its_receptacle_and_clear_of_the_rest(room, placer):
    rng = np.random.default_rng(0)
    taken = Solids()
    for name in ("table_01", "sink", "fridge_middle", "drawer_left_top", "sofa", "tvstand"):
        for _ in range(2):
            place = placer.sample(rng, "009_gelatin_box", name, taken)
            assert place is not None
            p = place.prism
            assert not taken.near(p.polygon, p.bottom, p.top)
            assert not room.closed.near(p.polygon, p.bottom, p.top)
            below = room.closed.near(p.polygon, p.bottom - 0.002, p.bottom)
            assert {b.owner for b in below} == {room.link_of(name)}
            assert room.boxes[name].contains(place.pose.pos, margin=0.01)
            taken.add(p)


def test_a_full_receptacle_takes_no_more(room, placer):
    box = room.boxes["chair"]
    middle = Pose(box.center, yaw_quat(0.0))
    plug = placer.outline(TALL, middle, "plug")
    everywhere = Solids(
        [type(plug)(plug.polygon.buffer(2.0), 0.0, 3.0, "plug")],
    )
    assert placer.sample(np.random.default_rng(0), CAN, "chair", everywhere) is None


def test_what_is_too_tall_for_a_drawer_finds_no_place(room, placer):
    """A bleach bottle (0.25 m) would stop the drawer (0.2 m) from closing."""
    rng = np.random.default_rng(0)
    assert placer.sample(rng, "021_bleach_cleanser", "drawer_left_top", Solids()) is None


@pytest.mark.parametrize(
    ("place", "joint", "x"),
    [
        ("fridge_middle", "fridge/top_door", 0.5),
        ("drawer_left_top", "kitchen_counter/drawer3", 0.0),
    ],
)
def test_a_container_that_starts_ajar_is_opened_all_the_same(room, placer, place, joint, x):
    drawer = Drawer(Scenario(samplers={}), room, placer)
    box = room.boxes[place]
    pos = box.center + box.rotation @ (np.array([x, 0.0, -1.0]) * box.half_size)
    pos[2] += object_types()[CAN].half_size[2] + 0.001
    pose = Pose(pos, yaw_quat(np.arctan2(box.rotation[1, 0], box.rotation[0, 0])))
    can = Placement(CAN, place, pose, placer.outline(CAN, pose, CAN))
    for start in (0.0, 0.1):
        drawer.check_reach(can, Draft((), (), {joint: start}), Solids())
