"""A user's own eval.py, skills.py or configs/ beside a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder full of names that are ours, too."""
    for name in ("eval.py", "skills.py", "planner.py"):
        (tmp_path / name).write_text("raise SystemExit('the stranger was imported')\n")
    (tmp_path / "configs").mkdir()
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if words[0] == "-m":  # the user's folder comes before ours then
        environment = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_line_is_immune(folder: Path) -> None:
    result = run(folder, "-m", "tpsrl", "eval", "scenario=tidyhouse")
    assert result.returncode == 2 and "did you mean 'tidy_house'?" in result.stderr, result


def test_worker_processes_are_immune(folder: Path) -> None:
    words = ("scenario=rearrange_easy", "episodes=1", "workers=2", "max_steps=5", "out=result")
    result = run(folder, "-m", "tpsrl", "eval", *words)
    assert result.returncode == 0, result.stderr
    assert (folder / "result" / "summary.json").exists()


def test_an_import_says_which_file_hides_which_package(folder: Path) -> None:
    (folder / "skills.py").rename(folder / "ver_trainer.py")
    (folder / "mine.py").write_text("import skills.envs\n")
    result = run(folder, "mine.py")
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    wanted = f"{folder / 'ver_trainer.py'} hides tpsrl's package 'ver_trainer'; rename that file"
    assert last == f"ImportError: {wanted}"


def test_environments_work_beside_a_stranger_that_they_do_not_need(folder: Path) -> None:
    (folder / "skills.py").unlink()
    (folder / "mine.py").write_text("import skills.envs; print('fine')\n")
    assert run(folder, "mine.py").stdout == "fine\n"
