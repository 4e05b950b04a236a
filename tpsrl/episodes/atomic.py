"""Files that are either old or new, never half written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

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
