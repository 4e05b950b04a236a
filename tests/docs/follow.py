"""Does what a page of docs/ says, by the page alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


def follow(page: str, folder: Path, code: Path = ROOT) -> str:
    """Carry out the blocks of a page, one after the other.

    A block with a title is a file to write, ``diff`` changes the code, ``bash`` and ``python`` are
    run, and each line of ``text`` must be in what was printed last. ``sh`` is for the reader alone.

    Args:
        page: below docs/.
        folder: in which a reader works.
        code: where our packages lie.

    Returns:
        What the last block printed.
    """
    printed = ""
    for language, title, body in _FENCE.findall((ROOT / "docs" / page).read_text()):
        if title:
            (folder / title).write_text(body)
        elif language == "diff":
            subprocess.run(["git", "apply", "-"], cwd=code, input=body, text=True, check=True)
        elif language in ("bash", "python"):
            printed = _run(language, body, folder, code)
        elif language == "text":
            for line in body.strip().splitlines():
                assert _plain(line) in _plain(printed), f"{page}: '{line}' is not in\n{printed}"
    return printed


def _run(language: str, body: str, folder: Path, code: Path) -> str:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euc", body] if language == "bash" else [sys.executable, "-c", body]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": programs, "PYTHONPATH": str(code), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _plain(text: str) -> str:
    return " ".join(text.split())
