"""A seeded part of ``python -m benchmarks.faults``: nothing hangs, leaks or ends in a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.faults.__main__ import main
from benchmarks.faults.runs import FAULTS, Job


def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    assert main(["mutations=160", "runs=0", "seed=20", f"json={out}"]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 8 and sum(sum(r["counts"].values()) for r in rows.values()) >= 155
    assert all(row["counts"]["refused"] for row in rows.values())
    assert not any(row["examples"] for row in rows.values())


class _Waits(Random):
    """Chooses the last: the longest wait, the fullest disk that is not full."""

    def choice(self, seq: Any) -> Any:
        """See :class:`random.Random`."""
        return seq[-1]


@pytest.mark.parametrize("kind", ["full disk", "two at once"])
def test_a_fault_that_hits_nothing_is_not_survived(kind: str, tmp_path: Path) -> None:
    """The command writes nothing, and has ended before a second one begins."""
    job = Job("tpsrl --version", ("--version",), "run", lambda out: None, ())
    verdict = FAULTS[kind](job, tmp_path / "run", _Waits(0), None)
    assert verdict == ("untouched", "the fault hit nothing")
