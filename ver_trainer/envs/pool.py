"""The trainer's side of the environment workers.

A pool owns the transfer buffers (one row per environment) and two operations: ``send`` steps some
rows with the actions in the buffers, ``receive`` returns rows whose results are there. The rows of
a batched environment form one unit: they are sent and received together, with one message. Nothing
spins: the pool sleeps in ``poll`` on one pipe and the workers' sockets.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ver_trainer.envs.nursery import LENGTH, send_message
from ver_trainer.envs.shared import BlockLayout, SharedBlock, transfer_specs
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.envs.worker import INDEX, WorkerTask
from ver_trainer.errors import WorkerFailure

_TICK = 0.2


@dataclass
class Fault:
    """One failure of a worker; ``rows`` are the environments that start afresh."""

    rows: tuple[int, ...]
    kind: str  # "raised", "died" or "hung"
    detail: str
    who: str = "environment worker"

    @property
    def brief(self) -> str:
        """The first and the last line of ``detail``."""
        lines = self.detail.strip().splitlines()
        return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


@dataclass
class _Worker:
    task: WorkerTask
    connection: socket.socket
    pid: int
    busy_since: dict[int, float] = field(default_factory=dict)  # by unit


@dataclass(frozen=True)
class PoolOptions:
    """Sizes and limits of a worker pool.

    ``step_timeout`` (seconds) bounds a step, ``start_timeout`` making and first resetting an
    environment. ``seed_offset`` is added to the row to form the seed index (one block per rank).
    ``first_episodes`` and ``carried`` (one per environment, or empty) go on after a run that was
    resumed.
    """

    num_envs: int
    envs_per_worker: int = 1
    seed: int = 0
    seed_offset: int = 0
    info_keys: tuple[str, ...] = ()
    step_timeout: float = 60.0
    start_timeout: float = 180.0
    max_faults: int = 10
    nice: int = 0
    first_episodes: tuple[int, ...] = ()
    carried: tuple[float, ...] = ()

    @property
    def carried_by_all(self) -> np.ndarray:
        """(num_envs,) what each carries at first: their mean where there were more or fewer."""
        if len(self.carried) == self.num_envs:
            return np.array(self.carried)
        return np.full(self.num_envs, np.mean(self.carried) if self.carried else 0.0)


class WorkerPool:
    """Environment worker processes behind shared memory.

    Attributes:
        buffers: name to array with leading axis ``num_envs``; see ``shared.transfer_specs``.
        unit_size: rows that step together.
        faults: failures not yet taken by :meth:`take_faults`.
        fault_count: failures so far.
        waits: whether results come later than they are asked for.
    """

    waits = True

    def __init__(self, factory: EnvFactory, spec: EnvSpec, options: PoolOptions) -> None:
        self.options = options
        self.num_envs, self.unit_size = options.num_envs, factory.worlds or 1
        self.faults: list[Fault] = []
        self.fault_count = 0
        self.should_stop: Callable[[], None] = lambda: None
        self.block = SharedBlock(
            BlockLayout.of(transfer_specs(spec, options.info_keys), options.num_envs)
        )
        self.buffers = self.block.arrays
        self.buffers["carried"][:] = options.carried_by_all
        self._ready_in, self._ready_out = os.pipe()
        os.set_blocking(self._ready_in, False)
        self._poll = select.poll()
        self._poll.register(self._ready_in, select.POLLIN)
        self._workers: dict[int, _Worker] = {}  # by file descriptor of the connection
        self._worker_of: dict[int, _Worker] = {}  # by unit
        self._starting: set[int] = set()  # units
        self._ready: deque[int] = deque()  # units
        self._checked = time.monotonic()
        self._closed = False
        self._start_nursery(factory)
        step = options.envs_per_worker
        for first in range(0, self.num_envs, step):
            rows = tuple(range(first, min(first + step, self.num_envs)))
            firsts = options.first_episodes
            self._start_worker(rows, tuple(firsts[row] if firsts else 0 for row in rows))

    def _start_nursery(self, factory: EnvFactory) -> None:
        self._control, theirs = socket.socketpair()
        environment = dict(os.environ)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[name] = "1"
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "ver_trainer.envs.nursery", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            process_group=0,  # Ctrl-C is for the trainer, also while this one still starts
        )
        theirs.close()
        send_message(self._control, {"path": sys.path})
        setup = {"layout": self.block.layout, "factory": factory}
        send_message(self._control, setup, (self.block.descriptor, self._ready_out))

    def _start_worker(self, rows: tuple[int, ...], first_episodes: tuple[int, ...]) -> None:
        options = self.options
        task = WorkerTask(
            rows,
            first_episodes,
            options.seed,
            options.seed_offset,
            options.info_keys,
            options.nice,
        )
        ours, theirs = socket.socketpair()
        try:
            send_message(self._control, task, (theirs.fileno(),))
            theirs.close()
            reply = self._control.recv(LENGTH.size)
        except OSError:
            reply = b""
        if not reply:
            raise WorkerFailure(
                "the process that starts environment workers died: if it was not killed, see its "
                "output above and check that the environment's package imports without the "
                "trainer, then run the same command again"
            )
        worker = _Worker(task, ours, LENGTH.unpack(reply)[0])
        now = time.monotonic()
        units = unit_numbers(rows, self.unit_size)
        worker.busy_since = dict.fromkeys(units, now)
        self._workers[ours.fileno()] = worker
        self._worker_of |= dict.fromkeys(units, worker)
        self._starting |= set(units)
        self._poll.register(ours.fileno(), select.POLLIN)

    def send(self, rows: np.ndarray) -> None:
        """Steps ``rows``, whole units, with the actions in ``buffers['action']``."""
        self.mark_busy(rows)
        for unit in unit_numbers(rows, self.unit_size):
            if unit in self._starting:
                continue  # its worker was replaced since the batch was made
            try:
                self._worker_of[unit].connection.send(INDEX.pack(unit))
            except OSError:
                continue  # the worker is dead: the next receive sees the end of file

    def mark_busy(self, rows: np.ndarray) -> None:
        """Expects results of ``rows``, which somebody else is about to send."""
        now = time.monotonic()
        for unit in unit_numbers(rows, self.unit_size):
            if unit not in self._starting:
                self._worker_of[unit].busy_since[unit] = now

    def links(self) -> list[tuple[tuple[int, ...], int]]:
        """Rows and the file descriptor through which they are told to step."""
        return [(w.task.rows, w.connection.fileno()) for w in self._workers.values()]

    def receive(self, max_wait: float | None) -> list[int]:
        """Returns rows whose result (or first observation) is there, in order of arrival.

        Args:
            max_wait: seconds to wait for the first one; None waits for as long as it takes. An
                empty list comes back when the time is over or when a worker was replaced.

        Raises:
            WorkerFailure: when there were more than ``max_faults`` faults.
        """
        deadline = None if max_wait is None else time.monotonic() + max_wait
        while not self._ready:
            self.should_stop()
            now = time.monotonic()
            timeout = _TICK if deadline is None else min(_TICK, max(deadline - now, 0.0))
            known = self.fault_count
            self._wait(timeout)
            if self.fault_count != known:
                break
            if deadline is not None and time.monotonic() >= deadline:
                break
        units = list(self._ready)
        self._ready.clear()
        return rows_of(units, self.unit_size)

    def _wait(self, timeout: float) -> None:
        events = self._poll.poll(timeout * 1000)
        broken = [fd for fd, _ in events if fd != self._ready_in]
        self._read_ready()
        for descriptor in broken:
            self._lost(self._workers[descriptor])
        if time.monotonic() - self._checked > _TICK:  # also while other workers keep it busy
            self._checked = time.monotonic()
            self._check_hung()

    def _read_ready(self) -> None:
        try:
            data = os.read(self._ready_in, 65536)
        except BlockingIOError:
            return
        for (unit,) in INDEX.iter_unpack(data):
            if self._worker_of[unit].busy_since.pop(unit, None) is not None:
                self._starting.discard(unit)
                self._ready.append(unit)

    def _check_hung(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers.values()):
            units = len(worker.task.rows) // self.unit_size
            for unit, since in worker.busy_since.items():
                starting = unit in self._starting
                limit = self.options.start_timeout if starting else self.options.step_timeout
                # Environments of one worker run one after the other.
                if now - since > limit * units:
                    what = "start" if starting else "step"
                    row = unit * self.unit_size
                    detail = f"environment {row} took more than {limit * units:g} s to {what}"
                    self._replace(worker, "hung", detail)
                    break

    def _lost(self, worker: _Worker) -> None:
        data = b""
        try:
            worker.connection.settimeout(1.0)
            while chunk := worker.connection.recv(65536):
                data += chunk
        except OSError:
            pass
        try:
            row, trace, refusal = pickle.loads(data)
        except (EOFError, pickle.UnpicklingError):  # killed, perhaps in the middle of its report
            row, refusal = None, ""
        if refusal:
            raise WorkerFailure(refusal)
        if row is not None:
            self._replace(worker, "raised", f"environment {row} raised:\n{trace}")
        else:
            rows = worker.task.rows
            names = ", ".join(map(str, rows)) if len(rows) < 9 else f"{rows[0]} to {rows[-1]}"
            detail = (
                f"the process of environment {names} (pid {worker.pid}) died without a traceback "
                "(killed, out of memory or a crash in C code)"
            )
            self._replace(worker, "died", detail)

    def _replace(self, worker: _Worker, kind: str, detail: str) -> None:
        _kill(worker.pid)
        descriptor = worker.connection.fileno()
        self._poll.unregister(descriptor)
        _drain(worker.connection, time.monotonic() + 5.0)  # until it can write no more results
        worker.connection.close()
        del self._workers[descriptor]
        self._read_ready()
        rows = worker.task.rows
        units = set(unit_numbers(rows, self.unit_size))
        self._ready = deque(unit for unit in self._ready if unit not in units)
        self.fault_count += 1
        self.faults.append(Fault(rows, kind, detail))
        if self.fault_count > self.options.max_faults:
            raise WorkerFailure(
                f"environment workers failed {self.fault_count} times, more than "
                f"collect.max_faults={self.options.max_faults} allows (the same command goes on "
                f"from the last checkpoint); the last one: {detail}"
            )
        begun = self.next_episodes()
        episodes = tuple(begun[row] for row in rows)
        self._start_worker(rows, episodes)

    def next_episodes(self) -> list[int]:
        """Number of the first episode of each row that is not begun yet."""
        return next_episodes(self.options, self.buffers, [])

    def take_faults(self) -> list[Fault]:
        """Returns and forgets the failures since the last call; their rows start afresh."""
        faults, self.faults = self.faults, []
        return faults

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        deadline = time.monotonic() + 2.0
        for worker in self._workers.values():
            worker.connection.shutdown(socket.SHUT_WR)
        for worker in self._workers.values():
            _drain(worker.connection, deadline)
            worker.connection.close()
        self._control.close()
        if self._nursery.poll() is None:
            try:
                self._nursery.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                self._nursery.kill()
                self._nursery.wait()
        for worker in self._workers.values():
            _kill(worker.pid)
        if not self._closed:
            os.close(self._ready_in)
            os.close(self._ready_out)
            self.block.close()
        self._workers, self._closed = {}, True

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, in order of their rows."""
        return [w.pid for w in sorted(self._workers.values(), key=lambda w: w.task.rows)]


def next_episodes(
    options: PoolOptions, buffers: dict[str, np.ndarray], fresh: list[int]
) -> list[int]:
    """Number of the first episode of each row that is not begun yet.

    Args:
        options: of the pool.
        buffers: of the pool.
        fresh: rows that have begun none at all, so their buffers do not tell.
    """
    firsts = np.array(options.first_episodes or (0,) * options.num_envs)
    found = np.maximum(buffers["episode"] + 1, firsts)  # a worker may not have begun either
    found[fresh] = firsts[fresh]
    return found.tolist()


def unit_numbers(rows: np.ndarray | tuple[int, ...], size: int) -> list[int]:
    """Units that ``rows`` belong to, each once, in the order in which they come."""
    rows = np.asarray(rows)
    return rows.tolist() if size == 1 else list(dict.fromkeys((rows // size).tolist()))


def rows_of(units: list[int], size: int) -> list[int]:
    """All rows of ``units``."""
    return units if size == 1 else [u * size + i for u in units for i in range(size)]


def _drain(connection: socket.socket, deadline: float) -> None:
    """Reads until the other side is closed, at most until ``deadline``."""
    try:
        while True:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            if not connection.recv(65536):
                return
    except OSError:
        return


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
