from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from eval.figures import _styles, _whiskers, load_runs, main, own_parts
from eval.runner import evaluate
from tests.eval.counting_world import episode, spec
from tpsrl.errors import UserError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    episodes = [episode(i, goal_step=5 if i % 2 else 99) for i in range(6)]
    for name in ("hab", "replan"):
        evaluate(spec(agent="counting", executor=name), episodes, folder / name, workers=1)
    return [folder / "hab", folder / "replan"]


def test_figure_shows_several_runs(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "figure.png"
    assert main([*map(str, runs), f"out={out}"]) == 0
    with Image.open(out) as picture:
        assert picture.format == "PNG" and picture.width > 400
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 50
    assert list(out.parent.iterdir()) == [out]
    loaded = load_runs(runs)
    assert [run["name"] for run in loaded] == ["counting hab", "counting replan"]
    assert loaded[0]["stages"]["stage_1"]["mean"] == 0.5


def test_bad_input_is_one_sentence(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), f"out={tmp_path}/a.png"]) == 2
    assert "holds no evaluation" in capsys.readouterr().err
    assert main([str(runs[0])]) == 2
    assert "usage" in capsys.readouterr().err
    assert main([str(runs[0]), f"out={tmp_path}/a.xyz"]) == 2
    assert "cannot write the figure" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_agents_have_colours_and_executors_lines(runs: list[Path]) -> None:
    loaded = load_runs([*runs])
    assert _styles(loaded) == {}  # one agent: the lines differ by themselves
    other = [{**run, "config": {**run["config"], "agent": "other"}} for run in loaded]
    styles = _styles([*loaded, *other])
    assert styles["counting", "hab"]["color"] == styles["counting", "replan"]["color"]
    assert styles["counting", "hab"]["color"] != styles["other", "hab"]["color"]
    assert styles["counting", "hab"]["linestyle"] == styles["other", "hab"]["linestyle"]
    assert styles["counting", "hab"]["linestyle"] != styles["counting", "replan"]["linestyle"]
    assert _styles([*loaded, *other, *loaded]) == {}  # the same agent twice, e.g. other weights


def test_a_run_with_stand_ins_says_so(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs[0], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "stand_ins": ["place"]}))
    assert load_runs([folder])[0]["name"] == "counting (scripted: place) hab"


def test_rates_of_one_and_of_none_have_intervals(tmp_path: Path) -> None:
    for name, step in (("all", 1), ("none", 99)):
        episodes = [episode(i, goal_step=step) for i in range(6)]
        evaluate(spec(agent="counting", executor="hab"), episodes, tmp_path / name, workers=1)
    runs = load_runs([tmp_path / "all", tmp_path / "none"])
    rates = [run["success"] for run in runs]
    assert [rate["mean"] for rate in rates] == [1.0, 0.0]
    # Wilson's interval of 6 of 6 begins at 1 / (1 + z^2 / 6).
    bound = 100 * (1 - 1 / (1 + 1.959964**2 / 6))
    below, above = _whiskers(rates)
    assert below == pytest.approx([bound, 0.0]) and above == pytest.approx([0.0, bound])
    assert all("wilson" in rate for rate in runs[0]["stages"].values())


def test_panels_of_the_same_agents_share_a_legend(runs: list[Path]) -> None:
    from matplotlib.figure import Figure

    from eval.figures import _add_legends

    for shared, below, beside in ((True, 1, 0), (False, 0, 2)):
        figure = Figure(layout="constrained")
        axes = figure.subplots(1, 2)
        for axis in axes:
            axis.errorbar([0, 1], [1, 2], yerr=[1, 1], label="tpsrl hab")
        axes[1].errorbar([0, 1], [1, 2], yerr=[1, 1], label="scripted hab")
        _add_legends(figure, axes, shared=shared)
        assert len(figure.legends) == below
        assert sum(axis.get_legend() is not None for axis in axes) == beside
        if shared:
            names = [text.get_text() for text in figure.legends[0].get_texts()]
            assert names == ["tpsrl hab", "scripted hab"]


def test_folders_of_the_same_name_are_told_apart(runs: list[Path], tmp_path: Path) -> None:
    for name in ("old", "new"):
        shutil.copytree(runs[0], tmp_path / name / "counting_val_hab")
    folders = [tmp_path / name / "counting_val_hab" for name in ("old", "new")]
    # Of two scenarios, too, one panel has each line once.
    other = tmp_path / "new" / "other_val_hab"
    shutil.copytree(runs[0], other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "scenario": "other"}))
    names = [run["name"] for run in load_runs([*folders, other])]
    assert names == ["counting hab (old)", "counting hab (new)", "counting hab"]
    assert [run["name"] for run in load_runs([folders[0], runs[0]])] == [
        "counting hab (counting_val_hab)",
        "counting hab (hab)",
    ]
    assert own_parts([folders[0], folders[0]]) == ["counting_val_hab"] * 2


def test_results_of_a_skill_in_the_list_are_named(runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(runs[0], tmp_path / "pick")
    line = json.dumps({"index": 0, "fingerprint": "", "success": True, "cause": ""})
    (tmp_path / "pick" / "episodes.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match="pick: record 0 is not of an episode of a chain"):
        load_runs([runs[0], tmp_path / "pick"])
