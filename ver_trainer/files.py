"""Files that are either old or new, never half written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a name beside ``path`` that takes its place at the end of the block.

    An exception in the block leaves ``path`` as it was. The name ends as ``path`` does, since some
    writers choose their format by that.
    """
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Any) -> None:
    """Writes ``data`` as indented JSON."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(data, indent=2) + "\n")
