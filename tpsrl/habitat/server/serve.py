"""Serves one simulator to the process that started this one, until that is gone.

    PYTHON serve.py --socket FD --memory FD --parent PID --backend MODULE:FUNCTION [--path DIR]

The backend is an object with a method for each operation; it is made by the first message. Python
3.9, NumPy and the backend's own library are all that this needs.
"""

from __future__ import annotations

import argparse
import importlib
import mmap
import os
import platform
import select
import signal
import socket
import sys
import threading
import traceback
from typing import Any

import numpy as np

if __package__:
    from . import wire
else:  # run as a script
    import wire  # type: ignore[no-redef]

_POLL_MS = 500


def main() -> int:
    """Serve until the client closes or dies; return the exit code."""
    options = _options()
    # Ctrl-C reaches the whole group: the client decides what becomes of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=options.socket)
    memory = mmap.mmap(options.memory, 2 * wire.HALF)
    watch = threading.Thread(target=_watch, args=(options.socket, options.parent), daemon=True)
    watch.start()
    channel = wire.Channel(sock, memory, wire.SERVER)
    sys.path[:0] = options.path
    try:
        backend = _greet(channel, options.backend)
        if backend is not None:
            _serve(channel, backend)
    except wire.WireError:
        return 0
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("socket", "memory", "parent"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--path", action="append", default=[])
    return parser.parse_args()


def _watch(descriptor: int, parent: int) -> None:
    """End this process when the client is gone, also in the midst of a long operation."""
    poll = select.poll()
    poll.register(descriptor, select.POLLHUP | select.POLLERR)
    while True:
        events = poll.poll(_POLL_MS)
        if os.getppid() != parent or any(flag & select.POLLHUP for _, flag in events):
            os._exit(0)


def versions() -> dict[str, str]:
    """Return the versions of this interpreter and its NumPy."""
    return {"python": platform.python_version(), "numpy": np.__version__}


def _greet(channel: wire.Channel, backend: str) -> Any:
    """Answer the first message; return the backend, or ``None`` after a refusal."""
    hello = channel.receive()
    if hello.get("protocol") != wire.PROTOCOL:
        channel.send({"protocol": wire.PROTOCOL, "versions": versions()})
        return None
    try:
        module, _, function = backend.partition(":")
        made = getattr(importlib.import_module(module), function)(hello["options"])
        about = made.about()
    except Exception as error:
        channel.send({"protocol": wire.PROTOCOL, "versions": versions(), **_failure(error)})
        return None
    channel.send({"protocol": wire.PROTOCOL, "versions": versions(), "about": about})
    return made


def _serve(channel: wire.Channel, backend: Any) -> None:
    while True:
        request = channel.receive()
        operation = request["op"]
        if operation == "ping":
            channel.send({"value": request["args"]})
            continue
        try:
            channel.send({"value": getattr(backend, "op_" + operation)(**request["args"])})
        except wire.WireError:
            raise
        except Exception as error:
            channel.send(_failure(error))
        if operation == "close":
            return


def _failure(error: Exception) -> dict[str, Any]:
    """Return what the client has to know; the rest goes to the log."""
    expected = type(error).__name__ in ("Refusal", "UserError")
    if not expected:
        traceback.print_exc()
    text = str(error) if expected else f"{type(error).__name__}: {error}"
    return {"error": text.replace("\n", " "), "expected": expected}


if __name__ == "__main__":
    sys.exit(main())
