"""The map of what depth has shown, and the ways on it."""

import numpy as np
import pytest

from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.robot.occupancy import CELL, OccupancyGrid

GOAL = np.array([2.0, 0.0, 0.8])


def cell(grid: OccupancyGrid, place: tuple[float, float]) -> tuple[int, int]:
    a, b = ((np.array(place) - grid.low) / CELL).astype(int)
    return int(a), int(b)


def seen_empty(goal: np.ndarray = GOAL) -> OccupancyGrid:
    grid = OccupancyGrid(goal)
    grid.score[:] = -8
    return grid


def test_a_way_in_the_open_is_straight_and_ends_within_reach():
    grid = seen_empty()
    length, x, y = grid.way()[cell(grid, (0.05, 0.05))]
    assert length == pytest.approx(2.0 - 0.9, abs=0.1)
    assert np.arctan2(y, x) == pytest.approx(0.0, abs=0.1)


def test_a_way_leads_around_what_was_seen():
    grid = seen_empty()
    for b in np.arange(-1.0, 0.8, CELL):  # a counter across the way, longer on the right
        grid.score[cell(grid, (0.7, b))] = 8
    table = grid.way()
    length, _, y = table[cell(grid, (0.05, 0.05))]
    assert length > 1.3 and y > 0.0
    place, trail = np.array([0.05, 0.05]), []
    while table[cell(grid, tuple(place))][0] > 0.05 and len(trail) < 200:
        way = table[cell(grid, tuple(place))][1:]
        place = place + 0.03 * way / np.linalg.norm(way)
        trail.append(place)
    assert np.linalg.norm(place - GOAL[:2]) < 1.1
    gaps = [np.hypot(max(abs(p[0] - 0.7) - 0.05, 0), max(p[1] - 0.8, 0)) for p in trail]
    assert min(gaps) > 0.25


def test_ways_do_not_end_behind_a_wall_nor_where_nothing_was_seen():
    grid = seen_empty(np.array([1.2, 0.0, 0.8]))
    for b in np.arange(-3.0, 3.0, CELL):
        grid.score[cell(grid, (1.6, b))] = 8
        grid.top[cell(grid, (1.6, b))] = 1.5
        grid.hides[cell(grid, (1.6, b))] = True
    table = grid.way()
    assert table[cell(grid, (2.2, 0.0))][0] > 1.0  # 1 m from the goal, behind the wall
    assert table[cell(grid, (0.6, 0.0))][0] == 0.0
    grid.hides[:] = False  # a shelf: one reaches in below what is above
    assert grid.way()[cell(grid, (2.05, 0.0))][0] == 0.0
    grid.hides[:], grid.top[:] = True, 0.5  # a table: one reaches over it
    assert grid.way()[cell(grid, (2.05, 0.0))][0] == 0.0
    fresh = OccupancyGrid(GOAL)
    assert not (fresh.way()[..., 0] == 0.0).any()


def test_a_grid_reaches_beyond_a_goal_that_is_far():
    for far in (1.0, 4.0, 9.0):
        goal = np.array([0.6 * far, -0.8 * far, 0.8])
        grid = OccupancyGrid(goal)
        side, size = CELL * len(grid.score), np.abs(goal[:2])
        assert side >= max(8.0, far + 4.0)
        assert np.all(grid.low < np.minimum(goal[:2], 0.0) - (side - size) / 2.0 + 1e-9)
        table = grid.way()
        length, x, y = table[cell(grid, (0.0, 0.0))]
        assert length > 0.9 * (far - 1.0)  # from the start to where the goal is within reach
        assert far == 1.0 or np.hypot(x / np.hypot(x, y) - 0.6, y / np.hypot(x, y) + 0.8) < 0.1


def test_what_is_gone_is_forgotten():
    """Something stood in the way and does not any more: its floor is seen again."""
    grid = OccupancyGrid(GOAL)
    rows = np.arange(64)[:, None] * np.ones((1, 64))
    pitch = np.arctan2(-0.2, 0.5)
    up = 1.0 - 2.0 * (rows + 0.5) / 64
    floor = 1.2 / -(np.sin(pitch) + up * np.cos(pitch))
    far = np.where((floor > 0) & (floor < 4), floor / 10, 1.0).astype(np.float32)
    near = np.minimum(far, 0.12).astype(np.float32)
    arm = np.tile([0.1, 0.0, 0.8], (4, 1))
    grid.look(near, np.zeros(3), arm, False)
    there = np.argwhere(grid.score > 0)
    assert len(there) > 5
    for _ in range(4):
        grid.look(far, np.zeros(3), arm, False)
    seen = far < 1.0
    assert seen.any()
    still = [tuple(c) for c in there if grid.score[tuple(c)] > 0]
    assert len(still) < len(there) / 2
    gone = [tuple(c) for c in there if grid.score[tuple(c)] <= 0]
    assert all(grid.top[c] == 0.0 and not grid.hides[c] for c in gone)


def test_points_along_the_arm_begin_at_the_shoulder_and_end_at_the_cup():
    kinematics = arm_kinematics()
    for seed in range(3):
        qpos = np.random.default_rng(seed).uniform(-1, 1, 7)
        points = kinematics.points(qpos)
        np.testing.assert_allclose(points[-1], kinematics.forward(qpos).pos)
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        still = np.linalg.norm(np.diff(kinematics.points(np.zeros(7)), axis=0), axis=1)
        np.testing.assert_allclose(lengths, still, atol=1e-9)
