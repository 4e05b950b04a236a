"""Where a number comes from: versions, commit, machine, date."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = ("tpsrl", "numpy", "scipy", "mujoco", "torch")


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Return the commit of the source tree, ``+changes`` if it is not clean, else ``None``."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    commit = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    changes = _output(["git", "-C", str(root), "status", "--porcelain", "-uno"])
    return f"{commit}+changes" if commit and changes else commit


def machine() -> dict[str, Any]:
    """Return cores, processor, memory in GiB and the name of an NVIDIA GPU if there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpu = None
    if shutil.which("nvidia-smi"):
        gpu = _output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "processor": _processor(),
        "memory_gib": round(memory, 1),
        "gpu": gpu or None,
    }


def now() -> str:
    """Return the date and time, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _output(command: list[str]) -> str | None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
