"""Free space of a disc: analytic geodesics, islands, clamping, a walk that never leaves it."""

import itertools
import pickle
import time

import numpy as np
import pytest

from tpsrl.geometry.polygons import capsule_hit
from tpsrl.sim.navigation import GridNavigation

BOUNDS = np.array([[0.0, 0.0], [6.0, 4.0]])
RADIUS = 0.3


def box(low, high):
    (x0, y0), (x1, y1) = low, high
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])


def turned_box(centre, half, angle):
    c, s = np.cos(angle), np.sin(angle)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half
    return centre + corners @ np.array([[c, s], [-s, c]])


def random_boxes(seed, count=25):
    rng = np.random.default_rng(seed)
    return [
        turned_box(rng.uniform(BOUNDS[0], BOUNDS[1]), rng.uniform(0.05, 0.4, 2), rng.uniform(0, 3))
        for _ in range(count)
    ]


def exact_distance(point, polygon):
    """Distance to a polygon by sampling its border densely; zero inside (shapely-free oracle)."""
    following = np.roll(polygon, -1, axis=0)
    t = np.linspace(0, 1, 2001)[:, None, None]
    border = (polygon + t * (following - polygon)).reshape(-1, 2)
    return np.linalg.norm(border - point, axis=1).min()


def test_clearance_is_exact_not_rastered():
    polygon = turned_box(np.array([3.0, 2.0]), np.array([0.7, 0.2]), 0.6)
    nav = GridNavigation([polygon], BOUNDS)
    for point in np.random.default_rng(0).uniform([0.4, 0.4], [5.6, 3.6], (50, 2)):
        if nav.clearance(point) > 0:
            assert nav.clearance(point) == pytest.approx(exact_distance(point, polygon), abs=1e-3)
        assert nav.is_navigable(point) == (nav.clearance(point) >= RADIUS - 1e-9)


def test_disc_stays_inside_bounds():
    nav = GridNavigation([], BOUNDS)
    assert nav.is_navigable([[0.3, 2.0], [0.29, 2.0], [5.7, 3.7], [5.8, 1.0]]).tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_geodesic_around_a_wall_matches_the_tangent_construction():
    wall = box((2.95, 0.0), (3.05, 2.0))
    nav = GridNavigation([wall], BOUNDS)
    start, goal = np.array([1.5, 1.0]), np.array([4.5, 1.0])
    # The shortest path of the disc's centre: tangents to the circles about the wall's two corners.
    corner = np.array([2.95, 2.0])
    reach = np.linalg.norm(corner - start)
    tangent = np.sqrt(reach**2 - RADIUS**2)
    rise = np.arctan2(1.0, 1.45) + np.arcsin(RADIUS / reach)
    expected = 2 * (tangent + RADIUS * rise) + 0.1
    field = nav.distance_field(goal[None])
    assert field.distance(start) == pytest.approx(expected, rel=0.025)
    path = nav.path(start, goal)
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert length == pytest.approx(expected, rel=0.03)
    assert all(nav.is_visible(a, b) for a, b in itertools.pairwise(path))


def test_open_space_geodesic_is_euclidean():
    nav = GridNavigation([], BOUNDS)
    goal = np.array([1.0, 1.0])
    points = np.random.default_rng(1).uniform([0.4, 0.4], [5.6, 3.6], (40, 2))
    gaps = np.linalg.norm(points - goal, axis=1)
    assert nav.distance_field(goal[None]).distance(points) == pytest.approx(gaps, abs=0.05)


def test_nearest_of_several_goals():
    nav = GridNavigation([], BOUNDS)
    field = nav.distance_field(np.array([[0.5, 2.0], [5.5, 2.0]]))
    assert field.distance([5.0, 2.0]) == pytest.approx(0.5, abs=0.03)


