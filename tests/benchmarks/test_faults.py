"""A seeded part of ``python -m benchmarks.faults``: nothing hangs, leaks or ends in a traceback."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.faults.__main__ import main


def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    assert main(["mutations=160", "runs=0", "seed=20", f"json={out}"]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 8 and sum(sum(r["counts"].values()) for r in rows.values()) >= 155
    assert all(row["counts"]["refused"] for row in rows.values())
    assert not any(row["examples"] for row in rows.values())
