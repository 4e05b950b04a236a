"""Learning curves from a run's records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eval.curves import keep_curve, main, read_curve
from tpsrl.errors import UserError


def _run(folder: Path, count: int = 30) -> Path:
    folder.mkdir()
    rows = [{"step": 10, "time/seconds": 0.5}]  # before the first finished episode
    rows += [
        {"step": 10 * k, "time/seconds": 2.0 * k, "episode/success": k / count}
        for k in range(1, count + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_curve_ends_where_the_run_ends_and_averages_between(tmp_path: Path) -> None:
    curve = read_curve(_run(tmp_path / "run"), points=10)
    assert curve["step"][-1] == 300 and curve["time/seconds"][-1] == 60.0
    np.testing.assert_allclose(curve["episode/success"][:2], [2 / 30, 5 / 30])
    assert "episode/return" not in curve


def test_a_kept_curve_is_the_curve(tmp_path: Path) -> None:
    curve = read_curve(_run(tmp_path / "run"), points=10)
    keep_curve(curve, tmp_path / "kept.jsonl")
    again = read_curve(tmp_path / "kept.jsonl", points=10)
    assert again.keys() == curve.keys()
    for name, values in curve.items():
        np.testing.assert_allclose(again[name], values, atol=1e-4)


def test_the_command_draws_a_picture_of_two_panels(tmp_path: Path) -> None:
    out = tmp_path / "curve.png"
    kept = tmp_path / "kept.jsonl"
    assert main([f"scratch={_run(tmp_path / 'run')}", f"out={out}", f"keep={kept}"]) == 0
    assert out.read_bytes()[:4] == b"\x89PNG" and len(kept.read_text().splitlines()) == 30
    assert not list(tmp_path.glob(".*"))


def test_stages_are_drawn_one_after_the_other(tmp_path: Path) -> None:
    stages = [_run(tmp_path / "first", 20), _run(tmp_path / "second", 10)]
    curve = read_curve(stages, points=30)
    np.testing.assert_allclose(curve["step"], 10 * np.arange(1, 31))
    np.testing.assert_allclose(np.diff(curve["time/seconds"]), 2.0)
    out = tmp_path / "curve.png"
    assert main([f"run={stages[0]},{stages[1]}", f"out={out}"]) == 0 and out.exists()


def test_a_run_without_episodes_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "time/seconds": 1}\n')
    with pytest.raises(UserError, match="episode/success"):
        read_curve(tmp_path)
    assert main([str(tmp_path), f"out={tmp_path / 'x.png'}"]) == 2
