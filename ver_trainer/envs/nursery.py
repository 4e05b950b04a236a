"""A small process that imports NumPy and Gymnasium once and forks environment workers.

Started as ``python -m ver_trainer.envs.nursery FD``. It is not forked from the trainer, so neither
torch nor the user's main module is ever loaded in a worker, and a replacement for a dead worker is
ready in milliseconds. It dies with the trainer, and the workers die with it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import sys
from typing import Any

import cloudpickle

from ver_trainer.envs.shared import SharedBlock
from ver_trainer.envs.worker import die_with_parent, ignore_run_signals, run_worker

LENGTH = struct.Struct("I")


def send_message(
    connection: socket.socket, message: Any, descriptors: tuple[int, ...] = ()
) -> None:
    """Sends one pickled message, with file descriptors if any."""
    data = cloudpickle.dumps(message)
    socket.send_fds(connection, [LENGTH.pack(len(data))], list(descriptors))
    connection.sendall(data)


def receive_message(connection: socket.socket, most: int = 8) -> tuple[bytearray, list[int]] | None:
    """Receives one message and up to ``most`` file descriptors, or None if the sender is gone."""
    try:
        first, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, most)
        head = _complete(connection, bytearray(first), LENGTH.size) if first else None
        data = head and _complete(connection, bytearray(), LENGTH.unpack(head)[0])
    except ConnectionResetError:
        return None
    return None if data is None else (data, descriptors)


def _complete(connection: socket.socket, data: bytearray, length: int) -> bytearray | None:
    while len(data) < length:
        chunk = connection.recv(length - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def main(descriptor: int) -> None:
    """Serves fork requests until the trainer closes the connection."""
    die_with_parent()
    ignore_run_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    first = receive_message(connection)
    if first is None:
        return
    sys.path[:] = pickle.loads(first[0])["path"]
    second = receive_message(connection)
    if second is None:
        return
    setup, descriptors = pickle.loads(second[0]), second[1]
    memory, ready = descriptors
    block = SharedBlock(setup["layout"], memory)
    factory = setup["factory"]
    factory.import_preloads()
    while (request := receive_message(connection)) is not None:
        worker_end = socket.socket(fileno=request[1][0])
        task = pickle.loads(request[0])
        pid = os.fork()
        if pid == 0:
            connection.close()
            _child(task, factory, block, worker_end, ready)
        worker_end.close()
        try:
            connection.sendall(LENGTH.pack(pid))
        except (BrokenPipeError, ConnectionResetError):
            return  # the trainer is gone


def _child(task: Any, factory: Any, block: SharedBlock, link: socket.socket, ready: int) -> None:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        run_worker(task, factory, block, link, ready)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
