"""One HTTP request whose whole answer comes within a time, however slowly a server speaks."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

_CHUNK = 65536


def read_within(
    request: urllib.request.Request,
    seconds: float,
    most: int,
    handlers: Sequence[urllib.request.BaseHandler] = (),
) -> bytes:
    """Return the body of the answer, or its beginning if it is longer than ``most`` bytes.

    A socket's timeout is for each read, and a name server, a proxy or the headers may take many, so
    another thread asks and this one waits.

    Args:
        request: to send.
        seconds: from now to the last byte.
        most: bytes after which no more are read.
        handlers: of :func:`urllib.request.build_opener`, besides its own.

    Raises:
        TimeoutError: it is not there in time.
        OSError: as :mod:`urllib.request` raises it.
        http.client.HTTPException: the same.
    """
    lines, answer = _Lines(), Future[bytes]()
    opener = urllib.request.build_opener(*lines.handlers(), *handlers)
    until = time.monotonic() + seconds

    def ask() -> None:
        try:
            answer.set_result(_body(opener, request, until, most))
        except BaseException as error:  # the thread that waits raises it
            answer.set_exception(error)

    threading.Thread(target=ask, name="planner.llm", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        lines.cut()
        raise


def _body(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, until: float, most: int
) -> bytes:
    data = b""
    with opener.open(request, timeout=max(until - time.monotonic(), 1e-3)) as response:
        while len(data) <= most and (chunk := response.read1(_CHUNK)):
            data += chunk
            if time.monotonic() > until:
                raise TimeoutError
    return data


class _Lines:
    """The connections of one request, so that a thread that waits for one can be let go."""

    def __init__(self) -> None:
        self._open: list[http.client.HTTPConnection] = []

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """Return what opens connections and notes them."""
        return [_Plain(self), _Secret(self)]

    def note(
        self, kind: type[http.client.HTTPConnection], *args: Any, **options: Any
    ) -> http.client.HTTPConnection:
        """Return a new connection."""
        self._open.append(kind(*args, **options))
        return self._open[-1]

    def cut(self) -> None:
        """End them; who reads from one gets no more."""
        for line in self._open:
            with suppress(OSError, AttributeError):  # it may have ended by itself
                line.sock.shutdown(socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._lines.note, http.client.HTTPConnection), request)


class _Secret(urllib.request.HTTPSHandler):
    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._lines.note, http.client.HTTPSConnection), request)
