"""The folder of a run: its config, one line an episode, a summary; made to survive kills."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from eval.episode import EpisodeRecord
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.files import write_json

EPISODES_FILE = "episodes.jsonl"
CONFIG_FILE = "config.json"
SUMMARY_FILE = "summary.json"


class StorageError(UserError):
    """The folder cannot be written; what was written before is intact."""


def fingerprint(episode: Episode) -> str:
    """Return a short hash of what an episode holds: objects, poses, targets, joints."""
    digest = hashlib.sha256()
    for part in (episode.episode_id, episode.scenario, episode.layout):
        digest.update(part.encode() + b"\0")
    for item in episode.objects:
        digest.update(f"{item.type}|{item.instance}|".encode())
        digest.update(np.round(np.concatenate([item.pos, item.quat]), 6).tobytes())
    for target in episode.targets:
        digest.update(f"{target.object_index}|{target.label}|".encode())
        digest.update(np.round(np.asarray(target.goal_pos, dtype=np.float64), 6).tobytes())
    digest.update(json.dumps(sorted((k, float(v)) for k, v in episode.joints.items())).encode())
    if episode.start is not None:
        digest.update(np.round(np.asarray(episode.start, dtype=np.float64), 6).tobytes())
    return digest.hexdigest()[:16]


class ResultFolder:
    """Opens a run's folder for writing, alone; use it as a context manager.

    A last line that a kill cut short is removed; the episode will be run again.

    Args:
        path: folder, created if it does not exist.
        config: what decides the results; must equal that of earlier runs in the folder.

    Raises:
        StorageError: not writable, or in use by another process.
        UserError: the folder holds results of another config, or a damaged line.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._lock: IO[str] | None = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = open(path / ".lock", "w")  # noqa: SIM115 - held while the run lasts
        except OSError as error:
            raise StorageError(f"cannot write to {path}: {error.strerror}") from error
        try:
            self._acquire()
            self._check_config(dict(config))
            self.records = self._read_and_repair()
            # Unbuffered: a line that fails on a full disk must not linger in a buffer.
            self._file = open(path / EPISODES_FILE, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            self.close()
            raise StorageError(f"cannot write to {path}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def append(self, record: EpisodeRecord) -> None:
        """Add an episode's line and wait until it is on the disk.

        Raises:
            StorageError: the disk is full; the lines before are intact.
        """
        assert self._file is not None
        line = (json.dumps(record.to_json(), separators=(",", ":")) + "\n").encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise StorageError(
                f"cannot write {self.path / EPISODES_FILE}: {error.strerror}; "
                f"the {len(self.records)} episodes before are kept, make room and run again"
            ) from error
        self.records[record.index] = record

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Write ``summary.json`` and return its path."""
        path = self.path / SUMMARY_FILE
        write_json(path, summary)
        return path

    def earlier_summary(self) -> dict[str, Any]:
        """Return the summary of an earlier run in this folder, empty if there is none."""
        try:
            return json.loads((self.path / SUMMARY_FILE).read_text())
        except (OSError, json.JSONDecodeError):
            return {}

    def close(self) -> None:
        """Release the folder."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _acquire(self) -> None:
        assert self._lock is not None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"{self.path} is in use by another run; wait for it") from error

    def _check_config(self, config: dict[str, Any]) -> None:
        path = self.path / CONFIG_FILE
        config = json.loads(json.dumps(config))
        if not path.exists():
            if (self.path / EPISODES_FILE).exists():
                raise UserError(
                    f"{self.path} holds {EPISODES_FILE} but no {CONFIG_FILE}, so nobody can say "
                    "what made it; choose another out="
                )
            write_json(path, config)
            return
        try:
            earlier = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise UserError(f"{path} is not valid JSON; choose another out=") from error
        for key in sorted(set(earlier) | set(config)):
            if earlier.get(key) != config.get(key):
                raise UserError(
                    f"{self.path} holds a run with {key}={earlier.get(key)}, this one has "
                    f"{key}={config.get(key)}; choose another out="
                )

    def _read_and_repair(self) -> dict[int, EpisodeRecord]:
        path = self.path / EPISODES_FILE
        records, good_end = read_lines(path)
        if path.exists() and path.stat().st_size > good_end:
            os.truncate(path, good_end)
        return records


def read_lines(path: Path) -> tuple[dict[int, EpisodeRecord], int]:
    """Read ``episodes.jsonl``.

    Returns:
        Records by index, and the number of bytes up to the end of the last complete line.

    Raises:
        UserError: a line other than an unfinished last one is damaged.
    """
    if not path.exists():
        return {}, 0
    records: dict[int, EpisodeRecord] = {}
    good_end = 0
    content = path.read_bytes()
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = EpisodeRecord.from_json(json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines) - 1 and not lines[-1]:
                break
            raise UserError(
                f"line {number} of {path} is damaged; remove it or choose another out="
            ) from error
        records[record.index] = record
        good_end += len(line) + 1
    return records, good_end


def read_run(path: Path) -> tuple[dict[str, Any], dict[int, EpisodeRecord]]:
    """Read a finished or running run's config and records without touching it.

    Raises:
        UserError: the folder holds no run.
    """
    if not (path / CONFIG_FILE).exists() or not (path / EPISODES_FILE).exists():
        raise UserError(f"{path} holds no evaluation: {CONFIG_FILE} or {EPISODES_FILE} is missing")
    return json.loads((path / CONFIG_FILE).read_text()), read_lines(path / EPISODES_FILE)[0]
