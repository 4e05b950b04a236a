"""Headless OpenGL: EGL first, OSMesa if that fails, else one sentence on what to install."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from tpsrl.errors import UserError

_PACKAGES = {
    "egl": "libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0",
    "osmesa": "libosmesa6",
}
_threads = _lost_threads = False
"""Mesa drew with threads at the last fork; this process is a fork that they do not exist in."""


def open_context(width: int, height: int) -> Any:
    """Return a current off-screen OpenGL context.

    ``MUJOCO_GL=egl`` or ``osmesa`` in the environment tries only that one. Mesa's software
    renderer starts no threads: workers already fill the cores, and a forked process, in which
    threads of its parent do not exist, would wait for them for ever.

    Args:
        width: of the largest picture, pixels.
        height: likewise.

    Raises:
        UserError: no library can give one (says what to install), or one would hang.
    """
    if _lost_threads:
        raise UserError(
            "this process was forked from one that draws with Mesa's threads, and would wait for"
            " them for ever; set LP_NUM_THREADS=0 in the environment, or start processes with the"
            " method 'spawn'."
        )
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    if wanted and wanted not in _PACKAGES:
        raise UserError(f"MUJOCO_GL={wanted} is not supported here; set it to 'egl' or 'osmesa'.")
    os.environ.setdefault("LP_NUM_THREADS", "0")
    reasons = []
    for backend in [wanted] if wanted else list(_PACKAGES):
        try:
            context = _backend(backend).GLContext(width, height)
            context.make_current()
            os.environ["MUJOCO_GL"] = backend
            return context
        except Exception as error:  # each library fails in its own way: missing, no device, ...
            reasons.append(f"{backend}: {type(error).__name__} {error}".strip())
            os.environ.pop("PYOPENGL_PLATFORM", None)
    packages = " ".join(_PACKAGES[b] for b in ([wanted] if wanted else _PACKAGES))
    raise UserError(
        f"No OpenGL for off-screen rendering ({'; '.join(reasons)}); "
        f"install it with 'sudo apt-get install {packages}'."
    )


def _backend(name: str) -> Any:
    """Import MuJoCo's binding for one library, forgetting what another attempt left behind."""
    os.environ["PYOPENGL_PLATFORM"] = name
    module = f"mujoco.{name}"
    if module not in sys.modules:
        for loaded in [m for m in sys.modules if m == "OpenGL" or m.startswith("OpenGL.")]:
            del sys.modules[loaded]
    return importlib.import_module(module)


def _before_fork() -> None:
    """Look for the threads of Mesa's software renderer, whoever began to draw."""
    global _threads
    names = (_name(task / "comm") for task in Path("/proc/self/task").glob("*"))
    _threads = any(name.startswith("llvmpipe") for name in names)


def _in_fork() -> None:
    global _lost_threads
    _lost_threads |= _threads


def _name(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the thread has just ended
        return ""


os.register_at_fork(before=_before_fork, after_in_child=_in_fork)
