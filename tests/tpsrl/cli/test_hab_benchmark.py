"""``python -m benchmarks.hab``: several agents in one table."""

import json
from pathlib import Path

import pytest

from benchmarks.hab import HEAD, Config, main, plan_runs, row
from ver_trainer.options import load

SMALL = ["scenarios=rearrange_easy", "episodes=1", "workers=1"]


def test_runs_are_named_and_continued(tmp_path, capsys):
    words = [*SMALL, "agents=scripted", "executors=hab", f"out={tmp_path}"]
    assert main(words) == 0
    first = capsys.readouterr().out.splitlines()[-1]
    assert first.startswith("| rearrange_easy | scripted | hab | 1 |") and "[" in first
    stored = (tmp_path / "rearrange_easy_val_scripted_hab" / "episodes.jsonl").read_bytes()
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == first
    assert (tmp_path / "rearrange_easy_val_scripted_hab" / "episodes.jsonl").read_bytes() == stored
    assert (tmp_path / "stages.png").stat().st_size > 1000


def test_every_agent_scenario_and_executor_is_run_once():
    runs = plan_runs(load(Config, ["agents=scripted,tpsrl"]))
    assert len({str(run["out"]) for run in runs}) == len(runs) == 2 * 2 * 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["agents=scripted,tpsrll"], "did you mean 'tpsrl'"),
        (["executors=habb"], "did you mean 'hab'"),
        (["agents="], "names nothing"),
        (["agents=scripted,monolithic", "weights=WEIGHTS"], "tpsrl train skill=rearrange_easy"),
    ],
)
def test_mistakes_are_named_before_anything_runs(words, text, tmp_path, capsys):
    words = [word.replace("WEIGHTS", str(tmp_path)) for word in words]
    assert main([*SMALL, *words, f"out={tmp_path / 'o'}"]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_a_scenario_with_stages_of_its_own_has_dashes(tmp_path: Path) -> None:
    half = {"mean": 0.5, "count": 4}
    summary = {"success": half, "steps": {"mean": 900.0}}
    summary["config"] = {"scenario": "mine", "agent": "scripted", "executor": "hab"}
    for stages, cells in (
        ({"fridge open": half, "stage_1": half}, ["-", "50% [15, 85]"]),
        ({"fridge open": half}, ["-", "-"]),
        ({}, ["-", "-"]),
        ({"stage_0_5": half, "stage_1": half}, ["50% [15, 85]"] * 2),
    ):
        (tmp_path / "summary.json").write_text(json.dumps({**summary, "stages": stages}))
        line = row(tmp_path)
        assert line.split(" | ")[5:7] == cells
        assert line.count("|") == HEAD.splitlines()[0].count("|")
