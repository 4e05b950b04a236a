"""Environment worker: steps its environments when told to and announces each result.

Protocol. The trainer sends 16-bit unit numbers over the worker's socket (their actions lie in
shared memory); the worker steps them in that order and writes each number to the common ``ready``
pipe. A unit is what steps as one: a single environment and its row, or a batched environment and
all of its rows. An exception goes back over the socket as a row, a traceback and the sentence of
what no new worker would cure, e.g. a full disk, and the worker exits. End of file on the socket
means that the trainer is gone.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import struct
import sys
import traceback
from dataclasses import dataclass

from ver_trainer.envs.batch_slot import BatchSlot, make_slot
from ver_trainer.envs.shared import SharedBlock
from ver_trainer.envs.slot import EnvFactory, EnvSlot
from ver_trainer.errors import TrainerError

INDEX = struct.Struct("H")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class WorkerTask:
    """What one worker does: rows, and the first episode number of each."""

    rows: tuple[int, ...]
    first_episodes: tuple[int, ...]
    base_seed: int
    seed_offset: int
    info_keys: tuple[str, ...]
    nice: int = 0


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies (Linux; elsewhere sockets do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ignore_run_signals() -> None:
    """Leaves Ctrl-C and scheduler signals to the trainer, which closes its workers itself."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def run_worker(
    task: WorkerTask,
    factory: EnvFactory,
    block: SharedBlock,
    connection: socket.socket,
    ready: int,
) -> None:
    """Body of a worker process; returns when the trainer closes the connection."""
    if task.nice:
        os.nice(task.nice)
    slots: dict[int, EnvSlot | BatchSlot] = {}
    size = factory.worlds or 1
    current = task.rows[0] // size
    try:
        for first in range(0, len(task.rows), size):
            current = task.rows[first] // size
            slots[current] = make_slot(
                factory,
                block.arrays,
                task.rows[first],
                task.base_seed,
                task.info_keys,
                task.seed_offset,
                task.first_episodes[first : first + size],
            )
            slots[current].reset()
            os.write(ready, INDEX.pack(current))
        remainder = b""
        while data := connection.recv(4096):
            data = remainder + data
            whole = len(data) // INDEX.size * INDEX.size
            remainder = data[whole:]
            for (current,) in INDEX.iter_unpack(data[:whole]):
                slots[current].step()
                os.write(ready, INDEX.pack(current))
    except (BrokenPipeError, ConnectionResetError):
        return
    except BaseException as error:
        refusal = str(error) if isinstance(error, TrainerError) else ""
        report = pickle.dumps((current * size, traceback.format_exc(), refusal))
        connection.sendall(report)
    finally:
        for slot in slots.values():
            slot.close()
