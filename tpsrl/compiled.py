"""Functions compiled by Numba."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SOURCES = ("geometry", "robot", "sim")
"""Folders of this package that hold compiled functions, and the constants in them."""
_KEPT = 4
"""Versions of them whose code is kept."""


def _njit(function: Callable[..., Any], cache: bool) -> Any:
    import numba  # half a second, which those who call no compiled function need not wait for

    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, _folder(config.CACHE_DIR) if cache else ""
    try:
        return numba.njit(function, cache=cache, nogil=True, error_model="numpy")
    finally:
        config.CACHE_DIR = before


@functools.cache
def _folder(chosen: str) -> str:
    """Return where code is kept, within what a user chose; ``""`` for where Numba would.

    Numba compiles a function anew when its own file changes. A function that it calls may stand in
    another file, so every version of the sources has a folder of its own.
    """
    package, digest = Path(__file__).parent, hashlib.sha256()
    for name in _SOURCES:
        for file in sorted((package / name).rglob("*.py")):
            digest.update(file.read_bytes())
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tpsrl"
    for root in [Path(chosen)] if chosen else [package / "__pycache__", users]:
        folder = root / "compiled" / digest.hexdigest()[:16]
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                _forget_oldest(folder.parent)
                return str(folder)
    return chosen


def _forget_oldest(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process does the same
        versions = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in versions[_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call; the code is kept on disk where that can be."""
    try:
        return _njit(function, cache=True)
    except RuntimeError:  # nowhere to keep the compiled code: every process makes its own
        return _njit(function, cache=False)


class compiled_later:  # noqa: N801
    """Compile a function at its first call, without Numba until then.

    Python and other compiled functions can call it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._made = function, None

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self._dispatcher(*args)

    @property
    def _numba_type_(self) -> Any:
        # What Numba asks of a name that the function it compiles uses.
        return self._dispatcher._numba_type_

    @property
    def _dispatcher(self) -> Any:
        if self._made is None:
            self._made = compiled(self._function)
        return self._made
