"""Finds checkpoints and weights on the disk; nothing here imports torch."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ver_trainer.digests import check_digest, read_meta, read_sums, verify
from ver_trainer.errors import CheckpointError, DamagedError
from ver_trainer.files import writing

WEIGHTS = "weights.safetensors"
_NAME = re.compile(r"^update_(\d{9})$")


def resolve_weights(path: Path) -> Path:
    """Finds the weights file in a run folder (best, else newest), a checkpoint, or itself.

    Raises:
        CheckpointError: if there is none, or the one named is not what was written.
    """
    path = Path(path)
    if (path / WEIGHTS).is_file():
        path = path / WEIGHTS
    if path.is_file():
        check_digest(path, read_sums(path.parent).get(path.name))
        return path
    manager = CheckpointFolder(path / "checkpoints")
    best = manager.best()
    found = manager.newest_sound([best] if best is not None else [])
    if found is None:
        raise CheckpointError(
            f"there are no weights at '{path}': give a .safetensors file, a checkpoint or a run "
            "folder"
        )
    for sentence in filter(None, [manager.note_on_best(), *found.sentences()]):
        print(sentence, file=sys.stderr)
    return found.path / WEIGHTS


@dataclass
class Found:
    """A sound checkpoint, and what was found on the way to it.

    Attributes:
        path: its folder.
        state: this rank's part, if it was read.
        note: a sentence about it, or nothing.
        damaged: folders of the checkpoints that should have been taken, and why they were not.
    """

    path: Path
    state: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    damaged: dict[Path, str] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """What a person should know."""
        found = [f"{why}; '{self.path}' is taken instead" for why in self.damaged.values()]
        return [*found, self.note] if self.note else found


class CheckpointFolder:
    """The checkpoints of a run.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def all(self) -> list[Path]:
        """Checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if _NAME.match(p.name))

    def newest_sound(
        self, first: list[Path], read: Callable[[Path], dict[str, Any]] | None = None
    ) -> Found | None:
        """The first sound one of ``first``, then of all from the newest on; None if there is none.

        Args:
            first: checkpoints to prefer.
            read: reads a rank's state from a checkpoint; None reads none.

        Raises:
            CheckpointError: if there are checkpoints, but all are damaged; or what ``read`` says
                of a sound one.
        """
        damaged: dict[Path, str] = {}
        for path in dict.fromkeys([*first, *reversed(self.all())]):
            try:
                note = verify(path, states=read is not None)
                state = {} if read is None else read(path)
                return Found(path, state, note, damaged)
            except DamagedError as error:
                damaged[path] = str(error)
        if damaged:
            raise CheckpointError(
                f"{next(iter(damaged.values()))}, and no other checkpoint in '{self.folder}' is "
                "sound: put back a copy of one, or choose another out="
            )
        return None

    def set_aside(self, damaged: list[Path]) -> None:
        """Renames damaged checkpoints, so that they are neither kept as the newest nor lost."""
        for path in damaged:
            aside = path.with_name(path.name + ".damaged")
            with writing(path):
                if aside.exists():
                    shutil.rmtree(aside)
                path.rename(aside)

    def best(self) -> Path | None:
        """The checkpoint with the highest score; None where the newest one is to be taken."""
        if self._newest_by() == "last":  # also where older ones were measured otherwise
            return None
        entry = self._best_entry()
        return self.folder / entry["name"] if entry else None

    def _newest_by(self) -> str | None:
        for path in reversed(self.all()):
            with contextlib.suppress(DamagedError):
                return str(read_meta(path).get("best_by"))
        return None

    def best_score(self, by: str) -> float:
        """Score of the best checkpoint, or minus infinity if it was not measured like ``by``."""
        entry = self._best_entry()
        return entry["score"] if entry and entry["by"] == by else -math.inf

    def note_on_best(self) -> str:
        """A sentence if ``best.json`` is damaged, else nothing."""
        try:
            self._read_best()
        except DamagedError as error:
            return f"{error}; the best checkpoint is found by their summaries instead"
        return ""

    def _best_entry(self) -> dict[str, Any] | None:
        """What ``best.json`` says; what the checkpoints themselves say if it cannot be right."""
        try:
            entry = self._read_best()
            if entry is not None:
                meta = read_meta(self.folder / entry["name"])
                if meta.get("score", entry["score"]) == entry["score"]:
                    return entry
        except DamagedError:
            pass
        return self._best_by_summaries()

    def _read_best(self) -> dict[str, Any] | None:
        path = self.folder / "best.json"
        try:
            entry = {"by": "return", **json.loads(path.read_text())}  # once the only measure
            entry["score"] = float(entry["score"])
            if _NAME.match(entry["name"]) and math.isfinite(entry["score"]):
                return entry
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        raise DamagedError(f"'{path}' is damaged")

    def _best_by_summaries(self) -> dict[str, Any] | None:
        entries = []
        for path in self.all():
            try:
                meta = read_meta(path)
            except DamagedError:
                continue
            if meta.get("score") is not None:
                entries.append({"name": path.name, "score": meta["score"], "by": meta["best_by"]})
        same = [e for e in entries if e["by"] == entries[-1]["by"]]
        return max(same, key=lambda e: e["score"], default=None)
