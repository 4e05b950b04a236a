"""Checkpoints: a directory each, written under a temporary name and renamed.

``weights.safetensors`` holds the policy (with its description in the header, so that it loads
without the trainer), ``state.<rank>.pt`` what a resume needs, ``meta.json`` a summary.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ver_trainer.distributed.group import Group
from ver_trainer.errors import CheckpointError
from ver_trainer.files import replacing, write_json

FORMAT = 1
_NAME = re.compile(r"^update_(\d{9})$")


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
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"ver_trainer": json.dumps(header)})


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
    """Finds the weights file in a run folder (best, else latest), a checkpoint, or itself."""
    path = Path(path)
    if path.is_file():
        return path
    if (path / "weights.safetensors").is_file():
        return path / "weights.safetensors"
    manager = CheckpointManager(path / "checkpoints", keep=1)
    found = manager.best() or manager.latest()
    if found is None:
        raise CheckpointError(
            f"there are no weights at '{path}': give a .safetensors file, a checkpoint or a run "
            "folder"
        )
    return found / "weights.safetensors"


class CheckpointManager:
    """Keeps the last ``keep`` checkpoints and the best one in a folder."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = Path(folder), keep

    def all(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        found = [p for p in self.folder.iterdir() if _NAME.match(p.name)]
        return sorted(p for p in found if (p / "meta.json").is_file())

    def latest(self) -> Path | None:
        """The newest checkpoint."""
        found = self.all()
        return found[-1] if found else None

    def best(self) -> Path | None:
        """The checkpoint with the highest score."""
        path = self.folder / "best.json"
        if not path.is_file():
            return None
        best = self.folder / json.loads(path.read_text())["name"]
        return best if (best / "meta.json").is_file() else None

    def best_score(self) -> float:
        """Score of the best checkpoint, or minus infinity."""
        path = self.folder / "best.json"
        return float(json.loads(path.read_text())["score"]) if path.is_file() else float("-inf")

    def save(
        self,
        update: int,
        weights: dict[str, Tensor],
        header: dict[str, Any],
        state: dict[str, Any],
        meta: dict[str, Any],
        score: float | None,
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
            group: all ranks call this together.
        """
        final = self.folder / f"update_{update:09d}"
        temporary = self.folder / f".tmp_{final.name}"
        if group.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            for old in self.folder.glob(".tmp_*"):
                shutil.rmtree(old)
            temporary.mkdir()
        group.barrier()
        with (temporary / f"state.{group.rank}.pt").open("wb") as file:
            torch.save(pack_state(state), file)
            file.flush()
            os.fsync(file.fileno())
        group.barrier()
        if group.is_first:
            save_weights(temporary / "weights.safetensors", weights, header)
            write_json(temporary / "meta.json", {"format": FORMAT, "update": update, **meta})
            if final.exists():
                shutil.rmtree(final)
            os.rename(temporary, final)
            if score is not None and score > self.best_score():
                write_json(self.folder / "best.json", {"name": final.name, "score": score})
            self._prune()
        group.barrier()
        return final

    def _prune(self) -> None:
        best = self.best()
        for old in self.all()[: -self.keep]:
            if old != best:
                shutil.rmtree(old)

    @staticmethod
    def load(path: Path, rank: int) -> dict[str, Any]:
        """Reads a rank's state.

        Raises:
            CheckpointError: if the file is missing or damaged.
        """
        file = path / f"state.{rank}.pt"
        try:
            return unpack_state(torch.load(file, weights_only=True, map_location="cpu"))
        except FileNotFoundError:
            raise CheckpointError(
                f"'{file}' is missing: resume with as many ranks as the run had, or resume=loose"
            ) from None
        except Exception as error:
            raise CheckpointError(f"the checkpoint '{file}' is damaged: {error}") from error