def test_islands():
    nav = GridNavigation([box((3.95, 0.0), (4.05, 4.0))], BOUNDS)
    assert nav.is_navigable([5.0, 2.0])
    assert nav.snap(np.array([5.0, 2.0]))[0] < 3.66, "the right room is the smaller island"
    assert np.isinf(nav.distance_field(np.array([[1.0, 1.0]])).distance([5.0, 2.0]))
    assert nav.path(np.array([5.0, 2.0]), np.array([1.0, 1.0])) is None
    rng = np.random.default_rng(0)
    assert all(nav.sample(rng)[0] < 3.7 for _ in range(50))
    assert nav.sample(rng, near=np.array([5.5, 2.0]), radius=0.5) is None


def test_sample_respects_distances():
    nav = GridNavigation([box((2.0, 1.0), (3.0, 3.0))], BOUNDS)
    rng = np.random.default_rng(3)
    near = np.array([2.5, 2.0])
    points = [nav.sample(rng, near=near, radius=1.5, min_distance=1.2) for _ in range(60)]
    gaps = np.linalg.norm(np.array(points) - near, axis=1)
    assert gaps.min() >= 1.2 and gaps.max() <= 1.5
    assert nav.is_navigable(np.array(points)).all()


def test_motion_stops_at_contact_without_sliding():
    nav = GridNavigation([box((3.0, 0.0), (3.2, 4.0))], BOUNDS)
    end = nav.clamp_motion(np.array([2.0, 1.0]), np.array([3.0, 2.0]))
    assert end == pytest.approx([2.7, 1.7], abs=1e-4)
    assert nav.clamp_motion(end, end + [0.0, 0.05]) == pytest.approx(end + [0.0, 0.05])
    assert nav.clamp_motion(end, end + [0.05, 0.0]) == pytest.approx(end, abs=1e-5)
    thin = nav.clamp_motion(np.array([2.0, 1.0]), np.array([4.5, 1.0]))
    assert thin[0] == pytest.approx(2.7, abs=1e-4), "a long step must not jump the wall"


@pytest.mark.parametrize("seed", range(4))
def test_random_motion_never_leaves_free_space(seed):
    nav = GridNavigation(random_boxes(seed), BOUNDS)
    rng = np.random.default_rng(seed)
    here, blocked = nav.sample(rng), 0
    for _ in range(1500):
        step = rng.uniform(0, 0.12) * np.array([np.cos(a := rng.uniform(0, 7)), np.sin(a)])
        after = nav.clamp_motion(here, here + step)
        assert nav.is_navigable(after)
        assert nav.clearance(after) >= RADIUS - 1e-9
        blocked += bool(np.linalg.norm(after - here - step) > 1e-9)
        here = after
    assert blocked > 0, "the walk met no obstacle, so it tested nothing"


def test_robot_that_an_obstacle_moved_onto_can_leave():
    nav = GridNavigation([box((2.0, 1.0), (3.0, 2.0))], BOUNDS)
    stuck = np.array([1.8, 1.5])
    assert nav.clamp_motion(stuck, [1.75, 1.5]) == pytest.approx([1.75, 1.5])
    assert nav.clamp_motion(stuck, [1.85, 1.5]) == pytest.approx(stuck)


def test_descend_reaches_the_goal_through_clutter():
    nav = GridNavigation(random_boxes(2), BOUNDS)
    rng = np.random.default_rng(5)
    for _ in range(10):
        here, goal = nav.sample(rng), nav.sample(rng)
        field = nav.distance_field(goal[None])
        for _ in range(400):
            after = field.descend(here, 0.2)
            assert nav.is_visible(here, after)
            here = after
            if np.linalg.norm(here - goal) < 1e-9:
                break
        assert here == pytest.approx(goal)


def test_obstacles_are_added_to_a_copy():
    nav = GridNavigation([], BOUNDS)
    other = nav.with_obstacles([box((2.0, 1.0), (3.0, 2.0))])
    assert nav.is_navigable([2.5, 1.5]) and not other.is_navigable([2.5, 1.5])


def test_pickle_and_determinism():
    nav = GridNavigation(random_boxes(7), BOUNDS)
    twin = pickle.loads(pickle.dumps(nav))
    first = [nav.sample(np.random.default_rng(k)) for k in range(20)]
    assert np.array_equal(first, [twin.sample(np.random.default_rng(k)) for k in range(20)])


