"""Whether a checkpoint is what was written: a SHA-256 of each of its files."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ver_trainer.errors import DamagedError
from ver_trainer.files import writing

FORMAT = 2  # 1 had no digests
SUMS = "SHA256SUMS"
_STATE = re.compile(r"^state\.\d+\.pt$")


def write_hashed(path: Path, data: bytes | memoryview) -> bytes:
    """Writes a file to the disk; returns the digest of what it should hold."""
    with writing(path), path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).digest()


def check_digest(file: Path, expected: str | None) -> None:
    """Refuses a file that is not what was written; nothing is expected of one without a digest.

    Raises:
        DamagedError: naming the file.
    """
    if expected is None:
        return
    try:
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise DamagedError(f"'{file}' {reason}") from None
    if found != expected:
        raise DamagedError(f"'{file}' is damaged: it is not what was written, by its SHA-256")


def read_sums(checkpoint: Path) -> dict[str, str]:
    """Digest of every file; empty if there is no list."""
    try:
        lines = (checkpoint / SUMS).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def read_meta(checkpoint: Path) -> dict[str, Any]:
    """The summary of a checkpoint.

    Raises:
        DamagedError: if it is missing or no summary.
    """
    path = checkpoint / "meta.json"
    try:
        meta = json.loads(path.read_text())
    except OSError:
        raise DamagedError(f"'{path}' is missing") from None
    except (ValueError, RecursionError):
        raise DamagedError(f"'{path}' is damaged: it is not JSON") from None
    if not isinstance(meta, dict):
        raise DamagedError(f"'{path}' is damaged: it is no summary of a checkpoint")
    return meta


def verify(checkpoint: Path, states: bool) -> str:
    """Checks that the files of a checkpoint are the ones that were written.

    Args:
        checkpoint: its folder.
        states: check also what a resume needs; the weights need only the weights.

    Returns:
        A sentence for a checkpoint from before there were digests, else nothing.

    Raises:
        DamagedError: naming the first file that is not, or another version of checkpoints.
    """
    meta, sums = read_meta(checkpoint), read_sums(checkpoint)
    if not sums and meta.get("format") == 1:
        _check_readable(checkpoint / "weights.safetensors")
        return f"'{checkpoint}' is from before checkpoints had digests: it is taken as it is"
    needed = ["meta.json", "weights.safetensors"]
    if states:
        listed = {name for name in sums if _STATE.match(name)}
        present = {path.name for path in checkpoint.iterdir() if _STATE.match(path.name)}
        needed += sorted(listed | present) or ["state.0.pt"]
    for name in needed:
        if name not in sums:
            raise DamagedError(f"'{checkpoint / SUMS}' is damaged: it has no digest of {name}")
        check_digest(checkpoint / name, sums[name])
    if meta.get("format") != FORMAT:
        raise DamagedError(
            f"'{checkpoint}' is of another version (format {meta.get('format')!r}, this one reads "
            f"1 and {FORMAT})"
        )
    return ""


def _check_readable(weights: Path) -> None:
    try:
        with safe_open(weights, framework="np"):
            pass
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"'{weights}' is damaged: {error}") from None
