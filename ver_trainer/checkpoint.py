"""Checkpoints: a directory each, written under a temporary name and renamed.

``weights.safetensors`` holds the policy (with its description in the header, so that it loads
without the trainer), ``state.<rank>.pt`` what a resume needs, ``meta.json`` a summary and
``SHA256SUMS`` the digest of each of them (``sha256sum -c SHA256SUMS`` checks them too).
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from ver_trainer.digests import FORMAT, SUMS, write_hashed
from ver_trainer.distributed.group import Group
from ver_trainer.errors import (
    CheckpointError,
    ConfigError,
    DamagedError,
    StorageError,
    TrainerError,
)
from ver_trainer.files import replacing, sync, write_json, writing
from ver_trainer.finding import WEIGHTS, CheckpointFolder, resolve_weights

_STATE_KEYS = {"steps", "seconds", "fault_count", "learner", "episodes", "random", "exact"}
_PLAIN = (type(None), bool, int, float, str, bytes)


def pack_state(value: Any, where: str = "") -> Any:
    """Replaces NumPy arrays and scalars by what ``torch.load(weights_only=True)`` accepts.

    Args:
        value: the state, or a part of it.
        where: keys that lead to this part, for the message.

    Raises:
        ConfigError: for a type that would be written and could never be read again.
    """
    kind = type(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return {"__array__": torch.from_numpy(np.ascontiguousarray(value)), "shape": value.shape}
    if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
        return pack_state(value.item(), where)
    if isinstance(value, dict):
        return {
            key if type(key) in _PLAIN else pack_state(key, where): pack_state(
                item, f"{where}.{key}" if where else str(key)
            )
            for key, item in value.items()
        }
    if kind in (list, tuple, torch.Size):
        return kind(pack_state(item, f"{where}[{i}]") for i, item in enumerate(value))
    if kind is int and abs(value) >= 2**63:
        return {"__integer__": str(value)}
    # Of a class derived from one of these the class itself would be pickled.
    if kind not in _PLAIN and not isinstance(value, Tensor):
        raise _unsupported(value, where)
    return value


def _unsupported(value: Any, where: str) -> ConfigError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray):
        kind += f" of {value.dtype}"
    givers = {"pool": "the environment's get_state()", "storage": "capture() of the storage"}
    giver = givers.get(where.partition(".")[0], "state_dict() of the algorithm")
    return ConfigError(
        f"{giver} returns a {kind} ('{where}'), which no checkpoint can hold: let it return only "
        "None, bool, int, float, str, bytes, tensors, arrays of numbers, lists, tuples and dicts"
    )


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


class CheckpointManager(CheckpointFolder):
    """Writes checkpoints; keeps the last ``keep`` and the best one.

    Args:
        folder: of the checkpoints.
        keep: how many.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        super().__init__(folder)
        self.keep = keep

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
            ConfigError: for a state of a type that could not be read again.
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
        for name, data in ((WEIGHTS, weights), ("meta.json", summary)):
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
