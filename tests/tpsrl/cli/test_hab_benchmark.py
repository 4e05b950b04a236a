"""``python -m benchmarks.hab``: several agents in one table."""

import json

import pytest

from benchmarks.hab import Config, main, plan_runs, row
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


def test_stages_of_a_scenario_of_ones_own_are_none_of_the_benchmarks(tmp_path):
    rate = {"mean": 0.5, "count": 10, "low": 0.2, "high": 0.8, "wilson": {"low": 0.2, "high": 0.8}}
    summary = {
        "config": {"scenario": "mine", "agent": "scripted", "executor": "hab"},
        "stages": {"away": rate},
        "success": rate,
        "steps": {"mean": 100.0},
    }
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert [cell.strip() for cell in row(tmp_path).split("|")][6:8] == ["-", "-"]
