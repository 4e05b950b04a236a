import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tpsrl.geometry import rotations
from tpsrl.scenes import geometry
from tpsrl.scenes.cache import cached_furniture
from tpsrl.scenes.description import Apartment, Furniture, Link, Shape
from tpsrl.scenes.furniture import chair, load_furniture

OPEN_RECEPTACLES = {
    "chair",
    "table_01",
    "table_02",
    "tvstand",
    "sink",
    "counter_right",
    "counter_left",
    "sofa",
}
DRAWERS = (
    "drawer1_top",
    "drawer1_bottom",
    "drawer2_top",
    "drawer2_middle",
    "drawer2_bottom",
    "drawer3",
    "drawer4",
)


def piece(apartment: Apartment, name: str) -> Furniture:
    return geometry.find_furniture(apartment, name)


def boxes(link: Link, joint_pos: float = 0.0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Corners of the colliding shapes of a link in the furniture's frame."""
    world = rotations.frame(link.pos, link.quat) @ geometry.joint_motion(link, joint_pos)
    clouds = [geometry.shape_points(s) for s in link.shapes if s.collide]
    placed = [c @ world[:3, :3].T + world[:3, 3] for c in clouds]
    return [(c.min(axis=0), c.max(axis=0)) for c in placed]


def overlap(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.min(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])))


def test_names_of_receptacles(apartment: Apartment) -> None:
    names = [r.name for p in apartment.furniture for r in p.receptacles]
    assert len(names) == len(set(names))
    drawers = {
        "drawer_left_top",
        "drawer_middle_top",
        "drawer_right_top",
        "drawer_left_bottom",
        "drawer_middle_middle",
        "drawer_middle_bottom",
        "drawer_right_bottom",
    }
    assert set(names) == OPEN_RECEPTACLES | {"fridge_middle"} | drawers
    capacity = {r.name: r.capacity for p in apartment.furniture for r in p.receptacles}
    assert {n for n, c in capacity.items() if c == 2} == {"chair", "sink"}


def test_links_joints_and_markers(apartment: Apartment) -> None:
    counter, fridge = piece(apartment, "kitchen_counter"), piece(apartment, "fridge")
    assert tuple(link.name for link in counter.links[1:]) == DRAWERS
    assert {link.name for link in fridge.links[1:]} == {"top_door", "bottom_door"}
    assert sum(link.joint is not None for p in apartment.furniture for link in p.links) == 9
    markers = {m.name: m.link for p in apartment.furniture for m in p.markers}
    assert markers == {
        "cab_push_point_7": "drawer1_top",
        "cab_push_point_6": "drawer2_top",
        "cab_push_point_5": "drawer3",
        "cab_push_point_4": "drawer4",
        "fridge_push_point": "top_door",
    }
    for link in counter.links[1:]:
        assert link.joint is not None
        assert (link.joint.kind, link.joint.upper) == ("slide", 0.5)
    tops = {r.link: r.name for r in counter.receptacles}
    assert tops["drawer3"] == "drawer_right_top"
    assert tops["drawer1_top"] == "drawer_left_top"
    assert tops["drawer2_top"] == "drawer_middle_top"


@pytest.mark.parametrize("name", ["kitchen_counter", "fridge"])
def test_markers_lie_on_their_handles(apartment: Apartment, name: str) -> None:
    for marker in piece(apartment, name).markers:
        link = geometry.find_link(piece(apartment, name), marker.link)
        offset = np.array(marker.offset)
        inside = [
            np.all(offset >= low - 1e-3) and np.all(offset <= high + 1e-3)
            for low, high in (
                (c.min(axis=0), c.max(axis=0))
                for c in (geometry.shape_points(s) for s in link.shapes if s.collide)
            )
        ]
        assert any(inside)
        front = max(geometry.shape_points(s)[:, 0].max() for s in link.shapes)
        assert front - offset[0] < 0.03


