"""One YAML beside the user's other files is a scenario: episodes, plan and robot follow from it."""

import json

import pytest

from planner import PlannerError, find_plan
from planner.chain.problems import hab_problem
from tpsrl.cli import main
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.errors import UserError

MINE = """
samplers:
  can: {objects: [005_tomato_soup_can], receptacles: [counter_left, counter_right]}
goals:
  can: {sampler: can, receptacles: [fridge_middle], region_ratio: {fridge_middle: 0.5}}
max_steps: 1500
"""
CLOSED = """
problem:
  goal: ["object_at(can|0, TARGET_can|0)", "closed_fridge(fridge_push_point)", "not_holding()"]
  stages: {away: ["object_at(can|0, TARGET_can|0)"]}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "into_fridge.yaml"
    path.write_text(MINE)
    return path


def test_one_file_is_enough(mine, capsys):
    mine.write_text(MINE + CLOSED)
    assert main(["plan", "scenario=into_fridge.yaml"]) == 0
    plan = capsys.readouterr().out
    assert "open_fridge(fridge_push_point" in plan and "close_fridge(fridge_push_point" in plan
    words = ["eval", "scenario=into_fridge.yaml", "executor=replan", "workers=1", "out=run"]
    assert main([*words, "episodes=1"]) == 0
    summary = json.loads((mine.parent / "run" / "summary.json").read_text())
    assert summary["success"]["mean"] == 1.0 and summary["config"]["max_steps"] == 1500
    config = summary["config"]
    assert list(summary["stages"]) == ["away"]
    assert config["scenario"] == "into_fridge" and config["scenario_file"] == str(mine)
    (made,) = (mine.parent / "cache" / "tpsrl" / "episodes").glob("*.json.gz")
    assert made.name.startswith("into_fridge_val_1_")
    assert [e.scenario for e in load_episodes(made)] == ["into_fridge"]
    mine.write_text(MINE.replace("1500", "1600"))
    capsys.readouterr()
    assert main([*words, "episodes=1"]) == 2
    assert "holds a run with max_steps=1500" in capsys.readouterr().err
    assert main([*words, "episodes=1", "max_steps=1500"]) == 2
    assert f"scenario_digest={config['scenario_digest']}, this" in capsys.readouterr().err


def test_a_changed_file_is_another_problem(mine):
    open_only = find_plan(hab_problem("into_fridge.yaml"))
    assert list(hab_problem(str(mine)).stages) == ["stage_0_5", "stage_1"]
    mine.write_text(MINE + CLOSED)
    assert list(hab_problem(str(mine)).stages) == ["away"]
    assert len(find_plan(hab_problem("into_fridge.yaml"))) > len(open_only)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("can|0,", "cup|0,", "Unknown entity 'cup|0'"),
        ("closed_fridge", "shut", "Unknown predicate 'shut'"),
        ('"not_holding()"', '"holding(can|0)"', "no plan reaches its goal"),
        ("  goal:", "  gaol:", "unknown key 'gaol' in 'problem'; did you mean 'goal'?"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(mine, old, new, message):
    mine.write_text((MINE + CLOSED).replace(old, new))
    with pytest.raises(UserError) as caught:
        hab_problem(str(mine))
    assert message in str(caught.value) and str(caught.value).startswith(f"{mine}: ")
    assert not isinstance(caught.value, PlannerError)
