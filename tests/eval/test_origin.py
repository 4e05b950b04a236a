"""What a summary says of where its episodes come from, over several calls in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval.report import write_report
from eval.runner import evaluate
from tests.eval.counting_world import episode, spec
from tpsrl import provenance
from tpsrl.errors import UserError

ORIGIN = ("session", "engine", "versions", "commit", "machine", "date")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run so many episodes at a commit, on a date."""

    def call(count: int, commit: str, date: str, mujoco: str = "4", **extra: Any) -> dict[str, Any]:
        monkeypatch.setattr(provenance, "git_commit", lambda: commit)
        monkeypatch.setattr(provenance, "now", lambda: date)
        monkeypatch.setattr(provenance, "versions", lambda: {"mujoco": mujoco})
        return evaluate(spec(), [episode(k, **extra) for k in range(count)], tmp_path, workers=1)

    return call


def test_a_call_that_runs_nothing_leaves_the_origin_of_the_results(run: Any) -> None:
    first = run(3, "aaa", "Monday")
    again = run(3, "bbb", "Tuesday", mujoco="5")
    fewer = run(2, "ccc", "Wednesday")
    for later in (again, fewer):
        assert {key: later[key] for key in ORIGIN} == {key: first[key] for key in ORIGIN}
        assert "earlier" not in later
    assert fewer["episodes"] == 2 and first["session"]["episodes"] == 3


def test_earlier_commits_and_versions_are_kept_once_each(run: Any, tmp_path: Path) -> None:
    assert "earlier" not in run(1, "aaa", "Monday")
    assert "earlier" not in run(2, "aaa", "Tuesday"), "the same program"
    run(3, "bbb", "Wednesday")
    run(4, "bbb", "Thursday", mujoco="5")
    last = run(5, "ccc", "Friday", mujoco="5")
    told = [(one["commit"], one["date"], one["versions"]["mujoco"]) for one in last["earlier"]]
    assert told == [("aaa", "Tuesday", "4"), ("bbb", "Wednesday", "4"), ("bbb", "Thursday", "5")]
    assert last["commit"] == "ccc" and last["session"]["episodes"] == 1
    assert run(5, "ddd", "Saturday")["earlier"] == last["earlier"]
    back = run(6, "aaa", "Sunday")
    assert [one["commit"] for one in back["earlier"]] == ["bbb", "bbb", "ccc"]
    text = write_report(tmp_path).read_text()
    assert "commit bbb, date Thursday, versions mujoco 5; commit ccc, date Friday" in text


def test_a_call_that_could_not_begin_made_no_episode(run: Any) -> None:
    with pytest.raises(UserError, match="unknown"):
        run(1, "aaa", "Monday", unknown_object=1)
    found = run(1, "bbb", "Tuesday")
    assert found["commit"] == "bbb" and "earlier" not in found


def test_a_command_that_could_not_begin_does_not_keep_its_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no OpenGL here"):
        evaluate(spec(broken="user", seed=1), [episode(0)], tmp_path, workers=1)
    assert evaluate(spec(seed=2), [episode(0)], tmp_path, workers=1)["complete"]
