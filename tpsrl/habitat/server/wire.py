"""Messages between client and server: JSON over a socket, arrays in shared memory.

Nothing is pickled. This file runs in both interpreters and needs Python 3.9 and NumPy.

A message is a tree of dictionaries, lists, numbers, text and arrays. Its arrays lie one after the
other in the sender's half of the shared memory; the JSON text says where. The text of a step is the
same as that of the step before, so it is sent as an empty message then.
"""

from __future__ import annotations

import json
import marshal
import mmap
import socket
import struct
from typing import Any

import numpy as np

PROTOCOL = 2
"""Raise when messages change; both sides refuse another number."""
HALF = 24 * 2**20
"""Bytes of each half of the shared memory."""
CLIENT, SERVER = 0, HALF
"""Where the halves begin: each side writes its own."""

_ARRAY = "__array__"
_ALIGN = 64
_HEADER = struct.Struct("<I")
_MOST = 2**28


class WireError(Exception):
    """The other side is gone or does not speak this protocol."""


class Channel:
    """One end of the connection.

    Args:
        sock: connected stream socket.
        memory: shared memory of ``2 * HALF`` bytes.
        mine: where this end writes, ``CLIENT`` or ``SERVER``.
    """

    def __init__(self, sock: socket.socket, memory: mmap.mmap, mine: int) -> None:
        self.sock, self.memory, self.mine = sock, memory, mine
        self._sent = b""
        self._received = b""
        self._template: Any = None
        self._timeout: float | None = -1.0

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            WireError: the other side is gone.
            ValueError: the arrays do not fit into the shared memory; nothing was sent.
        """
        tree = self._place(message, [self.mine])
        # Only compared, never sent: it is six times as quick as JSON, and as exact about types.
        sketch = marshal.dumps(tree, 2)
        data = b""
        if sketch != self._sent:
            data = json.dumps(tree, allow_nan=True).encode()
            self._sent = sketch
        try:
            self.sock.sendall(_HEADER.pack(len(data)) + data)
        except OSError as error:
            raise WireError(f"the connection is closed ({error})") from None

    def receive(self, timeout: float | None = None) -> Any:
        """Wait for a message and return it; its arrays are copies.

        Args:
            timeout: seconds, ``None`` for no limit.

        Raises:
            WireError: the other side is gone or sends something else.
            TimeoutError: nothing came in time.
        """
        if timeout != self._timeout:
            self.sock.settimeout(timeout)
            self._timeout = timeout
        try:
            (size,) = _HEADER.unpack(self._exactly(_HEADER.size))
            if size > _MOST:
                raise WireError(f"a message of {size} bytes was announced")
            if size:
                self._received = self._exactly(size)
                self._template = json.loads(self._received)
        except TimeoutError:
            raise TimeoutError(f"no answer in {timeout} s") from None
        except (OSError, ValueError, RecursionError) as error:
            raise WireError(f"the connection broke ({error})") from None
        return self._fetch(self._template)

    def _exactly(self, size: int) -> bytes:
        whole = self.sock.recv(min(size, 2**20))
        if len(whole) == size:
            return whole
        if not whole:
            raise WireError("the connection was closed")
        parts = [whole]
        size -= len(whole)
        while size:
            part = self.sock.recv(min(size, 2**20))
            if not part:
                raise WireError("the connection was closed")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _place(self, value: Any, cursor: list[int]) -> Any:
        """Copy arrays into this end's half and return the tree with their descriptions."""
        if isinstance(value, np.ndarray):
            start = cursor[0]
            cursor[0] = start + (value.nbytes + _ALIGN - 1) // _ALIGN * _ALIGN
            if cursor[0] > self.mine + HALF:
                raise ValueError(f"the arrays of one message need more than {HALF >> 20} MiB")
            view = np.ndarray(value.shape, value.dtype, self.memory, start)
            view[...] = value
            return {_ARRAY: [start, value.dtype.str, list(value.shape)]}
        if isinstance(value, dict):
            return {key: self._place(item, cursor) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._place(item, cursor) for item in value]
        if isinstance(value, np.generic):
            return value.item()
        return value

    def _fetch(self, value: Any) -> Any:
        if isinstance(value, dict):
            if _ARRAY in value:
                return self._array(value[_ARRAY])
            return {key: self._fetch(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fetch(item) for item in value]
        return value

    def _array(self, described: Any) -> np.ndarray:
        """Return a copy of an array of plain numbers that lies in the other end's half.

        Raises:
            WireError: its place, type or shape is something else.
        """
        try:
            start, dtype, shape = described
            kind = np.dtype(str(dtype))
            whole = all(type(n) is int and 0 <= n <= HALF for n in shape)
            whole = whole and type(start) is int and len(shape) <= 8
        except (TypeError, ValueError, SyntaxError):
            raise WireError(f"an array is described as {str(described)[:80]}") from None
        theirs = CLIENT + SERVER - self.mine
        if kind.kind not in "biuf" or not whole:
            raise WireError(f"an array is described as {str(described)[:80]}")
        size = kind.itemsize
        for n in shape:
            size *= n
        if not theirs <= start <= start + size <= theirs + HALF:
            raise WireError("an array lies outside the sender's half of the shared memory")
        return np.ndarray(shape, kind, self.memory, start).copy()
