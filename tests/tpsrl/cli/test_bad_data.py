"""Bad episode files and result folders, through the command line that a user types."""

from __future__ import annotations

import copy
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpsrl.cli import main

SHIPPED = Path(__file__).resolve().parents[3] / "tpsrl/episodes/data/tidy_house_val.json.gz"


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    content = json.loads(gzip.decompress(SHIPPED.read_bytes()))
    return {**content, "episodes": content["episodes"][:2]}


def missing_field(top: dict[str, Any]) -> None:
    del top["episodes"][1]["targets"]


def unknown_object(top: dict[str, Any]) -> None:
    first = top["episodes"][1]["rigid_objs"][0]
    old = first[0].removesuffix(".object_config.json")
    text = json.dumps(top["episodes"][1]).replace(old, "999_no_such_thing")
    top["episodes"][1] = json.loads(text)


def nan_transform(top: dict[str, Any]) -> None:
    top["episodes"][1]["rigid_objs"][0][1][0][3] = float("nan")


def outside(top: dict[str, Any]) -> None:
    top["episodes"][1]["rigid_objs"][0][1][0][3] = 250.0


def start_outside(top: dict[str, Any]) -> None:
    top["episodes"][1].update(start_position=[500, 0, 500], start_rotation=[0, 0, 0, 1])


def start_far(top: dict[str, Any]) -> None:
    top["episodes"][1].update(start_position=[3000, 0, 3000], start_rotation=[0, 0, 0, 1])


def start_tilted(top: dict[str, Any]) -> None:
    top["episodes"][1].update(start_position=[1, 0, 1], start_rotation=[1, 0, 0, 0])


def huge_rotation(top: dict[str, Any]) -> None:
    top["episodes"][1]["rigid_objs"][0][1][0][0] = 1e300


def null_list(top: dict[str, Any]) -> None:
    top["episodes"][1]["rigid_objs"] = None


def odd_names(top: dict[str, Any]) -> None:
    top["episodes"][1]["info"]["goal_receptacle_names"] = [1, None]


def many_objects(top: dict[str, Any]) -> None:
    top["episodes"][1]["rigid_objs"] *= 20_000 // len(top["episodes"][1]["rigid_objs"])


def odd_link(top: dict[str, Any]) -> None:
    top["episodes"][1]["ao_states"] = {"fridge_:0000": {"²": 0.1}}


def no_episodes(top: dict[str, Any]) -> None:
    top["episodes"] = []


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (missing_field, ["targets"]),
        (unknown_object, ["999_no_such_thing", "rigid_objs"]),
        (nan_transform, ["rigid_objs"]),
        (outside, ["rigid_objs", "outside"]),
        (start_outside, ["start_position", "outside"]),
        (start_far, ["start_position", "outside"]),
        (start_tilted, ["start_rotation", "rotation about the vertical"]),
        (huge_rotation, ["rigid_objs", "rigid transform"]),
        (null_list, ["rigid_objs", "not a list"]),
        (odd_names, ["goal_receptacle_names", "list of names"]),
        (many_objects, ["rigid_objs", "more than the 500 allowed"]),
        (odd_link, ["ao_states", "no whole number"]),
        (no_episodes, ["no episodes"]),
    ],
)
def test_bad_episode_files_are_refused_with_episode_and_field(
    damage: Callable[[dict[str, Any]], None],
    parts: list[str],
    shipped: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    top = copy.deepcopy(shipped)
    damage(top)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(top))
    out = tmp_path / "out"
    assert main(["eval", "scenario=tidy_house", f"data={file}", f"out={out}"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "mine.json" in errors
    for part in parts:
        assert part in errors
    if top["episodes"]:
        assert str(shipped["episodes"][1]["episode_id"]) in errors
    assert not out.exists()


def test_truncated_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json.gz"
    file.write_bytes(SHIPPED.read_bytes()[:5000])
    assert main(["eval", f"data={file}"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "mine.json.gz" in errors


def test_episodes_of_another_scenario_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "scenario=set_table", f"data={SHIPPED}"]) == 2
    assert "episodes of tidy_house, not of set_table" in capsys.readouterr().err


def test_more_episodes_than_the_file_holds(
    shipped: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(shipped))
    assert main(["eval", f"data={file}", "episodes=3"]) == 2
    assert "holds 2 episodes; 3 were asked for" in capsys.readouterr().err


def test_unwritable_result_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["eval", "episodes=1", f"out={tmp_path}/file/out"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "cannot be written" in errors
    assert main(["record", f"out={tmp_path}/file/x.mp4"]) == 2
    assert "cannot write the video" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_result_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    assert main(["eval", "episodes=1", f"out={tmp_path}/out"]) == 2
    assert "Permission denied" in capsys.readouterr().err
