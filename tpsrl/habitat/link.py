"""The client's end: starts the server's process, talks to it, notices its death."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from tpsrl import __version__
from tpsrl.errors import UserError
from tpsrl.habitat.server import wire

SERVER = Path(__file__).parent / "server" / "serve.py"
START_SECONDS = 180.0
"""How long a server may take to import its engine and load a scene."""
CALL_SECONDS = 120.0
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Environment variables that point one interpreter at another's libraries."""


class EngineLostError(UserError):
    """The engine's process is gone, and with it the episode that it played."""


class BackendLink(Protocol):
    """A way to a backend: in another process or in this one."""

    about: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def lost(self) -> str:
        """Why the backend cannot be reached any more, ``""`` while it can."""

    def call(self, operation: str, **args: Any) -> Any:
        """Carry out an operation and return its result."""

    def close(self) -> None:
        """Let go of the backend; safe to call twice."""


class InProcess:
    """A backend of this interpreter behind the same interface.

    Args:
        backend: as the server would make it.
    """

    def __init__(self, backend: Any) -> None:
        from tpsrl.habitat.server.serve import versions

        self._backend = backend
        self.about: Mapping[str, Any] = backend.about()
        self.versions: Mapping[str, str] = versions()

    @property
    def lost(self) -> str:
        """See :class:`BackendLink`."""
        return "" if self._backend is not None else "this simulator is closed"

    def call(self, operation: str, **args: Any) -> Any:
        """See :class:`BackendLink`."""
        if self._backend is None:
            raise EngineLostError("this simulator is closed")
        try:
            return getattr(self._backend, f"op_{operation}")(**args)
        except Exception as error:
            if type(error).__name__ == "Refusal":
                raise UserError(str(error)) from error
            raise

    def close(self) -> None:
        """See :class:`BackendLink`."""
        if self._backend is not None:
            self._backend.op_close()
            self._backend = None


