"""Where our packages and configuration files lie, whatever stands in the user's own folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds our packages: ``site-packages``, or a clone."""
_INSTALLED = Path(__file__).resolve().parent / "configs"
CONFIGS = _INSTALLED if _INSTALLED.is_dir() else ROOT / "configs"
"""YAML files, found by path: they are data, so a user's ``configs/`` cannot hide them."""


def prefer_ours() -> None:
    """Let our packages win over a user's ``eval.py`` or ``skills/``, here and in child processes.

    The user's folder is importable, behind ours: ``env=module:Name-v0`` finds it.
    """
    sys.path[:] = [str(ROOT), *(entry for entry in sys.path if entry != str(ROOT))]
    with contextlib.suppress(OSError):  # the folder may be gone
        if not {"", here := os.getcwd()} & set(sys.path):
            sys.path.append(here)


def require(*names: str) -> None:
    """Refuse to go on where a stranger's file hides one of our packages.

    Args:
        names: top-level packages of ours.

    Raises:
        ImportError: naming the file and the package.
    """
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ImportError(f"tpsrl's package '{name}' is missing; install tpsrl again")
        origin = Path(spec.origin or next(iter(spec.submodule_search_locations or [""])))
        if origin.resolve() != (ROOT / name / "__init__.py").resolve():
            raise ImportError(f"{origin} hides tpsrl's package '{name}'; rename that file")