def test_top_drawers_are_roomy_and_their_handles_at_hand(apartment: Apartment) -> None:
    counter = piece(apartment, "kitchen_counter")
    containers = {c.joint_link: c for c in counter.containers}
    assert set(containers) == set(DRAWERS)
    for name in ("drawer1_top", "drawer2_top", "drawer3"):
        link = geometry.find_link(counter, name)
        assert 0.60 <= link.pos[2] <= 0.80
        assert containers[name].moves
        assert 2 * containers[name].half_size[2] >= 0.15
        assert 2 * containers[name].half_size[1] >= 0.30


def test_an_open_drawer_is_clear_of_the_counter_top(apartment: Apartment) -> None:
    counter = piece(apartment, "kitchen_counter")
    front = max(high[0] for _, high in boxes(counter.links[0]))
    for receptacle in counter.receptacles:
        link = geometry.find_link(counter, receptacle.link)
        if link.joint is not None:
            back = link.pos[0] + receptacle.center[0] - receptacle.half_size[0] + 0.45
            assert back > front


def test_moving_parts_do_not_cut_into_what_is_fixed(apartment: Apartment) -> None:
    counter, fridge = piece(apartment, "kitchen_counter"), piece(apartment, "fridge")
    for link, q in itertools.product(counter.links[1:], (0.0, 0.25, 0.5)):
        for a, b in itertools.product(boxes(link, q), boxes(counter.links[0])):
            assert overlap(a, b) < 1e-4, (link.name, q, a, b)
    for a, b in itertools.combinations(counter.links[1:], 2):
        worst = max(overlap(x, y) for x, y in itertools.product(boxes(a), boxes(b)))
        assert worst < 1e-4, (a.name, b.name)
    for link in fridge.links[1:]:
        for a, b in itertools.product(boxes(link), boxes(fridge.links[0])):
            assert overlap(a, b) < 0.0


def test_the_fridge_door_swings_outwards(apartment: Apartment) -> None:
    fridge = piece(apartment, "fridge")
    door = geometry.find_link(fridge, "top_door")
    assert door.joint is not None
    assert 2.0 <= door.joint.upper <= 2.2
    pose = (0.0, 0.0, 0.0)
    offset = np.array([*fridge.markers[0].offset, 1.0])
    closed, opened = ((geometry.link_frame(door, pose, q) @ offset)[:3] for q in (0.0, np.pi / 2))
    assert opened[0] > closed[0] + 0.5
    assert 0.75 < closed[2] < 1.15


def test_the_fridge_shelf_has_headroom_and_lies_behind_the_top_door(apartment: Apartment) -> None:
    fridge = piece(apartment, "fridge")
    shelf = fridge.receptacles[0]
    support = shelf.center[2] - shelf.half_size[2]
    assert 0.85 <= support <= 1.05
    low, high = np.array(shelf.center) - shelf.half_size, np.array(shelf.center) + shelf.half_size
    assert 2 * shelf.half_size[2] >= 0.30
    assert all(overlap((low, high), b) < 1e-6 for b in boxes(fridge.links[0]))
    door = boxes(geometry.find_link(fridge, "top_door"))[0]
    assert np.all(door[0][1:] <= low[1:])
    assert np.all(door[1][1:] >= high[1:])
    container = fridge.containers[0]
    assert not container.moves
    assert np.all(np.abs(np.array(shelf.center) - container.center) < container.half_size)


def test_receptacles_stand_on_a_surface_and_are_empty(apartment: Apartment) -> None:
    for p in apartment.furniture:
        for receptacle in p.receptacles:
            link = geometry.find_link(p, receptacle.link)
            shapes = [geometry.shape_points(s) for s in link.shapes if s.collide]
            solids = [(c.min(axis=0), c.max(axis=0)) for c in shapes]
            low = np.array(receptacle.center) - receptacle.half_size
            high = np.array(receptacle.center) + receptacle.half_size
            assert all(overlap((low, high), s) < 1e-6 for s in solids), receptacle.name
            for corner in itertools.product(*zip(low[:2], high[:2], strict=True)):
                below = [
                    b[2]
                    for a, b in solids
                    if np.all(a[:2] <= np.array(corner)) and np.all(b[:2] >= np.array(corner))
                ]
                assert any(abs(z - low[2]) < 1e-4 for z in below), (receptacle.name, corner)


