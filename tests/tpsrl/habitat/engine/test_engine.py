"""Everything of the Habitat engine that does not need Habitat: what it is told and what it says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yourdfpy

from tests.tpsrl.habitat.data import exported, handmade
from tpsrl.cli import main
from tpsrl.engines import make_simulator
from tpsrl.errors import UserError
from tpsrl.geometry import frames
from tpsrl.habitat import engine
from tpsrl.habitat.load.dataset import load_dataset
from tpsrl.habitat.raster import navigation_of
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options
from tpsrl.habitat.server import habitat_setup, layout, yup
from tpsrl.habitat.urdf_links import link_order
from tpsrl.sim.navigation import GridNavigation

WITHOUT_HABITAT = pytest.mark.skipif(
    importlib.util.find_spec("habitat") is not None, reason="Habitat is installed here"
)


@WITHOUT_HABITAT
def test_without_an_interpreter_it_explains_the_install(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"conda install habitat-sim withbullet.*habitat.python="):
        make_simulator("habitat")
    with pytest.raises(UserError, match=r"habitat.python=/nowhere is no file"):
        make_simulator("habitat", habitat={"python": "/nowhere"})


@WITHOUT_HABITAT
def test_an_interpreter_without_habitat_is_told_from_its_own_side() -> None:
    with pytest.raises(UserError, match=r"has no habitat-sim.*conda install habitat-sim") as error:
        make_simulator("habitat", depth=32, habitat={"python": sys.executable})
    assert "\n" not in str(error.value)


@WITHOUT_HABITAT
def test_the_command_line_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", "scenario=tidy_house", "sim=habitat", "episodes=1", "workers=1", "gpu=-1"]
    assert main([*words, f"out={tmp_path / 'out'}"]) != 0
    text = "".join(capsys.readouterr())
    assert "habitat.python=PATH" in text or "habitat.python=PATH" in _records(tmp_path / "out")


def _records(out: Path) -> str:
    return "".join(p.read_text() for p in out.glob("*.json*") if p.suffix != ".gz")


@pytest.mark.parametrize(
    ("lab", "sim", "words"),
    [
        ("0.2.4", "0.2.5", r"habitat-lab 0.2.4 .* too old; 0.2.5"),
        ("0.3.3", "0.2.5", r"habitat-lab 0.3.3 and habitat-sim 0.2.5 .*habitat-lab==0.2.5"),
    ],
)
def test_versions_that_do_not_fit_are_named(lab: str, sim: str, words: str) -> None:
    with pytest.raises(habitat_setup.Refusal, match=words):
        habitat_setup.check_versions(lab, sim, "python")


@pytest.mark.parametrize("lab", ["0.2.5", "0.3.3", "0.3.320260507"])
def test_versions_that_fit(lab: str) -> None:
    habitat_setup.check_versions(lab, lab[:5], "python")


def test_files_that_are_missing_are_named_with_their_download(tmp_path: Path) -> None:
    options: dict[str, Any] = {"objects": [str(tmp_path / "ycb")]}
    for key in ("dataset", "robot", "physics"):
        options[key] = str(tmp_path / key)
        (tmp_path / key).touch()
    with pytest.raises(habitat_setup.Refusal, match=r"ycb.*--uids ycb"):
        habitat_setup.check_files(options)
    (tmp_path / "ycb").mkdir()
    habitat_setup.check_files(options)
    for key, uid in (("robot", "hab_fetch"), ("dataset", "replica_cad_dataset")):
        (tmp_path / key).unlink()
        with pytest.raises(habitat_setup.Refusal, match=f"{key}.*--uids {uid}"):
            habitat_setup.check_files(options)


def test_our_apartments_are_exported_for_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = engine.own_scenes()
    made = (root / "tpsrl_export.json").stat().st_mtime_ns
    assert engine.own_scenes() == root
    assert (root / "tpsrl_export.json").stat().st_mtime_ns == made
    options = engine.backend_options(engine.own_dataset(root), root, None, 64, -1)
    habitat_setup.check_files(options)
    assert len(options["scenes"]) == 105 and options["gpu"] == -1
    assert options["markers"]["cab_push_point_5"][:2] == ["kitchen_counter_:0000", "drawer3"]
    for name, (handle, link, _) in options["joints"].items():
        piece = handle.removesuffix("_:0000")
        urdf = yourdfpy.URDF.load(
            str(root / f"urdf/{piece}/{piece}.urdf"), load_meshes=False, build_scene_graph=False
        )
        assert link in link_order((j.name, j.parent, j.child) for j in urdf.robot.joints), name


def test_options_of_a_foreign_dataset(tmp_path: Path) -> None:
    root = handmade.dataset(tmp_path / "data/replica_cad", floor=-0.2)
    val = "v3_sc3_staging_00"
    with pytest.raises(UserError, match=r"1 movable objects of its own"):
        engine.backend_options(load_dataset(root, layouts=[val]), root, None, 64, 0)
    dataset = load_dataset(root, layouts=["v3_sc0_staging_00"])
    robot = tmp_path / "data/robots/hab_fetch/robots/hab_suction.urdf"
    robot.parent.mkdir(parents=True)
    robot.touch()
    options = engine.backend_options(dataset, root, None, 64, 0)
    assert options["robot"] == str(robot.resolve()), "the user's own hab_fetch comes first"
    assert options["floor"] == pytest.approx(-0.2, abs=1e-3)
    assert options["joints"]["cabinet/tray"][:2] == ["cabinet_:0000", "tray"]
    cabinet = next(root.rglob("cabinet.urdf"))
    mass = '<inertial><origin rpy="0 0 0" xyz="0.1 0 0.05"/><mass value="2"/></inertial>'
    cabinet.write_text(handmade.CABINET.replace('<link name="tray">', f'<link name="tray">{mass}'))
    moved = load_dataset(root, layouts=["v3_sc0_staging_00"])
    frame = np.array(engine.backend_options(moved, root, None, 64, 0)["joints"]["cabinet/tray"][2])
    assert frame[:3, 3] == pytest.approx([0.1, 0, 0.05]), "Habitat's frame of the tray in its own"
    with pytest.raises(UserError, match=r"habitat.robot=.*no file"):
        engine.find_robot(root, str(tmp_path / "x.urdf"))


def test_command_line_keys_become_plain_values(tmp_path: Path) -> None:
    options = habitat_options(HabitatConfig(python=Path("/a/python")), 1)
    assert options == {"python": "/a/python", "robot": None, "gpu": 1}
    assert choose_scenes(None, None, "tidy_house", "val", 3) is None
    root = exported.export(tmp_path)
    scenes = choose_scenes(root, Path("replica_cad"), "small", "val", 1)
    assert scenes is not None and scenes.file is None
    assert len(scenes.read()[1]) == 1


def test_frames_of_the_server_are_those_of_episode_files() -> None:
    rng = np.random.default_rng(0)
    pos, quat = rng.normal(size=(20, 3)), rng.normal(size=(20, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    quat *= np.where(quat[:, :1] < 0, -1.0, 1.0)
    files = frames.to_habitat(pos, quat)
    for p, q, matrix in zip(pos, quat, files, strict=True):
        assert yup.point(matrix[:3, 3], 0.0) == pytest.approx(p)
        assert yup.point(matrix[:3, 3] + [0, 0.3, 0], 0.3) == pytest.approx(p)
        assert yup.point_back(p, 0.3) == pytest.approx(matrix[:3, 3] + [0, 0.3, 0])
        turn = yup.object_rotation(matrix[:3, :3])
        assert yup.quaternion(turn) == pytest.approx(q, abs=1e-9)
        assert yup.object_rotation_back(yup.rotation(q)) == pytest.approx(matrix[:3, :3])
        start = frames.start_to_habitat(np.array([p[0], p[1], 0.7]))
        assert yup.point(np.array(start[0]), 0.0) == pytest.approx([p[0], p[1], 0.0])
    # The body of exported furniture: z up in a URDF whose root is y up.
    upright = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]])
    assert yup.link_rotation(upright) == pytest.approx(np.eye(3))
    assert yup.wrap(np.pi) == pytest.approx(-np.pi) and yup.wrap(-3.0) == -3.0


@pytest.mark.parametrize("objects", [0, 3])
def test_a_state_survives_the_way_as_one_record(objects: int) -> None:
    rng = np.random.default_rng(objects)
    state: dict[str, Any] = {n: rng.normal(size=s) for n, s in layout.fields(objects, 4, 2)}
    state |= {"held_object": -1, "held_marker": 1, "step_count": 7}
    state |= {"hold_violation": True, "diverged": False}
    back = layout.unpack(layout.pack(state, objects, 4, 2), objects, 4, 2)
    for name, value in state.items():
        assert np.array_equal(back[name][0], value), name
    assert back["held_object"].dtype == np.int64 and back["diverged"].dtype == bool
    with pytest.raises(ValueError, match="instead of"):
        layout.unpack(np.zeros(5, np.uint8), objects, 4, 2)


def test_free_space_of_a_navigation_mesh() -> None:
    """Our own free space as the raster that a navigation mesh gives, and back."""
    wall = np.array([[-0.05, -2.0], [0.05, -2.0], [0.05, 0.6], [-0.05, 0.6]])
    table = np.array([[1.2, 0.5], [1.9, 0.9], [1.6, 1.4], [0.9, 1.0]])
    exact = GridNavigation([wall, table], np.array([[-3.0, -2.0], [3.0, 2.0]]))
    xs, ys = np.arange(-3.0, 3.001, 0.05), np.arange(-2.0, 2.001, 0.05)
    samples = np.stack(np.meshgrid(xs, ys, indexing="ij"), axis=-1)
    free = exact.is_navigable(samples)
    navigation = navigation_of(free, [-3.0, -2.0], 0.05)
    found = navigation.is_navigable(samples)
    assert np.all(found[free]), "wherever the mesh says so"
    assert not np.any(found & ~_neighbours(free)), "and at most a sample more at its border"
    start, goal = np.array([-1.5, -1.0]), np.array([1.5, -1.0])
    lengths = []
    for space in (exact, navigation):
        path = space.path(start, goal)
        assert path is not None
        lengths.append(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
    assert lengths[0] == pytest.approx(lengths[1], abs=0.1)
    stops = [space.clamp_motion(start, goal) for space in (exact, navigation)]
    assert stops[0] == pytest.approx(stops[1], abs=0.05)
    door = np.array([[-1.5, 1.0], [-1.4, 1.0], [-1.4, 1.6], [-1.5, 1.6]])
    closed = [space.with_obstacles([door]) for space in (exact, navigation)]
    near = door.mean(axis=0) + np.array([[0.3, 0.0], [0.4, 0.0], [-0.34, 0.0], [-0.3, 0.0]])
    assert closed[1].is_navigable(near).tolist() == [False, True, False, False]
    assert closed[0].is_navigable(near).tolist() == [False, True, False, False]


def _neighbours(free: np.ndarray) -> np.ndarray:
    from scipy import ndimage

    return np.asarray(ndimage.binary_dilation(free, np.ones((3, 3))))


def test_the_server_starts_where_nothing_of_ours_is_installed() -> None:
    """Run from its own folder, with no path to tpsrl: it parses, imports and asks for arguments."""
    script = engine.__file__.replace("engine.py", "server/serve.py")
    command = [sys.executable, script]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "--socket" in done.stderr
