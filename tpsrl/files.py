"""Whole files, old or new: what :mod:`ver_trainer.files` has, for bytes and JSON; whole lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ver_trainer.files import replacing, writing


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename it into place; make the folder if need be.

    Raises:
        StorageError: the folder cannot be made or written to; what stood there before is intact.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON, as :func:`write_atomically` does.

    Raises:
        StorageError: as there.
    """
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def lines_of(path: Path) -> list[str]:
    """Return the complete lines of a file that may not exist yet, or is being written."""
    return path.read_text().split("\n")[:-1] if path.exists() else []
