"""Files that are either old or new, never half written, and folders that one process uses."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from ver_trainer.errors import StorageError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write ``path`` into one sentence.

    Raises:
        StorageError: naming ``path`` and the reason, e.g. a full disk.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"'{path}' cannot be written ({error.strerror or error}): see to that, then run the "
            "same command again"
        ) from error


def sync(path: Path) -> None:
    """Returns when a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_beside(path: Path) -> Path:
    """Returns a hidden name in the folder of ``path`` that ends as it does and no one else has.

    Two processes may make the same file, e.g. of a cache; two machines may give them one number.
    """
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".{path.stem}.{own}.tmp{path.suffix}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a name beside ``path`` that takes its place, on the disk, at the end of the block.

    An exception in the block leaves ``path`` as it was. The name ends as ``path`` does, since some
    writers choose their format by that.

    Raises:
        StorageError: if the system refuses to write.
    """
    temporary = temporary_beside(path)
    try:
        with writing(path):
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Any) -> None:
    """Writes ``data`` as indented JSON."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(data, indent=2) + "\n")


class Lock:
    """A folder held by this process; see :func:`locked`."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        self._descriptor = self._take()

    def check(self) -> None:
        """Refuses to go on where the folder is no longer the one that was locked.

        Raises:
            StorageError: if somebody removed it, and perhaps made a new one.
        """
        if not self._is_ours(self._descriptor):
            raise StorageError(
                f"'{self.path.parent}' was removed while {self.what} used it: nothing more is "
                "written there; run the command again to start anew"
            )

    def release(self) -> None:
        """Lets go of the folder and leaves no file behind."""
        if self._is_ours(self._descriptor):
            with suppress(OSError):
                self.path.unlink()
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a forked child may hold a copy of it
        os.close(self._descriptor)

    def _take(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Whoever held it may have removed the file between our two calls.
                if self._is_ours(descriptor):
                    self._sign(descriptor)
                    return descriptor
            except BlockingIOError:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise StorageError(
                    f"'{self.path.parent}' is in use by {holder}: wait until it has ended, stop "
                    "it, or choose another folder"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _sign(self, descriptor: int) -> None:
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"what": self.what, "pid": os.getpid(), "host": socket.gethostname()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({**holder, "since": since}).encode(), 0)

    def _is_ours(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False


def _holder(descriptor: int) -> str:
    """Names the process that holds a lock, as far as it has signed already."""
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        return f"{who['what']}, process {who['pid']} on {who['host']} since {who['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


@contextmanager
def locked(folder: Path, what: str) -> Iterator[Lock]:
    """Holds ``folder`` for this process alone; makes it if need be.

    The kernel lets go when the process ends, however it ends, so no kill can leave a lock behind.

    Args:
        folder: what nobody else may write to.
        what: what it is held for, e.g. "a training", for the message that others get.

    Raises:
        StorageError: if another process holds it (the message names it), or it cannot be written.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(folder / ".lock", what)
    try:
        yield lock
    finally:
        lock.release()
        if is_new:  # what was refused before it began leaves no empty folder
            with suppress(OSError):
                folder.rmdir()
