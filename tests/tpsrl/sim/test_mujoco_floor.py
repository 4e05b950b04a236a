"""The floor is as wide as the apartment, however far that reaches from the origin."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skills.tasks.starts import free_points
from tests.tpsrl.sim import small
from tpsrl.sim.mujoco.engine import MujocoSimulator


@pytest.mark.parametrize("half", [3.0, 30.0])
def test_there_is_ground_as_far_as_the_robot_may_go(half: float) -> None:
    corners = np.array([[-half, -half], [half, half]])
    apartment = dataclasses.replace(small.apartment(), bounds=corners)
    pool = dict.fromkeys(small.types(), 1)
    with MujocoSimulator(pool=pool, apartment=apartment, types=small.types()) as sim:
        sim.reset([small.episode()], [0])
        points = np.array([[half - 0.6, half - 0.6, 1.0], [0.5 - half, 0.6 - half, 1.0]])
        assert sim.cast(points, np.array([0.0, 0.0, -1.0])) == pytest.approx([1.0, 1.0])
        points = free_points(sim.scene(0).navigation)
        assert points.max() > half - 0.6 and points.min() < 0.6 - half
