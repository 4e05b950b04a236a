"""What a policy that knows the state is told of how its object is turned and where it may stand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.tasks.around import half_size
from skills.tasks.sensors import observe
from skills.tasks.state import BEARINGS, View, stack_goals
from tests.skills.nets import STATE
from tpsrl.geometry.rotations import rotation_matrix, turn


@pytest.fixture(scope="module")
def place():
    env = SkillEnv("place", **STATE, sensors=("state", "course"))
    yield env
    env.close()


def test_the_box_is_the_objects_own_turned_as_it_hangs(place):
    tilted = 0
    for seed in range(4):
        seen, _ = place.reset(seed=seed)
        state, row = place.sim.state(), place.worlds._rows[0]
        size = half_size(place.sim.episode(0).objects[row.target].type)
        axes = rotation_matrix(state.object_quat[0, row.target]) * size
        home = turn(-state.base_pose[0, 2])
        expected = np.concatenate([home @ axes[:2], axes[2:]]).T
        np.testing.assert_allclose(seen["target_box"].reshape(3, 3), expected, atol=1e-6)
        np.testing.assert_allclose(
            np.linalg.norm(seen["target_box"].reshape(3, 3), axis=1), size, atol=1e-6
        )
        tilted += np.sum(np.abs(expected) > 0.005) > 3
    assert tilted


def test_the_surface_reaches_as_far_as_something_carries(place):
    ended = 0
    for seed in range(8):
        seen, _ = place.reset(seed=seed)
        sim, row = place.sim, place.worlds._rows[0]
        yaw = sim.state().base_pose[0, 2]
        below = sim.cast(row.position[None], np.array([0.0, 0.0, -1.0]))[0]
        for side, reach in enumerate(seen["rim"]):
            # To the nearest of the directions in which it was looked.
            angle = round(yaw * BEARINGS / math.tau) / BEARINGS * math.tau + side * math.pi / 4
            way = np.array([math.cos(angle), math.sin(angle), 0.0])
            steps = np.arange(1, 7) * 0.04
            down = sim.cast(row.position + steps[:, None] * way, np.array([0.0, 0.0, -1.0]))
            carried = down < below + 0.03
            far = 6 if carried.all() else int(np.argmin(carried))
            assert reach == pytest.approx(0.04 * far, abs=1e-6)
            ended += far < 6
    assert 0 < ended < 64


def test_the_rim_turns_with_the_base(place):
    place.reset(seed=1)
    state, row = place.sim.state(), place.worlds._rows[0]
    row = dataclasses.replace(row, rim=np.arange(float(BEARINGS)))
    goal = stack_goals([row], state.base_pose)
    for yaw, first in ((0.0, 0), (math.pi / 2, 6), (-math.pi / 2, 18), (3.1, 12)):
        pose = np.array([[0.0, 0.0, yaw]])
        turned = observe(View(dataclasses.replace(state, base_pose=pose), goal), ("rim",))["rim"]
        np.testing.assert_array_equal(turned[0], (first + 3 * np.arange(8)) % BEARINGS)
