import numpy as np
import pytest

from tpsrl.scenes import geometry
from tpsrl.scenes.description import Apartment, Furniture, Link, Shape
from tpsrl.sim.navigation import GridNavigation


def test_convex_outline_drops_inner_points_and_turns_left() -> None:
    points = np.array([[0, 0], [2, 0], [2, 1], [0, 1], [1, 0.5], [1, 0], [2, 0]], dtype=float)
    outline = geometry.convex_outline(points)
    assert {tuple(p) for p in outline} == {(0, 0), (2, 0), (2, 1), (0, 1)}
    x, y = outline.T
    assert 0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) == pytest.approx(2.0)


def corner_piece(second: Shape) -> Furniture:
    arm = Shape("box", (1.0, 0.3, 0.4), (1.0, 0.3, 0.4))
    return Furniture("corner", "shelf", (Link("body", (arm, second)),))


def test_an_inner_corner_stays_free() -> None:
    """An L of 2 m and 2 m, 0.6 m deep: the robot can stand in its corner, and not on it."""
    piece = corner_piece(Shape("box", (0.3, 1.0, 0.4), (0.3, 1.0, 0.4)))
    pose = (0.5, -0.25, np.pi / 2)
    outlines = geometry.link_footprints(piece.links[0], pose)
    assert len(outlines) == 2
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    bounds = np.array([[-4.0, -4.0], [4.0, 4.0]])
    free = GridNavigation(outlines, bounds, radius=0.3)
    whole = geometry.link_footprint(piece.links[0], pose)
    assert whole is not None
    blocked = GridNavigation([whole], bounds, radius=0.3)
    corner = np.array([[1.0, 1.0], [1.7, 1.7], [0.3, 0.3], [1.5, 0.3]]) @ turn.T + pose[:2]
    assert free.is_navigable(corner).tolist() == [True, True, False, False]
    assert blocked.is_navigable(corner).tolist() == [False, True, False, False]


def test_a_shallow_corner_and_a_part_overhead_keep_one_outline() -> None:
    pose = (0.0, 0.0, 0.0)
    shallow = corner_piece(Shape("box", (0.3, 0.35, 0.4), (0.3, 0.35, 0.4)))
    lamp = corner_piece(Shape("box", (0.3, 1.0, 0.1), (0.3, 1.0, 1.9)))
    for piece in (shallow, lamp):
        outlines = geometry.link_footprints(piece.links[0], pose)
        assert len(outlines) == 1
        assert np.array_equal(outlines[0], geometry.link_footprint(piece.links[0], pose))


def test_our_own_furniture_needs_one_outline_a_link(apartment: Apartment) -> None:
    """So that free space of the shipped episodes is what it was when they were made."""
    layout = apartment.layouts["sc0_staging_00"]
    for piece in apartment.furniture:
        for link in piece.links:
            found = geometry.link_footprints(link, layout.poses[piece.name])
            assert len(found) <= 1, (piece.name, link.name)


def test_round_shapes_are_enclosed() -> None:
    points = geometry.shape_points(Shape("cylinder", (0.1, 0.2, 0.0), (1.0, 0.0, 0.0)))
    assert points.max(axis=0) == pytest.approx([1.1, 0.1, 0.2])


def test_an_open_drawer_carries_its_receptacle(apartment: Apartment) -> None:
    layout = apartment.layouts["sc0_staging_00"]
    closed = geometry.receptacle_box(apartment, layout, "drawer_right_top")
    opened = geometry.receptacle_box(apartment, layout, "drawer_right_top", 0.4)
    # The counter of this layout stands at the east wall and faces west.
    assert opened.center - closed.center == pytest.approx([-0.4, 0.0, 0.0], abs=1e-4)
    handle = [geometry.marker_position(apartment, layout, "cab_push_point_5", q) for q in (0, 0.4)]
    assert handle[1] - handle[0] == pytest.approx([-0.4, 0.0, 0.0], abs=1e-4)


def test_contains() -> None:
    box = geometry.OrientedBox(np.zeros(3), np.array([1.0, 0.5, 0.2]), np.eye(3))
    points = np.array([[0.9, 0.4, 0.1], [1.1, 0.0, 0.0]])
    assert box.contains(points).tolist() == [True, False]
    assert box.contains(points, margin=0.2).tolist() == [True, True]
    assert box.support_height == pytest.approx(-0.2)


def test_unknown_names_are_refused_by_name(apartment: Apartment) -> None:
    layout = apartment.layouts["sc0_staging_00"]
    with pytest.raises(ValueError, match="receptacle 'bath'"):
        geometry.receptacle_box(apartment, layout, "bath")
    with pytest.raises(ValueError, match="furniture 'bath'"):
        geometry.find_furniture(apartment, "bath")
    with pytest.raises(ValueError, match="marker 'bath'"):
        geometry.marker_position(apartment, layout, "bath")
    counter = geometry.find_furniture(apartment, "kitchen_counter")
    with pytest.raises(ValueError, match="link 'bath'"):
        geometry.find_link(counter, "bath")
    with pytest.raises(ValueError, match="no joint"):
        geometry.joint_motion(counter.links[0], 0.1)