def test_clockwise_polygons_count_too():
    nav = GridNavigation([box((2.0, 1.0), (3.0, 2.0))[::-1]], BOUNDS)
    assert not nav.is_navigable([2.5, 1.5])


def test_fast_enough_for_reset_and_reward():
    bounds = np.array([[-4.5, -3.5], [4.5, 3.5]])
    rng = np.random.default_rng(0)
    boxes = [
        turned_box(rng.uniform(bounds[0], bounds[1]), rng.uniform(0.05, 0.4, 2), rng.uniform(0, 3))
        for _ in range(40)
    ]

    def best(call):
        times = []
        for _ in range(5):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times)

    nav = GridNavigation(boxes, bounds)
    assert best(lambda: GridNavigation(boxes, bounds)) < 0.03
    assert best(lambda: nav.distance_field(nav.nodes[:1])) < 0.03


@pytest.mark.parametrize(
    "polygon", [np.zeros((2, 2)), np.zeros((4, 3)), np.array([[0, 0], [1, 0], [np.nan, 1]])]
)
def test_malformed_footprints_are_refused(polygon):
    with pytest.raises(ValueError, match="footprint"):
        GridNavigation([polygon], BOUNDS)


def test_no_room_and_no_goals_are_refused():
    with pytest.raises(ValueError, match="no room"):
        GridNavigation([], np.array([[0, 0], [0.5, 4.0]]))
    with pytest.raises(ValueError, match="Goals"):
        GridNavigation([], BOUNDS).distance_field(np.empty((0, 2)))
    with pytest.raises(ValueError, match="no free space"):
        GridNavigation([box((0, 0), (6, 4))], BOUNDS).snap(np.zeros(2))


def test_a_stretch_behind_the_start_does_not_block() -> None:
    """Along a bent outline: the ray has left the slanted edge again before its start."""
    tails = np.array([[2.38419859, -2.75074799]])
    edges = np.array([[-0.65, -0.0336153870]])
    start = np.array([2.5228, -2.4533])
    assert np.isinf(capsule_hit(start, start + np.array([1.0, 0.0]), tails, edges, 0.3))
    start = np.array([2.5228, -2.4])
    assert 0.0 < capsule_hit(start, start + np.array([-0.8, -0.6]), tails, edges, 0.3) < 0.3


def test_scan_measures_the_outlines():
    square = box((2.0, 1.0), (4.0, 3.0))
    nav = GridNavigation([square, box((0.0, 3.9), (6.0, 4.0))], BOUNDS)
    angles = np.array([0.0, np.pi, np.pi / 2, np.pi / 4])
    found = nav.scan(np.array([1.0, 2.0]), angles, 5.0)
    np.testing.assert_allclose(found, [1.0, 5.0, 1.9, np.sqrt(2) * 1.0 + 0.0], atol=1e-9)


def test_scan_agrees_with_clearance():
    polygons = random_boxes(3, count=8)
    nav = GridNavigation(polygons, BOUNDS)
    angles = np.linspace(0.0, 2 * np.pi, 720, endpoint=False)
    for point in np.random.default_rng(1).uniform(BOUNDS[0], BOUNDS[1], (20, 2)):
        if nav.clearance(point) > 0.05:
            nearest = nav.scan(point, angles, 9.0).min()
            assert nearest == pytest.approx(nav.clearance(point), abs=0.02)


def test_between_two_nodes_a_robot_still_has_a_distance():
    """A gap of 2 cm more than the robot is wide holds none of the grid's nodes."""
    walls = [box((2.0, 0.8), (4.0, 1.715)), box((2.0, 2.335), (4.0, 4.0))]
    nav = GridNavigation(walls, BOUNDS)
    here, field = np.array([3.6, 2.025]), nav.distance_field(np.array([[5.0, 2.025]]))
    assert nav.is_navigable(here) and np.isinf(field.distance(here))
    assert field.from_within(here) == pytest.approx(1.4, abs=0.1)
    for x in np.linspace(0.5, 1.5, 5):
        elsewhere = np.array([x, 1.0])
        assert field.from_within(elsewhere) == field.distance(elsewhere)
