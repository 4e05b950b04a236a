"""``tpsrl handoff`` from the outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpsrl.cli import main


def test_an_agent_without_skills_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "st.npz"
    words = ["handoff", "scenario=rearrange_easy", "split=val", "agent=monolithic", f"out={out}"]
    assert main([*words, "episodes=1", f"weights={tmp_path / 'none'}"]) == 2
    error = capsys.readouterr().err
    assert "agent=monolithic is one policy without skills" in error and "scripted" in error
    assert error.count("\n") == 1 and not list(tmp_path.iterdir())
