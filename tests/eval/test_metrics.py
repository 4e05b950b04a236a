from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from eval.episode import GOAL_REFUSED, EpisodeRecord, StageClock, blame
from eval.metrics import failures, skill_table, stage_curve, summarize
from eval.table import print_summary, rate, stage_label


def record(index: int, **values: Any) -> EpisodeRecord:
    return EpisodeRecord(index, str(index), "f", "tidy_house", "sc3", 7, **values)


def skill(name: str, outcome: str = "success", cause: str = "", steps: int = 10) -> dict:
    return {"skill": name, "action": name, "steps": steps, "outcome": outcome, "cause": cause}


def test_stages_latch_alone_and_in_order() -> None:
    clock = StageClock()
    for step, holds in enumerate(
        [(False, False, True), (True, False, False), (False, True, False), (False, False, True)]
    ):
        clock.update(dict(zip("abc", holds, strict=True)), step)
    assert clock.first == {"a": 1, "b": 2, "c": 0}
    assert clock.ordered == {"a": 1, "b": 2, "c": 3}
    early = StageClock()
    early.update({"a": False, "b": True}, 4)
    assert early.first["b"] == 4 and early.ordered["b"] is None


def test_stage_curve_counts_episodes_that_never_started() -> None:
    rows = [
        record(0, ordered_stages={"a": 1, "b": 2}, stages={"a": 1, "b": 2}),
        record(1, ordered_stages={"a": 3, "b": None}, stages={"a": 3, "b": 1}),
        record(2, end="worker_died"),
    ]
    curve = stage_curve(rows)
    assert curve["a"]["mean"] == pytest.approx(2 / 3)
    assert curve["b"]["mean"] == pytest.approx(1 / 3)
    assert stage_curve(rows, ordered=False)["b"]["mean"] == pytest.approx(2 / 3)


def test_blame_names_the_skill_that_ended_the_episode() -> None:
    picked = [skill("navigate"), skill("pick", "timeout", "nothing grasped")]
    assert blame(record(0, end="stop", skills=picked)) == {
        "skill": "pick",
        "cause": "nothing grasped",
    }
    assert blame(record(0, end="max_steps", skills=picked))["cause"] == "max_steps"
    solved = record(0, end="max_steps", goal_at_end=True, skills=picked)
    assert blame(solved) == {"skill": "pick", "cause": "no_stop"}
    fine = record(0, end="stop", skills=[skill("place")])
    assert blame(fine) == {"skill": "place", "cause": "goal_not_reached"}
    assert blame(record(0, end="diverged")) == {"skill": "(none)", "cause": "diverged"}


def test_failures_sum_to_the_failed_episodes_and_skills_count_every_run() -> None:
    rows = [
        record(0, success=True, skills=[skill("pick", "failure", "dropped"), skill("pick")]),
        record(1, skills=[skill("pick")], failure={"skill": "pick", "cause": "dropped"}),
        record(2, failure={"skill": "place", "cause": "timeout"}),
        record(3, failure={"skill": "pick", "cause": "dropped"}),
    ]
    assert failures(rows) == {"pick": {"dropped": 2}, "place": {"timeout": 1}}
    table = skill_table(rows)["pick"]
    assert table["runs"] == 3 and table["success"] == pytest.approx(2 / 3)
    assert table["failures"] == {"dropped": 1}


def test_records_survive_json_with_numpy_and_nan() -> None:
    row = record(0, extra={"a": np.float64("nan"), "b": np.arange(2), "c": np.bool_(True)})
    text = json.dumps(row.to_json(), allow_nan=False)
    assert EpisodeRecord.from_json(json.loads(text)).extra == {"a": None, "b": [0, 1], "c": True}


def test_empty_and_full_summaries_print(capsys: pytest.CaptureFixture[str]) -> None:
    shared = {"wanted_episodes": 2, "config": {"scenario": "tidy_house", "executor": "hab"}}
    print_summary({**summarize([]), **shared})
    rows = [
        record(0, success=True, steps=100, seconds=1.0, ordered_stages={"stage_0_5": 3}),
        record(1, failure={"skill": "pick", "cause": "dropped"}, skills=[skill("pick")]),
    ]
    print_summary({**summarize(rows), **shared})
    text = capsys.readouterr().out
    for part in ["tidy_house hab", "2 of 2", "50.0%", "reached pick 1", "dropped"]:
        assert part in text
    print_summary({**summarize(rows[:1]), **shared})
    # Wilson's interval of 1 of 1: [1 / (1 + 1.96^2), 1].
    assert "20.7% to 100.0%" in capsys.readouterr().out
    assert stage_label("stage_3") == "place 3" and stage_label("close_door") == "close door"
    assert rate({"mean": 0.5, "low": 0.0, "high": 1.0}) == "50.0% [0.0, 100.0]"


def test_steps_and_forces_are_of_episodes_that_were_played() -> None:
    played = record(0, end="stop", success=True, steps=1000, force_max=300.0)
    found = summarize([played, record(1, end=GOAL_REFUSED), record(2, end="error")])
    assert found["steps"]["mean"] == 1000 and found["force_max"]["median"] == 300
    assert found["steps"]["count"] == 1 and found["success"]["count"] == 3
