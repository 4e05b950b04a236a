"""The course knows the whole apartment, and not what lies between its pieces of furniture alone."""

import numpy as np
import pytest

from skills.tasks.course import EVERYWHERE, FAN, Course
from skills.tasks.travel import Pace, SpeedMap
from tpsrl.scenes.apartment import load_apartment
from tpsrl.sim.navigation import GridNavigation
from tpsrl.sim.scene_info import SceneLibrary


@pytest.mark.parametrize("layout", ["sc2_staging_05", "wide_0063"])
@pytest.mark.parametrize("fan", [None, np.full(FAN, np.inf)])
def test_the_way_gets_shorter_from_the_farthest_corner_on(layout, fan):
    scene = SceneLibrary(load_apartment()).scene(layout)
    navigation = scene.navigation
    goal = np.array(scene.furniture_pose["kitchen_counter"][:2])
    course = Course(scene, goal, fan, (), EVERYWHERE)
    geodesic = navigation.distance_field(navigation.snap(goal)[None])
    places = np.array(list(scene.furniture_pose.values()))[:, :2]
    outside = np.maximum(
        places.min(axis=0) - navigation.nodes, navigation.nodes - places.max(axis=0)
    )
    far = navigation.nodes[np.argmax(outside.max(axis=1))]
    assert outside.max() > 0.6  # or the layout tells nothing
    here, lengths = far, []
    for _ in range(4):
        length, x, y = course.look(here)
        there = geodesic.descend(here, 0.4)
        assert np.dot([x, y], there - here) > 0.0
        lengths.append(length)
        here = there
    assert np.all(np.diff(lengths) < -0.2)


def test_a_part_of_the_map_has_the_speeds_of_that_part():
    """A library that is given a view of an array must not read the array instead."""
    block = np.array([[-0.6, -0.4], [0.6, -0.4], [0.6, 0.4], [-0.6, 0.4]])
    navigation = GridNavigation((block,), np.array([[-3.0, -3.0], [3.0, 3.0]]))
    speeds = SpeedMap(navigation, *navigation.bounds, Pace(comfort=1.0, slowest=0.2))
    ends = np.linalg.norm(speeds.nodes - [-2.0, 0.0], axis=-1) < 0.2
    whole = speeds.time_to(ends, (slice(None), slice(None)))
    part = (slice(0, 60), slice(20, 100))
    near = speeds.free[part] & (np.linalg.norm(speeds.nodes[part] - [-2.0, 0.0], axis=-1) < 1.0)
    found = speeds.time_to(ends[part], part)
    assert found[near] == pytest.approx(whole[part][near], rel=0.02)
    assert 0.5 < found[near].max() < 3.0