def test_open_receptacles_are_at_working_height(apartment: Apartment) -> None:
    layout = apartment.layouts["sc0_staging_00"]
    for name in OPEN_RECEPTACLES:
        box = geometry.receptacle_box(apartment, layout, name)
        assert 0.40 <= box.support_height <= 0.95


def test_few_triangles(apartment: Apartment) -> None:
    def triangles(shape: Shape) -> int:
        if not shape.visible:
            return 0
        return 12 if shape.faces is None else len(shape.faces)

    shapes = [s for p in apartment.furniture for link in p.links for s in link.shapes]
    assert sum(triangles(s) for s in (*shapes, *apartment.walls)) < 6000
    assert all(len(s.faces) < 200 for s in shapes if s.faces is not None)


def test_footprints_cover_what_stands_low(apartment: Apartment) -> None:
    layout = apartment.layouts["sc0_staging_00"]
    outlines = geometry.furniture_footprints(apartment, layout)
    x, y, _ = layout.poses["table_01"]
    table = outlines["table_01"][0]
    assert np.allclose(
        [table.min(axis=0), table.max(axis=0)], [[x - 0.4, y - 0.65], [x + 0.4, y + 0.65]]
    )
    assert len(geometry.footprints(apartment, layout)) >= len(apartment.furniture) + 8
    assert all(p.shape[1] == 2 for p in geometry.footprints(apartment, layout))


def same(a: Furniture, b: Furniture) -> bool:
    meshes = [
        [s.vertices for link in p.links for s in link.shapes if s.vertices is not None]
        for p in (a, b)
    ]
    return a == b and all(np.array_equal(x, y) for x, y in zip(*meshes, strict=True))


def test_the_cache_gives_back_what_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = load_furniture()
    files = list((tmp_path / "tpsrl").iterdir())
    assert [f.suffix for f in files] == [".json"]
    assert all(same(a, b) for a, b in zip(built, load_furniture(), strict=True))


@pytest.mark.parametrize("content", ["", "[{", '[{"name": "x"}]', "[1]", "null", '{"a": 1}'])
def test_a_broken_cache_file_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def build() -> tuple[Furniture, ...]:
        calls.append(1)
        return (chair(),)

    cached_furniture({"a": 1}, build)
    (file,) = (tmp_path / "tpsrl").iterdir()
    file.write_text(content)
    assert cached_furniture({"a": 1}, build) == (chair(),)
    assert len(calls) == 2
    assert cached_furniture({"a": 1}, build) == (chair(),)
    assert len(calls) == 2
    cached_furniture({"a": 2}, build)
    assert len(calls) == 3


def test_an_unwritable_cache_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached_furniture({"a": 1}, lambda: (chair(),)) == (chair(),)


def test_a_later_process_imports_no_heavy_library_and_is_quick(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from tpsrl.scenes.apartment import load_apartment\n"
        "from tpsrl.scenes.objects import object_types\n"
        "start = time.perf_counter()\n"
        "load_apartment(), object_types()\n"
        "print(time.perf_counter() - start)\n"
        "heavy = {'scene_synthesizer', 'trimesh', 'yourdfpy', 'mujoco', 'torch', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
        )
        return done.stdout.splitlines()

    assert "scene_synthesizer" in run()[1]
    start = time.perf_counter()
    seconds, heavy = run()
    assert heavy == "[]"
    assert float(seconds) < 0.1
    assert time.perf_counter() - start < 10.0
