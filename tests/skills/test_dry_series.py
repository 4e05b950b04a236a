"""``skills=`` and ``tpsrl sweep`` before anything is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpsrl.cli import main


def test_a_dry_run_of_several_trains_none(tmp_path: Path, capsys) -> None:
    words = ["train", "skills=[open_fridge]", "teachers=2", "launch.dry_run=true"]
    assert main([*words, f"out={tmp_path / 'runs'}"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("would run in this process") == 4 and "begins" not in shown
    assert not (tmp_path / "runs").exists()


def test_a_sweep_of_a_skill_makes_its_episodes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers may not have the processes that make them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["sweep", "skill=open_cab", "config=state", "over.seed=[1]", "total_steps=32"]
    words += ["train_episodes=1", "collect.num_envs=2", "collect.steps=16", "collector=inline"]
    words += ["log.tensorboard=false", f"out={tmp_path / 'sweep'}"]
    assert main(words) == 0
    assert list((tmp_path / "cache").rglob("*.json.gz"))
