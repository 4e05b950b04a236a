"""``tpsrl setup``: is everything here that simulation and rendering need?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from rich.console import Console

from ver_trainer.options import load, option

HELP = """Check this machine: Python, packages, off-screen OpenGL.

On Debian and Ubuntu, missing OpenGL libraries are installed with apt-get when run as root;
otherwise the exact command is printed. Nothing else is changed."""

EGL_PACKAGES = ("libegl1", "libegl-mesa0", "libgl1-mesa-dri", "libopengl0")
OSMESA_PACKAGES = ("libosmesa6",)

_PROBE = (
    "from tpsrl.sim.mujoco.opengl import open_context; import os;"
    "context = open_context(64, 64); print(os.environ['MUJOCO_GL']); context.free()"
)


@dataclass
class SetupConfig:
    """Keys of ``tpsrl setup``."""

    install: bool = option(True, "install missing OpenGL libraries when run as root")


CONFIG = SetupConfig


def run(overrides: list[str]) -> int:
    """Check, install what is missing and allowed, and say what is left to do."""
    config = load(SetupConfig, overrides)
    console = Console()
    console.print(f"Python {sys.version.split()[0]} at {sys.executable}", highlight=False)
    backend, reason = probe_opengl()
    if backend is None and config.install and _is_root() and shutil.which("apt-get"):
        backend, reason = _install(console)
    if backend is not None:
        console.print(f"off-screen OpenGL: {backend}", highlight=False)
        return 0
    print(f"tpsrl: {reason}", file=sys.stderr)
    print(f"Install the OpenGL libraries with:\n  {install_command()}", file=sys.stderr)
    return 1


def install_command() -> str:
    """Return the command that installs the OpenGL libraries on Debian and Ubuntu."""
    return f"sudo apt-get update && sudo apt-get install -y {' '.join(EGL_PACKAGES)}"


def probe_opengl(seconds: float = 120.0) -> tuple[str | None, str]:
    """Open an off-screen context in a process of its own.

    A failed attempt leaves half-loaded libraries behind, so each try needs a fresh process.

    Args:
        seconds: after which it counts as failed.

    Returns:
        The working backend (``"egl"`` or ``"osmesa"``) or ``None``, and the reason.
    """
    command = [sys.executable, "-c", _PROBE]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"the OpenGL check has not ended within {seconds:g} s; is a driver stuck?"
    if result.returncode == 0:
        return result.stdout.split()[-1], ""
    lines = result.stderr.strip().splitlines() or ["the OpenGL check ended without a message"]
    return None, lines[-1].partition("UserError: ")[2] or lines[-1]


def _install(console: Console) -> tuple[str | None, str]:
    """Install EGL, and OSMesa if EGL does not work here either."""
    subprocess.run(["apt-get", "update", "-qq"], check=False)
    backend, reason = None, ""
    for packages in (EGL_PACKAGES, OSMESA_PACKAGES):
        console.print(f"installing {' '.join(packages)}", highlight=False)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        backend, reason = probe_opengl()
        if backend is not None:
            return backend, ""
        if result.returncode:
            lines = result.stderr.strip().splitlines() or ["apt-get failed"]
            reason = f"{lines[-1]} ({' '.join(command)})"
    return backend, reason


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
