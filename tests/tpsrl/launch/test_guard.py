"""Whom the guard of a Ray cluster of a command's own takes for a part of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tpsrl.launch.guard import members


@contextmanager
def holding(path: Path, how: str, **options: int) -> Iterator[int]:
    """Yield the process number of a shell that has a file open."""
    words = ["sh", "-c", f"exec 3{how}'{path}'; echo on; read word"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, **options) as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        yield process.pid


def test_who_only_reads_the_logs_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "session" / "raylet.out"
    log.parent.mkdir()
    log.touch()
    with ExitStack() as stack:
        stack.enter_context(holding(log, "<"))
        stack.enter_context(holding(tmp_path / "other", ">>"))
        writers = [stack.enter_context(holding(log, how)) for how in (">>", "<>")]
        assert sorted(process.pid for process in members(str(log.parent))) == sorted(writers)
        assert [p.pid for p in members(str(log.parent), writers[0])] == [writers[1]]


@pytest.mark.skipif(os.getuid() != 0, reason="starts a process of another user")
def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "raylet.out"
    log.touch()
    with (
        log.open("a") as file,
        subprocess.Popen(["sleep", "60"], stdout=file, user=65534) as process,
    ):
        found = [member.pid for member in members(str(tmp_path))]
        process.kill()
    assert found == [os.getpid()]
