"""What the export writes, read back, is what went out."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.tpsrl.habitat.data import exported
from tests.tpsrl.sim import small
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.habitat import format as fmt
from tpsrl.habitat.export.fetch import write_fetch
from tpsrl.habitat.load.dataset import Dataset, load_dataset
from tpsrl.habitat.load.episodes import adopt, load_for_episodes
from tpsrl.habitat.load.files import read_config
from tpsrl.habitat.urdf_links import link_order
from tpsrl.robot import fetch
from tpsrl.robot.kinematics import ArmKinematics
from tpsrl.scenes.description import Shape
from tpsrl.scenes.geometry import shape_points
from tpsrl.sim.mujoco import meshes
from tpsrl.sim.mujoco.engine import MujocoSimulator
from tpsrl.sim.scene_info import SceneLibrary

LINK_IDS = {
    "l_wheel_link": 2,
    "r_wheel_link": 4,
    "torso_lift_link": 6,
    "head_pan_link": 8,
    "head_tilt_link": 9,
    **{f"{name.removesuffix('_joint')}_link": 15 + k for k, name in enumerate(fetch.ARM_JOINTS)},
    "gripper_link": 22,
    "suction_link": 23,
}
"""Numbers that habitat-lab hard-codes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported.export(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return load_dataset(folder)


def solids(shapes: tuple[Shape, ...]) -> list[Shape]:
    return [s for s in shapes if s.collide]


def assert_same_solids(found: tuple[Shape, ...], wanted: tuple[Shape, ...], what: str) -> None:
    pairs = list(zip(solids(found), solids(wanted), strict=True))
    for a, b in pairs:
        assert a.kind == b.kind, what
        if a.kind == "mesh":
            ends = [[f(shape_points(s), axis=0) for f in (np.min, np.max)] for s in (a, b)]
            assert np.allclose(*ends, atol=1e-6), what
        else:
            assert a.size == pytest.approx(b.size, abs=1e-9), what
            assert a.pos == pytest.approx(b.pos, abs=1e-9), what
            assert abs(np.dot(a.quat, b.quat)) == pytest.approx(1.0, abs=1e-12), what


def assert_same_picture(found: tuple[Shape, ...], wanted: tuple[Shape, ...], what: str) -> None:
    """Area, box and colours of what cameras see."""
    for rgba in {s.rgba for s in wanted if s.visible}:
        of_colour = [
            [s for s in group if s.visible and np.allclose(s.rgba, rgba, atol=0.003)]
            for group in (found, wanted)
        ]
        assert all(of_colour), (what, rgba)
        a, b = (meshes.merge(group) for group in of_colour)
        assert np.allclose(a[0].min(axis=0), b[0].min(axis=0), atol=1e-3), what
        assert np.allclose(a[0].max(axis=0), b[0].max(axis=0), atol=1e-3), what
        areas = [
            np.linalg.norm(np.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]]), axis=1).sum()
            for v, f in (a, b)
        ]
        # Round shapes have more corners in the files than in our own pictures.
        assert areas[0] == pytest.approx(areas[1], rel=0.03), what


def test_furniture_and_layouts_come_back(dataset: Dataset) -> None:
    wanted = exported.apartment()
    assert {p.name for p in dataset.apartment.furniture} == {p.name for p in wanted.furniture}
    assert np.allclose(dataset.apartment.bounds, wanted.bounds)
    for name, layout in wanted.layouts.items():
        found = dataset.apartment.layouts[name]
        assert found.split == layout.split
        for piece, pose in layout.poses.items():
            assert found.poses[piece] == pytest.approx(pose, abs=1e-9)
    for piece in wanted.furniture:
        found_piece = next(p for p in dataset.apartment.furniture if p.name == piece.name)
        assert found_piece.category == piece.category
        assert {r.name: r for r in found_piece.receptacles}.keys() == {
            r.name for r in piece.receptacles
        }
        for a in piece.receptacles:
            b = next(r for r in found_piece.receptacles if r.name == a.name)
            assert (b.link, b.capacity) == (a.link, a.capacity)
            assert b.center == pytest.approx(a.center) and b.half_size == pytest.approx(a.half_size)
        assert {m.name: m for m in found_piece.markers} == {m.name: m for m in piece.markers}
        assert {c.joint_link: c for c in found_piece.containers} == {
            c.joint_link: c for c in piece.containers
        }


