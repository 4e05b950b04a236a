"""The folder of a run: configuration, versions, git state, and whether it may be continued."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ver_trainer.checkpoint import CheckpointManager
from ver_trainer.config import FREE_ON_RESUME, TrainConfig
from ver_trainer.errors import ConfigError
from ver_trainer.files import replacing, write_json

_PACKAGES = ("torch", "numpy", "gymnasium", "omegaconf", "safetensors", "tensorboard", "mujoco")


class RunFolder:
    """Paths and provenance of one run."""

    def __init__(self, config: TrainConfig) -> None:
        self.path = Path(config.out)
        self.checkpoints = CheckpointManager(self.path / "checkpoints", config.log.keep_checkpoints)
        self.metrics = self.path / "metrics.jsonl"

    def open(self, config: TrainConfig) -> Path | None:
        """Creates the folder or checks that the run in it may go on.

        Returns:
            The checkpoint to resume from, or None for a new run.

        Raises:
            ConfigError: if the folder holds a run with another configuration, or any run and
                ``resume=never``.
        """
        latest = self.checkpoints.latest()
        if latest is not None:
            if config.resume == "never":
                raise ConfigError(
                    f"'{self.path}' already holds a run and resume=never: choose another out="
                )
            self._check_same(config)
        return latest

    def write_provenance(self, config: TrainConfig) -> None:
        """Writes config.yaml, versions.json, git.json and git.diff."""
        self.path.mkdir(parents=True, exist_ok=True)
        with replacing(self.path / "config.yaml") as temporary:
            OmegaConf.save(OmegaConf.structured(config), temporary)
        write_json(self.path / "versions.json", versions())
        state, diff = git_state()
        write_json(self.path / "git.json", state)
        (self.path / "git.diff").write_text(diff)

    def _check_same(self, config: TrainConfig) -> None:
        path = self.path / "config.yaml"
        if not path.is_file():
            return
        old = _flat(OmegaConf.to_container(OmegaConf.load(path)))
        new = _flat(OmegaConf.to_container(OmegaConf.structured(config)))
        changed = [
            f"{key} was {old.get(key)!r}, is {new.get(key)!r}"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key) and not _is_free(key)
        ]
        if changed:
            raise ConfigError(
                f"'{self.path}' holds a run with another configuration ({'; '.join(changed)}): "
                "give the old values to continue it, or choose another out="
            )


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(free + ".") for free in FREE_ON_RESUME)


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

    def git(*arguments: str) -> str:
        try:
            result = subprocess.run(
                ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return result.stdout if result.returncode == 0 else ""

    commit, diff = git("rev-parse", "HEAD").strip(), git("diff", "HEAD")
    return {"commit": commit or None, "dirty": bool(diff)}, diff
