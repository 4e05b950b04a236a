"""The folder of a run: configuration, versions, git state, and whether it may be continued."""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
import sys
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ver_trainer.checkpoint import CheckpointManager
from ver_trainer.config import FREE_ON_RESUME, TrainConfig
from ver_trainer.digests import read_meta
from ver_trainer.errors import ConfigError
from ver_trainer.files import Lock, locked, replacing, write_json
from ver_trainer.finding import Found
from ver_trainer.reading import MIB, read_json
from ver_trainer.resume import read_state

_PACKAGES = ("torch", "numpy", "gymnasium", "omegaconf", "safetensors", "tensorboard", "mujoco")

_NAMES = 3
"""So many of a path's last names say which file it is, wherever a run has been moved to."""


class RunFolder:
    """Paths and provenance of one run."""

    def __init__(self, config: TrainConfig) -> None:
        self.path = Path(config.out)
        self.checkpoints = CheckpointManager(self.path / "checkpoints", config.log.keep_checkpoints)
        self._held = ExitStack()
        self._lock: Lock | None = None

    def open(self, config: TrainConfig, rank: int, size: int) -> Found | None:
        """Creates the folder or checks that the run in it may go on; rank 0 holds it for all.

        Returns:
            The checkpoint to resume from, or None for a new run.

        Raises:
            StorageError: if another training uses the folder, or it cannot be written.
            CheckpointError: if no checkpoint in it is sound.
            ConfigError: if the folder holds a run with another configuration, or any run and
                ``resume=never``.
        """
        if rank == 0:
            self._lock = self._held.enter_context(locked(self.path, "a training"))
        loose = config.resume == "loose"
        found = self.checkpoints.newest_sound([], lambda p: read_state(p, rank, size, loose))
        if found is not None:
            if config.resume == "never":
                raise ConfigError(
                    f"'{self.path}' already holds a run and resume=never: choose another out="
                )
            self._check_same(config, found.path)
        return found

    def settle(self, found: Found | None) -> None:
        """Says what was wrong with the checkpoints, and puts damaged ones out of the way."""
        sentences = [self.checkpoints.note_on_best(), *(found.sentences() if found else [])]
        for sentence in filter(None, sentences):
            print(sentence, file=sys.stderr)
        if found is not None:
            self.checkpoints.set_aside(list(found.damaged))

    def check(self) -> None:
        """Refuses to write into a folder that was removed under the run.

        Raises:
            StorageError: naming it.
        """
        if self._lock is not None:
            self._lock.check()

    def close(self) -> None:
        """Lets go of the folder; safe to call twice."""
        self._held.close()
        self._lock = None

    def write_provenance(self, config: TrainConfig) -> None:
        """Writes config.yaml, versions.json, git.json (with earlier commits) and git.diff."""
        with replacing(self.path / "config.yaml") as temporary:
            OmegaConf.save(OmegaConf.structured(config), temporary)
        write_json(self.path / "versions.json", versions())
        state, diff = git_state()
        write_json(self.path / "git.json", state | self._earlier(state))
        with replacing(self.path / "git.diff") as temporary:
            temporary.write_text(diff)

    def _earlier(self, state: dict[str, Any]) -> dict[str, Any]:
        """Commits at which the run was before it went on at another one."""
        path = self.path / "git.json"
        if not path.exists():
            return {}
        before = read_json(path, MIB, "delete it")
        earlier = list(before.pop("earlier", []))
        earlier += [before] if before != state else []
        return {"earlier": earlier} if earlier else {}

    def _check_same(self, config: TrainConfig, checkpoint: Path) -> None:
        old = _flat(read_meta(checkpoint).get("config", {}))
        new = _flat(json.loads(json.dumps(dataclasses.asdict(config))))
        changed = [
            f"{key} was {old.get(key)!r}, is {new.get(key)!r}"
            for key in sorted(old.keys() | new.keys())
            if not _same(old.get(key), new.get(key)) and not _is_free(key)
        ]
        if changed:
            raise ConfigError(
                f"'{self.path}' holds a run with another configuration ({'; '.join(changed)}): "
                "give the old values to continue it, or choose another out="
            )


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(free + ".") for free in FREE_ON_RESUME)


def _same(old: Any, new: Any) -> bool:
    """Whether two values say the same, paths of another machine or folder included.

    That is a file which is not where it was, and one whose last three names are the same.
    """
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if old == new or not (isinstance(old, str) and isinstance(new, str)):
        return bool(old == new)
    was, now = Path(old), Path(new)
    moved = was.is_absolute() and now.exists() and not was.exists()
    return moved and len(was.parts) > _NAMES and was.parts[-_NAMES:] == now.parts[-_NAMES:]


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that decide a run."""
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state() -> tuple[dict[str, Any], str]:
    """Commit and dirtiness of the source tree, and its diff; empty outside a git checkout."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():  # installed, perhaps inside of another project
        return {"commit": None, "dirty": False}, ""

    def git(*arguments: str) -> str:
        try:
            result = subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return result.stdout.decode(errors="replace") if result.returncode == 0 else ""

    commit, diff = git("rev-parse", "HEAD").strip(), git("diff", "HEAD")
    return {"commit": commit or None, "dirty": bool(diff)}, diff
