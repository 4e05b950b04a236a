"""The folder of a run: its config, one line a record, a summary; made to survive kills."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tpsrl.errors import UserError
from tpsrl.files import write_json
from ver_trainer.errors import StorageError
from ver_trainer.files import Lock, writing
from ver_trainer.reading import parse_json, read_json

EPISODES_FILE = "episodes.jsonl"
CONFIG_FILE = "config.json"
SUMMARY_FILE = "summary.json"


class Numbered(Protocol):
    """A job whose record is kept.

    Attributes:
        index: number of its record.
        fingerprint: hash of the data it works on.
    """

    @property
    def index(self) -> int: ...  # noqa: D102
    @property
    def fingerprint(self) -> str: ...  # noqa: D102


N = TypeVar("N", bound=Numbered)


class ResultFolder:
    """Opens a run's folder for writing, alone; use it as a context manager.

    A last line that a kill cut short is removed; its job will be run again.

    Args:
        path: folder, created if it does not exist.
        config: what decides the results; must equal that of earlier runs in the folder, unless
            they left nothing but their config and a summary of no record.

    Attributes:
        records: by index; each holds ``index`` and the ``fingerprint`` of its data.

    Raises:
        StorageError: not writable, or in use by another process.
        UserError: the folder holds results of another config, or a damaged line.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._lock: Lock | None = None
        try:
            with writing(path):
                path.mkdir(parents=True, exist_ok=True)
                self._lock = Lock(path / ".lock", "another run")
            self._check_config(dict(config))
            self.records, end = read_records(path / EPISODES_FILE)
            # Unbuffered: a line that fails on a full disk must not linger in a buffer.
            self._file = open(path / EPISODES_FILE, "ab", buffering=0)  # noqa: SIM115
            self._file.truncate(end)
        except OSError as error:
            self.close()
            raise StorageError(f"cannot write to {path}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def missing(self, jobs: Iterable[N]) -> list[N]:
        """Return the jobs that have no record yet.

        Raises:
            UserError: a record is of other data than the job.
        """
        todo = []
        for job in jobs:
            record = self.records.get(job.index)
            if record is None:
                todo.append(job)
            elif record.get("fingerprint") != job.fingerprint:
                raise UserError(
                    f"episode {job.index} in {self.path} is another one than in this data; choose"
                    " another out="
                )
        return todo

    def first(self, count: int) -> list[dict[str, Any]]:
        """Return the records with an index below ``count``, in order."""
        return [record for index, record in sorted(self.records.items()) if index < count]

    def append(self, record: dict[str, Any]) -> None:
        """Add a record's line and wait until it is on the disk.

        Raises:
            StorageError: the disk is full; the lines before are intact.
        """
        assert self._file is not None
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            self.records[record["index"]] = record  # an interrupt may come while the disk works
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            self.records.pop(record["index"], None)
            raise StorageError(
                f"cannot write {self.path / EPISODES_FILE}: {error.strerror}; "
                f"the {len(self.records)} episodes before are kept, make room and run again"
            ) from error

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Write ``summary.json`` and return its path."""
        path = self.path / SUMMARY_FILE
        write_json(path, summary)
        return path

    def earlier_summary(self) -> dict[str, Any]:
        """Return the summary of an earlier run in this folder, empty if there is none."""
        try:
            return read_json(self.path / SUMMARY_FILE)
        except UserError:
            return {}

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        # NFS keeps what is removed while it is open, under another name.
        if self._file is not None:
            self._file.close()
        # First: records whose config is gone already would be refused, were this interrupted.
        (self.path / EPISODES_FILE).unlink()
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()
        with suppress(OSError):  # all but the folder is gone; of NFS only since the lock is
            self.path.rmdir()

    def close(self) -> None:
        """Release the folder."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()
        self._file = self._lock = None

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

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
        if self._is_empty():  # e.g. of a command that could not make its first one
            write_json(path, config)
            return
        earlier = _read_config(path)
        keys = sorted(set(earlier) | set(config))
        changed = [key for key in keys if earlier.get(key) != config.get(key)]
        if changed:
            theirs, ours = (
                ", ".join(f"{key}={run.get(key)}" for key in changed) for run in (earlier, config)
            )
            raise UserError(
                f"{self.path} holds a run with {theirs}, this one has {ours}; choose another out="
            )

    def _is_empty(self) -> bool:
        """Return whether earlier runs have left no record and no files of their own."""
        lines = self.path / EPISODES_FILE
        own = {CONFIG_FILE, SUMMARY_FILE, lines.name, ".lock"}
        others = {found.name for found in self.path.iterdir()} - own
        return not others and not (lines.exists() and lines.stat().st_size)


def read_folder(path: Path) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return config and records of a finished or running run without touching it.

    Raises:
        UserError: the folder holds no run, or a damaged one.
    """
    if not (path / CONFIG_FILE).exists() or not (path / EPISODES_FILE).exists():
        raise UserError(f"{path} holds no evaluation: {CONFIG_FILE} or {EPISODES_FILE} is missing")
    return _read_config(path / CONFIG_FILE), read_records(path / EPISODES_FILE)[0]


def read_records(path: Path) -> tuple[dict[int, dict[str, Any]], int]:
    """Read a file of records; none if it does not exist.

    Returns:
        Records by index, and the number of bytes up to the end of the last complete line.

    Raises:
        UserError: a line other than an unfinished last one is damaged, or has no index.
    """
    records: dict[int, dict[str, Any]] = {}
    end = 0
    lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = parse_json(line, f"line {number} of {path}")
        except UserError as error:
            if number == len(lines) - 1 and not lines[-1]:
                break
            raise UserError(
                f"line {number} of {path} is damaged; remove it or choose another out="
            ) from error
        if not isinstance(record.get("index"), int):
            raise UserError(
                f"line {number} of {path} has no index, as in results of older versions; choose"
                " another out="
            )
        records[record["index"]] = record
        end += len(line) + 1
    return records, end


def read_wanted(path: Path) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Read as :func:`read_folder`, of the records alone that its summary counts, if there is one.

    Raises:
        UserError: the folder holds no evaluation.
    """
    config, records = read_folder(path)
    if (path / SUMMARY_FILE).exists():
        wanted = read_json(path / SUMMARY_FILE).get("wanted_episodes")
        if not isinstance(wanted, int):
            raise UserError(
                f"{path} holds no evaluation: {SUMMARY_FILE} has no number 'wanted_episodes'"
            )
        records = {index: record for index, record in records.items() if index < wanted}
    return config, records


def _read_config(path: Path) -> dict[str, Any]:
    return read_json(path, hint="choose another out=")
