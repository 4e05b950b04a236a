"""Files that are either old or new, never half written."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tpsrl.errors import UserError


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename it into place.

    Raises:
        UserError: the folder cannot be made or written to; what stood there before is intact.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as e:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise UserError(f"{path}: cannot be written ({e.strerror}); choose another place") from None


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON, as :func:`write_atomically` does.

    Raises:
        UserError: as there.
    """
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
