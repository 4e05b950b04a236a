"""Checkpoints: a directory each, written under a temporary name and renamed.

``weights.safetensors`` holds the policy (with its description in the header, so that it loads
without the trainer), ``state.<rank>.pt`` what a resume needs, ``meta.json`` a summary and
``SHA256SUMS`` the digest of each of them (``sha256sum -c SHA256SUMS`` checks them too).
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from ver_trainer.digests import (
    FORMAT,
    SUMS,
    check_digest,
    read_meta,
    read_sums,
    verify,
    write_hashed,
)
from ver_trainer.distributed.group import Group
from ver_trainer.errors import CheckpointError, DamagedError, StorageError, TrainerError
from ver_trainer.files import replacing, sync, write_json, writing

_NAME = re.compile(r"^update_(\d{9})$")
_STATE_KEYS = {"steps", "seconds", "fault_count", "learner", "episodes", "random", "exact"}


def pack_state(value: Any) -> Any:
    """Replaces NumPy arrays and scalars by what ``torch.load(weights_only=True)`` accepts."""
    if isinstance(value, np.ndarray):
        return {"__array__": torch.from_numpy(np.ascontiguousarray(value)), "shape": value.shape}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: pack_state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(pack_state(item) for item in value)
    if isinstance(value, int) and abs(value) >= 2**63:
        return {"__integer__": str(value)}
    return value


def unpack_state(value: Any) -> Any:
    """Inverse of :func:`pack_state`."""
    if isinstance(value, dict):
        if "__array__" in value:
            return value["__array__"].numpy().reshape(value["shape"])
        if "__integer__" in value:
            return int(value["__integer__"])
        return {key: unpack_state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(unpack_state(item) for item in value)
    return value


def save_weights(path: Path, weights: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Writes a safetensors file with ``header`` as JSON in its metadata, atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(_weights_bytes(weights, header))


def _weights_bytes(weights: dict[str, Tensor], header: dict[str, Any]) -> bytes:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    return save(tensors, metadata={"ver_trainer": json.dumps(header)})


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads weights and header of a safetensors file, a checkpoint or a run folder.

    Raises:
        CheckpointError: if there is none.
    """
    path = resolve_weights(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("ver_trainer", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
    except Exception as error:
        raise CheckpointError(f"the weights '{path}' cannot be read: {error}") from error


def resolve_weights(path: Path) -> Path:
    """Finds the weights file in a run folder (best, else newest), a checkpoint, or itself.

    Raises:
        CheckpointError: if there is none, or the one named is not what was written.
    """
    path = Path(path)
    if (path / "weights.safetensors").is_file():
        path = path / "weights.safetensors"
    if path.is_file():
        check_digest(path, read_sums(path.parent).get(path.name))
        return path
    manager = CheckpointManager(path / "checkpoints", keep=1)
    best = manager.best()
    found = manager.newest_sound([best] if best is not None else [])
    if found is None:
        raise CheckpointError(
            f"there are no weights at '{path}': give a .safetensors file, a checkpoint or a run "
            "folder"
        )
    for sentence in filter(None, [manager.note_on_best(), *found.sentences()]):
        print(sentence, file=sys.stderr)
    return found.path / "weights.safetensors"


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


class CheckpointManager:
    """Keeps the last ``keep`` checkpoints and the best one in a folder."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = Path(folder), keep

    def all(self) -> list[Path]:
        """Checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if _NAME.match(p.name))

    def newest_sound(self, first: list[Path], rank: int | None = None) -> Found | None:
        """The first sound one of ``first``, then of all from the newest on; None if there is none.

        Args:
            first: checkpoints to prefer.
            rank: whose state to read; None reads none.

        Raises:
            CheckpointError: if there are checkpoints, but all are damaged; or if the sound one was
                written by fewer ranks.
        """
        damaged: dict[Path, str] = {}
        for path in dict.fromkeys([*first, *reversed(self.all())]):
            try:
                note = verify(path, states=rank is not None)
                state = {} if rank is None else self.load(path, rank)
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
        """The checkpoint with the highest score."""
        entry = self._best_entry()
        return self.folder / entry["name"] if entry else None

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

    def save(
        self,
        update: int,
        weights: dict[str, Tensor],
        header: dict[str, Any],
        state: dict[str, Any],
        meta: dict[str, Any],
        score: float | None,
        by: str,
        group: Group,
    ) -> Path:
        """Writes one checkpoint; every rank adds its own state.

        Args:
            update: number of the update, names the checkpoint.
            weights: the policy's state dict.
            header: description of the policy.
            state: what this rank needs to go on.
            meta: summary for people and tools.
            score: higher is better; None if not known yet.
            by: what the score measures; only scores of one kind are compared.
            group: all ranks call this together.

        Raises:
            StorageError: on every rank, if one of them cannot write; earlier checkpoints stay.
        """
        final = self.folder / f"update_{update:09d}"
        temporary = self.folder / f".tmp_{final.name}"
        with self._new_folder(temporary, group):
            digest = b""
            with _all_or_none(group):
                digest = write_hashed(temporary / f"state.{group.rank}.pt", _state_bytes(state))
            digests = group.gather_array(np.frombuffer(digest, np.uint8).astype(np.float64))
            with _all_or_none(group):
                if group.is_first:
                    states = {
                        f"state.{i}.pt": bytes(map(int, row)) for i, row in enumerate(digests)
                    }
                    measured = {"score": score, "best_by": by}
                    meta = {"format": FORMAT, "update": update, **measured, **meta}
                    self._finish(temporary, final, _weights_bytes(weights, header), meta, states)
        return final

    @contextmanager
    def _new_folder(self, temporary: Path, group: Group) -> Iterator[None]:
        with _all_or_none(group):
            if group.is_first:
                with writing(temporary):
                    self.folder.mkdir(parents=True, exist_ok=True)
                    for old in self.folder.glob(".tmp_*"):
                        shutil.rmtree(old)
                    temporary.mkdir()
        try:
            yield
        except BaseException:
            if group.is_first:  # half a checkpoint keeps a full disk full
                shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _finish(
        self,
        temporary: Path,
        final: Path,
        weights: bytes,
        meta: dict[str, Any],
        digests: dict[str, bytes],
    ) -> None:
        summary = (json.dumps(meta, indent=2) + "\n").encode()
        for name, data in (("weights.safetensors", weights), ("meta.json", summary)):
            digests[name] = write_hashed(temporary / name, data)
        lines = [f"{digest.hex()}  {name}\n" for name, digest in sorted(digests.items())]
        write_hashed(temporary / SUMS, "".join(lines).encode())
        score, by = meta["score"], meta["best_by"]
        is_best = score is not None and score > self.best_score(by)
        with writing(final):
            sync(temporary)
            if final.exists():
                final.rename(temporary.with_name(f".tmp_old_{final.name}"))
            temporary.rename(final)
            sync(self.folder)
        if is_best:
            write_json(self.folder / "best.json", {"name": final.name, "score": score, "by": by})
        self._prune()

    def _prune(self) -> None:
        best = self.best()
        with writing(self.folder):
            for old in self.all()[: -self.keep]:
                if old != best:
                    shutil.rmtree(old)

    @staticmethod
    def load(path: Path, rank: int) -> dict[str, Any]:
        """Reads a rank's state.

        Raises:
            DamagedError: if the file is damaged or of another version.
            CheckpointError: if the run had fewer ranks.
        """
        file = path / f"state.{rank}.pt"
        try:
            with warnings.catch_warnings():  # torch's advice on files that are not ours
                warnings.simplefilter("ignore")
                state = unpack_state(torch.load(file, weights_only=True, map_location="cpu"))
        except FileNotFoundError:
            if not list(path.glob("state.*.pt")):
                raise DamagedError(f"'{file}' is missing") from None
            raise CheckpointError(
                f"'{file}' is missing: resume with as many ranks as the run had, or resume=loose"
            ) from None
        except pickle.UnpicklingError:
            raise DamagedError(
                f"'{file}' is damaged or holds pickled objects, which could run any program and "
                "are never loaded"
            ) from None
        except Exception:
            raise DamagedError(f"'{file}' is damaged: it is cut off or no state at all") from None
        absent = _STATE_KEYS - state.keys() if isinstance(state, dict) else _STATE_KEYS
        if absent:
            raise DamagedError(f"'{file}' is of another version: it has no '{min(absent)}'")
        return state


def _state_bytes(state: dict[str, Any]) -> memoryview:
    # Through memory: a file that cannot be written gives an OSError, not a riddle of the zip code.
    buffer = io.BytesIO()
    torch.save(pack_state(state), buffer)
    return buffer.getbuffer()


@contextmanager
def _all_or_none(group: Group) -> Iterator[None]:
    """Waits for all ranks; what one of them could not do is an error on every one."""
    failure = None
    try:
        yield
    except TrainerError as error:
        failure = error
    failed = group.sum_array(np.array([float(failure is not None)]))[0]
    if failure is not None:
        raise failure
    if failed:
        raise StorageError("another rank could not write its part of a checkpoint: see its message")