def test_links_and_joints_come_back(dataset: Dataset) -> None:
    for piece in exported.apartment().furniture:
        found = next(p for p in dataset.apartment.furniture if p.name == piece.name)
        assert {k.name for k in found.links} == {k.name for k in piece.links}
        for link in piece.links:
            other = next(k for k in found.links if k.name == link.name)
            assert other.pos == pytest.approx(link.pos, abs=1e-9)
            assert other.quat == pytest.approx(link.quat, abs=1e-9)
            assert other.mass == pytest.approx(link.mass)
            assert other.joint == link.joint
            assert_same_solids(other.shapes, link.shapes, f"{piece.name}/{link.name}")
            assert_same_picture(other.shapes, link.shapes, f"{piece.name}/{link.name}")


def test_habitat_finds_links_where_the_urdf_puts_them(folder: Path, tmp_path: Path) -> None:
    """Habitat takes the frame of mass for that of the link, so they have to be one."""
    robot = write_fetch(tmp_path)
    for path in [*folder.rglob("urdf/*/*.urdf"), robot]:
        for link in ET.parse(path).getroot().findall("link"):
            name, origin = link.get("name"), link.find("inertial/origin")
            # Of the robot the base and the cup are looked at, and they alone.
            if origin is not None and (path != robot or name in ("base_link", "suction_link")):
                assert [float(v) for v in origin.attrib["xyz"].split()] == [0, 0, 0], name


def test_joints_brake_as_habitat_understands_damping(folder: Path) -> None:
    """An impulse at most in one physics step: about as much as our friction and damping."""
    for piece in exported.apartment().furniture:
        for link in piece.links[1:]:
            joints = ET.parse(folder / f"urdf/{piece.name}/{piece.name}.urdf").getroot()
            joint = next(
                j
                for j in joints.findall("joint")
                if j.find("child").get("link") == link.name  # type: ignore[union-attr]
            )
            given = float(joint.find("dynamics").attrib["damping"])  # type: ignore[union-attr]
            assert link.joint is not None
            slow, quick = (link.joint.friction + link.joint.damping * speed for speed in (0.1, 1.0))
            assert slow < given * fetch.PHYSICS_HZ < quick


def test_walls_and_objects_come_back(dataset: Dataset) -> None:
    walls = exported.apartment().walls
    assert_same_solids(dataset.apartment.walls, walls, "walls")
    assert set(dataset.types) == set(small.types())
    for name, kind in small.types().items():
        found = dataset.types[name]
        assert found.mass == pytest.approx(kind.mass)
        assert found.half_size == pytest.approx(kind.half_size)
        assert_same_solids(found.shapes, kind.shapes, name)
        assert_same_picture(found.shapes, kind.shapes, name)


def test_episodes_come_back(folder: Path) -> None:
    read = load_episodes(folder / "episodes/small_val.json.gz")
    _, found = load_for_episodes(folder, list(read))
    for a, b in zip(found, exported.episodes(), strict=True):
        assert (a.episode_id, a.layout) == (b.episode_id, b.layout)
        assert np.allclose(a.start, b.start) and a.joints == b.joints
        for x, y in zip(a.objects, b.objects, strict=True):
            assert (x.type, x.instance, x.receptacle) == (y.type, y.instance, y.receptacle)
            assert np.allclose(x.pos, y.pos, atol=1e-8) and np.allclose(x.quat, y.quat, atol=1e-8)
        for s, t in zip(a.targets, b.targets, strict=True):
            assert (s.object_index, s.label) == (t.object_index, t.label)
            assert (s.start_receptacle, s.goal_receptacle) == (
                t.start_receptacle,
                t.goal_receptacle,
            )
            assert np.allclose(s.goal_pos, t.goal_pos, atol=1e-8)


