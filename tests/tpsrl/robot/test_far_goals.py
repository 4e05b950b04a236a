"""A goal that has left the world, as an object that was flung away, costs no more than others."""

from __future__ import annotations

import numpy as np
import pytest

from tpsrl.robot.occupancy import OccupancyGrid


@pytest.mark.parametrize("far", [31.0, 4000.0])
def test_a_grid_does_not_grow_with_a_goal_that_left_the_world(far):
    grid = OccupancyGrid(np.array([0.6 * far, -0.8 * far, -9.0]))
    assert len(grid.score) <= 340
    np.testing.assert_allclose(grid.goal, [18.0, -24.0, -9.0])
    way = grid.way()
    here = np.rint((np.zeros(2) - grid.low) / 0.1).astype(int)
    assert way[here[0], here[1], 1] > 0.3 > -0.3 > way[here[0], here[1], 2]


def test_goals_of_an_apartment_stay_where_they_are():
    np.testing.assert_array_equal(OccupancyGrid(np.array([9.0, 12.0, 0.5])).goal, [9.0, 12.0, 0.5])