class ServerProcess:
    """A backend in a process of its own.

    The socket and the shared memory have no names, so nothing of them outlives both processes.

    Args:
        python: interpreter.
        backend: ``"module:function"`` that makes the backend there.
        options: plain values for that function.
        path: folders to import the backend from, besides the server's own.
        what: for messages, e.g. ``"Habitat"``.
        start_timeout, call_timeout: seconds before a silent server is given up.

    Raises:
        UserError: the interpreter cannot be run, speaks another protocol, or the backend refuses.
    """

    def __init__(
        self,
        python: str | Path,
        backend: str,
        options: Mapping[str, Any],
        *,
        path: Sequence[str] = (),
        what: str = "Habitat",
        start_timeout: float = START_SECONDS,
        call_timeout: float = CALL_SECONDS,
    ) -> None:
        self._what, self._call_timeout = what, call_timeout
        self._lock = threading.Lock()
        self._lost = ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        self._memory_file = _shared_memory()
        ours, theirs = socket.socketpair()
        try:
            self.process = self._start(str(python), backend, path, theirs.fileno())
        except BaseException:
            ours.close()
            self._log.close()
            os.close(self._memory_file)
            raise
        finally:
            theirs.close()
        memory = mmap.mmap(self._memory_file, 2 * wire.HALF)
        self._channel = wire.Channel(ours, memory, wire.CLIENT)
        self._finalizer = weakref.finalize(self, _end, self.process, ours, self._log)
        os.close(self._memory_file)
        self.about, self.versions = self._greet(options, str(python), start_timeout)

    @property
    def lost(self) -> str:
        """See :class:`BackendLink`."""
        return self._lost

    def call(self, operation: str, **args: Any) -> Any:
        """See :class:`BackendLink`.

        Raises:
            EngineLostError: the server died or does not answer.
            UserError: it refused, in one sentence.
            RuntimeError: the backend failed.
        """
        with self._lock:
            reply = self._exchange({"op": operation, "args": args}, self._call_timeout, operation)
        if "error" not in reply:
            return reply["value"]
        if reply["expected"]:
            raise UserError(reply["error"])
        raise RuntimeError(f"{self._what} failed in '{operation}': {reply['error']}")

    def close(self) -> None:
        """Ask the server to end, wait a little, then end it."""
        if self._lost or not self._finalizer.alive:
            self._finalizer()
            return
        # A server that is slow to end on a busy machine is ended below.
        slow = subprocess.TimeoutExpired
        with contextlib.suppress(UserError, RuntimeError, wire.WireError, slow):
            with self._lock:
                self._exchange({"op": "close", "args": {}}, 10.0, "close")
            self.process.wait(5.0)
        self._lost = self._lost or "this simulator is closed"
        self._finalizer()

    def _start(
        self, python: str, backend: str, path: Sequence[str], sock: int
    ) -> subprocess.Popen[bytes]:
        command = [python, str(SERVER), "--socket", str(sock), "--memory", str(self._memory_file)]
        command += ["--parent", str(os.getpid()), "--backend", backend]
        command += [word for folder in path for word in ("--path", folder)]
        environment = dict(os.environ)
        if os.path.realpath(python) != os.path.realpath(sys.executable):
            for name in _FOREIGN:
                environment.pop(name, None)
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(sock, self._memory_file),
                env=environment,
            )
        except OSError as error:
            raise UserError(
                f"habitat.python={python} cannot be run ({error.strerror}); give the path of the"
                " python that habitat-lab is installed in"
            ) from None

    def _greet(
        self, options: Mapping[str, Any], python: str, timeout: float
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        hello = {"protocol": wire.PROTOCOL, "tpsrl": __version__, "options": dict(options)}
        reply = self._exchange(hello, timeout, "start")
        if reply.get("protocol") != wire.PROTOCOL:
            problem = (
                f"the {self._what} server of {python} speaks protocol {reply.get('protocol')}, this"
                f" tpsrl {__version__} speaks {wire.PROTOCOL}; use files of one version of tpsrl"
            )
        elif "error" in reply and reply["expected"]:
            problem = reply["error"]
        elif "error" in reply:
            problem = f"{self._what} did not start in {python}: {reply['error']}"
        else:
            return reply["about"], reply["versions"]
        self._give_up(problem)
        raise UserError(problem)

    def _exchange(self, message: Any, timeout: float, operation: str) -> Any:
        if self._lost:
            raise EngineLostError(self._lost)
        try:
            self._channel.send(message)
            reply = self._channel.receive(timeout)
            if isinstance(reply, dict):
                return reply
            raise wire.WireError("the answer is no dictionary")
        except TimeoutError:
            self._give_up(
                f"{self._what} did not answer '{operation}' within {timeout:g} s and was ended;"
                " reset the simulator"
            )
        except wire.WireError:
            self._give_up(self._obituary(operation))
        except ValueError:
            raise  # too large to be sent: nothing happened
        except BaseException:
            # Half an exchange, e.g. after Ctrl-C: the next answer would be that of this question.
            self._give_up(f"'{operation}' of {self._what} was interrupted; reset the simulator")
            raise
        raise EngineLostError(self._lost)

    def _obituary(self, operation: str) -> str:
        try:
            code = self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            code = None
        how = "closed the connection"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        elif code is not None:
            how = f"ended with exit code {code}"
        last = _last_line(self._log)
        says = f"; its last words: {last}" if last else ""
        return f"the {self._what} server {how} during '{operation}'{says}; reset the simulator"

    def _give_up(self, reason: str) -> None:
        self._lost = reason
        self._finalizer()


def _shared_memory() -> int:
    """Return the descriptor of memory that both processes can map and that has no name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tpsrl-habitat")
    else:
        descriptor, name = tempfile.mkstemp(prefix="tpsrl-habitat-")
        os.unlink(name)
    os.ftruncate(descriptor, 2 * wire.HALF)
    return descriptor


def _end(process: subprocess.Popen[bytes], sock: socket.socket, log: IO[bytes]) -> None:
    """End the server and free what belongs to it."""
    sock.close()
    if process.poll() is None:
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5.0)
    log.close()


def _last_line(log: IO[bytes]) -> str:
    try:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - 4096))
        lines = log.read().decode(errors="replace").split("\n")
    except ValueError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