def test_engines_on_both_agree(folder: Path) -> None:
    read = load_episodes(folder / "episodes/small_val.json.gz")
    dataset, episodes = load_for_episodes(folder, list(read))
    pool = dict.fromkeys(small.types(), 1)
    with (
        MujocoSimulator(
            1, depth=64, pool=pool, apartment=dataset.apartment, types=dataset.types
        ) as ours,
        MujocoSimulator(
            1, depth=64, pool=pool, apartment=small.apartment(), types=small.types()
        ) as theirs,
    ):
        for mine, other in zip(episodes, exported.episodes(), strict=True):
            ours.reset([mine], [3])
            theirs.reset([other], [3])
            a, b = ours.state(), theirs.state()
            assert np.allclose(a.object_pos, b.object_pos, atol=1e-7)
            order = [ours.joint_names.index(n) for n in theirs.joint_names]
            assert np.allclose(a.link_pos[:, order], b.link_pos, atol=1e-9)
            handles = [ours.marker_names.index(n) for n in theirs.marker_names]
            assert np.allclose(a.marker_pos[:, handles], b.marker_pos, atol=1e-9)
            depths = ours.depth(), theirs.depth()
            assert (np.abs(depths[0] - depths[1]) * 10 < 0.05).mean() > 0.99
            points = np.random.default_rng(0).uniform(-3, 3, (500, 2))
            free = [s.scene().navigation.is_navigable(points) for s in (ours, theirs)]
            assert np.array_equal(*free)


def test_joint_numbers_are_those_of_episode_files(dataset: Dataset) -> None:
    """An open drawer of a file opens the same drawer here, whatever its number is there."""
    order = dataset.order["cabinet"]
    assert order == ("cabinet", "door", "drawer")
    episode = dataclasses.replace(
        exported.episodes()[0], joints={"cabinet/link_2": 0.25, "cabinet/link_1": 0.5}
    )
    assert adopt(episode, dataset).joints == {"cabinet/drawer": 0.25, "cabinet/door": 0.5}


def test_the_manifest_has_a_hash_of_every_file(folder: Path) -> None:
    import hashlib

    manifest = json.loads((folder / fmt.MANIFEST).read_text())
    assert manifest["version"] == fmt.VERSION
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert there == {*manifest["files"], fmt.MANIFEST}


def test_exporting_twice_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = exported.export(tmp_path / "again")
    for name in ("configs/objects/table.object_config.json", "furniture/table.glb"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_configs_name_only_files_that_are_there(folder: Path) -> None:
    seen = 0
    for path in folder.rglob("*_config.json"):
        for key in ("render_asset", "collision_asset", "urdf_filepath"):
            if key in read_config(path).raw:
                read_config(path).asset(key)
                seen += 1
    assert seen > 10


def test_fetch_has_habitat_lab_s_link_numbers_and_our_end_effector(tmp_path: Path) -> None:
    import yourdfpy

    model = yourdfpy.URDF.load(str(write_fetch(tmp_path)), load_meshes=True)
    order = link_order([(j.name, j.parent, j.child) for j in model.robot.joints])
    assert {name: order.index(name) for name in LINK_IDS} == LINK_IDS
    names = [f"{j.removesuffix('_joint')}_link" for j in fetch.ARM_JOINTS]
    for offset in (0.0, 0.4, -0.6):
        qpos = fetch.ARM_INIT + offset
        model.update_cfg({**dict(zip(names, qpos, strict=True)), "torso_lift_link": 0.15})
        tip = model.get_transform("suction_link", "base_link") @ [0.08, 0.0, 0.0, 1.0]
        # The root of habitat-lab's Fetch is y up.
        assert [tip[0], -tip[2], tip[1]] == pytest.approx(ArmKinematics().forward(qpos).pos)


def test_scene_library_accepts_what_was_read(dataset: Dataset) -> None:
    scene = SceneLibrary(dataset.apartment).scene("a")
    assert scene.navigation.is_navigable(np.zeros(2))
    assert set(scene.receptacles) == {"top", "inside"}
