# ruff: noqa: E501 - a row a damage
"""Whatever is missing, malformed or of another version is named, and nothing is half read."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tpsrl.habitat.data import exported, handmade
from tests.tpsrl.habitat.data.exported import edit
from tpsrl.cli import main
from tpsrl.errors import UserError
from tpsrl.habitat import format as fmt
from tpsrl.habitat.load.dataset import load_dataset
from tpsrl.habitat.load.episodes import find_episodes
from tpsrl.habitat.load.meshes import mesh_parts
from tpsrl.scenes import cache

VAL = "v3_sc3_staging_00"
SCENE = f"configs/scenes/{VAL}.scene_instance.json"
TABLE = "configs/objects/table.object_config.json"
URDF = "urdf/cabinet/cabinet.urdf"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return handmade.dataset(tmp_path_factory.mktemp("room") / "data")


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def write(path: Path, text: str) -> None:
    path.write_text(text)


def swap(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("no mesh", lambda r: (r / "objects/table.glb").unlink(), r"table.object_config.json.*render_asset.*table.glb"),
    ("no stage", lambda r: (r / "configs/stages/room.stage_config.json").unlink(), r"stage 'stages/room'"),
    ("no urdf", lambda r: (r / URDF).unlink(), r"urdf_filepath.*cabinet.urdf"),
    ("cut json", lambda r: write(r / TABLE, '{"render_asset": '), r"table.object_config.json.*valid JSON at line 1"),
    ("binary json", lambda r: (r / TABLE).write_bytes(b"\xff\xfe\x00"), r"table.object_config.json.*no JSON text"),
    ("list json", lambda r: write(r / TABLE, "[]"), r"table.object_config.json.*no JSON object"),
    ("lfs pointer", lambda r: write(r / "objects/table.glb", "version https://git-lfs"), r"table.glb.*Git LFS"),
    ("cut mesh", lambda r: (r / "objects/table.glb").write_bytes((r / "objects/table.glb").read_bytes()[:200]), r"table.glb.*damaged"),
    ("empty mesh", lambda r: (r / "objects/table.glb").write_bytes(b""), r"table.glb"),
    ("bad vector", lambda r: edit(r / TABLE, lambda c: c.update(COM=[0, "x", 0])), r"'COM'.*3 finite numbers"),
    ("bad frame", lambda r: edit(r / TABLE, lambda c: c.update(up=[0, 0, -1])), r"'up'.*perpendicular"),
    ("no receptacle scale", lambda r: edit(r / TABLE, lambda c: c["user_defined"]["receptacle_aabb_foot"].pop("scale")), r"receptacle_aabb_foot.scale.*missing"),
    ("odd receptacle", lambda r: edit(r / TABLE, lambda c: c["user_defined"].update(receptacle_x={"position": [0, 0, 0], "scale": [1, 1, 1]})), r"receptacle_x"),
    ("no receptacle mesh", lambda r: (r / "objects/table_surface.glb").unlink(), r"mesh_filepath"),
    ("unknown template", lambda r: swap(r / SCENE, "objects/shelf", "objects/shelv"), r"'objects/shelv'.*did you mean 'shelf'"),
    ("bad rotation", lambda r: edit(r / SCENE, lambda c: c["object_instances"][0].update(rotation=[0, 0, 0, 0])), r"rotation'.*unit quaternion"),
    ("bad scale", lambda r: edit(r / SCENE, lambda c: c["object_instances"][0].update(uniform_scale=-1)), r"uniform_scale.*positive"),
    ("bad motion", lambda r: edit(r / SCENE, lambda c: c["object_instances"][0].update(motion_type="FLYING")), r"motion_type"),
    ("loose furniture", lambda r: edit(r / SCENE, lambda c: c["articulated_object_instances"][0].update(fixed_base=False)), r"fixed_base"),
    ("no scene stage", lambda r: edit(r / SCENE, lambda c: c.pop("stage_instance")), r"template_name.*missing"),
    ("changed templates", lambda r: edit(r / "room.scene_dataset_config.json", lambda c: c["objects"].update(configs=[{}])), r"objects.configs"),
    ("broken xml", lambda r: write(r / URDF, "<robot><link"), r"cabinet.urdf.*no URDF"),
    ("missing link", lambda r: swap(r / URDF, '<child link="grip"/>', '<child link="gripp"/>'), r"grip_fixed.*gripp"),
    ("no limits", lambda r: swap(r / URDF, '<limit effort="10" lower="0" upper="0.4" velocity="1"/>', ""), r"z_drawer"),
    ("empty range", lambda r: swap(r / URDF, 'lower="0" upper="0.4"', 'lower="0" upper="0"'), r"z_drawer.*empty range"),
    ("chained joints", lambda r: swap(r / URDF, '<joint name="a_door" type="revolute">\n    <origin rpy="0 0 0" xyz="0.25 0.3 -0.2"/><parent link="body"/>', '<joint name="a_door" type="revolute"><parent link="tray"/>'), r"a_door.*hangs on 'tray'"),
    ("odd joint", lambda r: swap(r / URDF, 'type="prismatic"', 'type="floating"'), r"z_drawer.*floating"),
    ("receptacle without link", lambda r: edit(r / "urdf/cabinet/cabinet.ao_config.json", lambda c: c["user_defined"]["receptacle_aabb_tray"].update(parent_link="tra")), r"'tra'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_damage_is_named(root: Path, change: Callable[[Path], object], words: str) -> None:
    change(root)
    with pytest.raises(UserError, match=re.compile(words, re.DOTALL)) as error:
        load_dataset(root, layouts=[VAL])
    assert "\n" not in str(error.value)


def test_undamaged_it_is_read(root: Path) -> None:
    assert list(load_dataset(root, layouts=[VAL]).apartment.layouts) == [VAL]


def test_unknown_layouts_objects_and_folders_are_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"did you mean '{VAL}'"):
        load_dataset(root, layouts=["v3_sc3_stagin_00"])
    with pytest.raises(UserError, match=r"lists no object '999_thing'.*ycb/configs"):
        load_dataset(root, layouts=[VAL], objects=["999_thing"])
    with pytest.raises(UserError, match=r"datasets_download --uids replica_cad_dataset"):
        load_dataset(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"datasets_download --uids rearrange_dataset_v2"):
        find_episodes(root, "tidy_house", "val")
    shutil.copy(root / "room.scene_dataset_config.json", root / "b.scene_dataset_config.json")
    with pytest.raises(UserError, match="several scene datasets"):
        load_dataset(root)


def test_an_export_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = exported.export(tmp_path)
    edit(folder / fmt.MANIFEST, lambda c: c.update(version=fmt.VERSION + 1))
    with pytest.raises(UserError, match=f"format {fmt.VERSION + 1}.*export the apartments again"):
        load_dataset(folder)


def test_solids_that_do_not_fit_their_mesh_are_refused(tmp_path: Path) -> None:
    folder = exported.export(tmp_path)
    path = folder / "configs/objects/table.object_config.json"
    edit(path, lambda c: c["user_defined"][fmt.SOLIDS].pop("004"))
    with pytest.raises(UserError, match=r"tpsrl_solids.*4 solids are described.*5 parts"):
        load_dataset(folder)


def test_converted_meshes_are_cached_and_the_cache_is_checked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mesh = root / "objects/table.glb"
    first = mesh_parts(mesh)
    (entry,) = (cache.cache_dir() / "meshes").iterdir()
    written = entry.stat().st_mtime_ns
    assert [s.rgba for s in mesh_parts(mesh)] == [s.rgba for s in first]
    assert entry.stat().st_mtime_ns == written, "the second time it is read"
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 0xFF
    entry.write_bytes(bytes(data))
    with caplog.at_level(logging.WARNING):
        again = mesh_parts(mesh)
    assert "is damaged" in caplog.text
    assert all((a.vertices == b.vertices).all() for a, b in zip(first, again, strict=True))
    shutil.copy(root / "objects/rug.glb", mesh)
    assert len(mesh_parts(mesh)) == 1, "another file of that name is another mesh"


def test_the_command_line_says_it_in_one_sentence(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenes", "check", f"path={root}"]) == 0
    assert "2 layouts" in capsys.readouterr().out
    assert main(["scenes", "check", f"path={tmp_path / 'nowhere'}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["eval", "data=replica_cad"]) == 2
    assert "path=DIR" in capsys.readouterr().err
    assert main(["scenes", "exprt"]) == 2
    assert "did you mean 'export'" in capsys.readouterr().err
