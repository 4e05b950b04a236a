"""Demonstrations: whole episodes with the action that the expert would have taken, in shards.

A shard is an ``.npz`` file of some episodes, their steps joined. ``head_depth`` is float16 (at one
metre its resolution is below a millimetre), everything else float32.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skills.tasks.sensors import DEPTH
from tpsrl.errors import UserError
from tpsrl.files import write_atomically

FORMAT = 1
_OBSERVATION = "obs."
_STEP_ARRAYS = ("actions", "weights", "rewards")


@dataclass(frozen=True)
class Demonstration:
    """One episode of ``T`` steps.

    Attributes:
        observations: name -> (T, ...) what the policy saw before each action.
        actions: (T, A) float32, flat action of the expert; 0 where it was not asked.
        weights: (T,) float32, 1 where ``actions`` is the expert's, 0 where it was not asked.
        rewards: (T,) float32, of the environment.
        success: the episode ended in success.
        cause: why it ended, see ``skills.tasks.state.CAUSES``; or why the expert gave up.
        seed: of the episode, for ``env.reset(seed=...)``.
        episode_id: of the episode file.
    """

    observations: dict[str, np.ndarray]
    actions: np.ndarray
    weights: np.ndarray
    rewards: np.ndarray
    success: bool
    cause: str
    seed: int
    episode_id: str

    def __len__(self) -> int:
        return len(self.actions)

    def returns(self, gamma: float) -> np.ndarray:
        """Return (T,) float32 discounted sums of the rewards to come."""
        total, out = 0.0, np.zeros(len(self), np.float32)
        for step in range(len(self) - 1, -1, -1):
            total = float(self.rewards[step]) + gamma * total
            out[step] = total
        return out


def write_shard(path: Path, demonstrations: Sequence[Demonstration]) -> None:
    """Write a shard; the file is either whole or not there.

    Raises:
        UserError: it cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    for name in demonstrations[0].observations:
        joined = np.concatenate([d.observations[name] for d in demonstrations])
        arrays[_OBSERVATION + name] = joined.astype(np.float16) if name == DEPTH else joined
    for name in _STEP_ARRAYS:
        arrays[name] = np.concatenate([getattr(d, name) for d in demonstrations])
    meta = {"format": FORMAT, "episodes": [_facts(d) for d in demonstrations]}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_shard(path: Path) -> list[Demonstration]:
    """Read a file written by :func:`write_shard`; depth stays float16.

    Raises:
        UserError: the file is damaged or of another format.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            arrays = {name: file[name] for name in file.files if name != "meta"}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: no demonstrations ({error}); delete it and go on.") from None
    if meta.get("format") != FORMAT:
        raise UserError(f"{path}: its format is not {FORMAT}; delete it and record it again.")
    lengths = [entry.pop("length") for entry in meta["episodes"]]
    if sum(lengths) != len(arrays["actions"]):
        raise UserError(f"{path}: episodes and steps do not agree; delete it and go on.")
    found, start = [], 0
    for entry, length in zip(meta["episodes"], lengths, strict=True):
        rows = slice(start, start + length)
        observations = {
            name.removeprefix(_OBSERVATION): values[rows]
            for name, values in arrays.items()
            if name.startswith(_OBSERVATION)
        }
        steps = {name: arrays[name][rows] for name in _STEP_ARRAYS}
        found.append(Demonstration(observations, **steps, **entry))
        start += length
    return found


def shard_path(folder: Path, first: int) -> Path:
    """Return the file of the shard whose first episode has this number."""
    return folder / f"episodes_{first:06d}.npz"


def read_folder(folder: Path) -> list[Demonstration]:
    """Read all shards of a folder, in order.

    Raises:
        UserError: a shard is damaged.
    """
    found: list[Demonstration] = []
    for path in sorted(folder.glob("episodes_*.npz")):
        found += read_shard(path)
    return found


def _facts(demonstration: Demonstration) -> dict[str, object]:
    entry: dict[str, object] = {"length": len(demonstration)}
    for item in dataclasses.fields(demonstration):
        if item.name != "observations" and item.name not in _STEP_ARRAYS:
            entry[item.name] = getattr(demonstration, item.name)
    return entry
