"""Worker processes that are replaced when they die; every job ends in exactly one record."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from eval.episode import EpisodeRecord, blame
from eval.spec import EvaluationSpec
from eval.worker import Fatal, Job, Ready, worker_main
from tpsrl.errors import UserError

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class _Worker:
    """One process and the job it has."""

    def __init__(self, context: SpawnContext, spec: EvaluationSpec) -> None:
        self.connection: Connection
        self.connection, child = context.Pipe()
        self.process: SpawnProcess = context.Process(target=worker_main, args=(child, spec))
        self.process.daemon = True
        with _start_conditions():
            self.process.start()
        child.close()
        self.job: Job | None = None
        self.ready = False
        self.started = time.monotonic()

    def give(self, job: Job) -> None:
        self.job, self.started = job, time.monotonic()
        try:
            self.connection.send(job)
        except (BrokenPipeError, ConnectionResetError):
            # It died between two jobs; the loop below notices and gives the job to its successor.
            return

    def stop(self, grace: float) -> None:
        if self.process.is_alive():
            try:
                self.connection.send(None)
            except OSError:
                grace = 0.0
            self.process.join(grace)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(2.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


class WorkerPool:
    """Runs jobs in worker processes; use it as a context manager.

    Args:
        spec: what the workers build.
        workers: number of processes.
        attempts: workers that may die over one episode before it is recorded as a failure.
        timeout: wall-clock seconds after which a worker on one episode is taken for hung.
    """

    def __init__(
        self, spec: EvaluationSpec, workers: int, attempts: int = 3, timeout: float = 3600.0
    ) -> None:
        self._spec = spec
        self._count = workers
        self._attempts = attempts
        self._timeout = timeout
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self.engine: dict[str, Any] = {}
        self.agent = ""
        self.restarts = 0
        self._failed_starts = 0

    @property
    def pids(self) -> list[int]:
        """Process ids of the live workers."""
        return [w.process.pid for w in self._workers if w.process.pid and w.process.is_alive()]

    def run(self, jobs: Iterable[Job]) -> Iterator[EpisodeRecord]:
        """Yield each job's record as it is finished, in any order.

        Raises:
            UserError: simulator, agent or an episode cannot be built; the message says why.
            RuntimeError: a worker failed before its first episode; with its traceback.
        """
        queue = deque(jobs)
        deaths: dict[int, int] = {}
        self._workers = [
            _Worker(self._context, self._spec) for _ in range(min(self._count, len(queue)))
        ]
        pending = len(queue)
        while pending:
            for record in self._wait(queue, deaths):
                pending -= 1
                yield record

    def _wait(self, queue: deque[Job], deaths: dict[int, int]) -> list[EpisodeRecord]:
        """Wait until something happens and return the records that came of it."""
        handles: list[Any] = [w.connection for w in self._workers]
        handles += [w.process.sentinel for w in self._workers]
        happened = set(wait(handles, timeout=1.0))
        records: list[EpisodeRecord] = []
        for worker in list(self._workers):
            if worker.connection in happened and (message := _receive(worker.connection)):
                if isinstance(message, EpisodeRecord):
                    message.attempts = deaths.get(message.index, 0) + 1
                    records.append(message)
                    worker.job = None
                self._handle(worker, message)
                if queue and worker.job is None:
                    worker.give(queue.popleft())
            elif not worker.process.is_alive() or self._is_hung(worker):
                self._workers.remove(worker)
                records += self._bury(worker, queue, deaths)
                if queue:
                    self._workers.append(_Worker(self._context, self._spec))
        return records

    def _handle(self, worker: _Worker, message: Any) -> None:
        if isinstance(message, Ready):
            worker.ready = True
            self._failed_starts = 0
            self.engine, self.agent = message.engine, message.agent
        elif isinstance(message, Fatal):
            if message.is_user_error:
                raise UserError(message.message)
            raise RuntimeError(f"a worker failed:\n{message.message}")

    def _bury(
        self, worker: _Worker, queue: deque[Job], deaths: dict[int, int]
    ) -> list[EpisodeRecord]:
        """Take a dead worker's job back, or record it as failed after too many deaths."""
        code = worker.process.exitcode
        worker.stop(0.0)
        self.restarts += 1
        job, worker.job = worker.job, None
        if job is None:
            self._failed_starts += not worker.ready
            if self._failed_starts > self._attempts:
                raise RuntimeError(
                    f"workers die while they start (exit code {code}); "
                    "run with workers=1 and look at the messages above"
                )
            return []
        deaths[job.index] = deaths.get(job.index, 0) + 1
        if deaths[job.index] < self._attempts:
            queue.appendleft(job)
            return []
        record = job.empty_record()
        record.end, record.attempts = "worker_died", deaths[job.index]
        record.extra = {"exit_code": code}
        record.failure = blame(record)
        return [record]

    def _is_hung(self, worker: _Worker) -> bool:
        busy = worker.job is not None or not worker.ready
        return busy and time.monotonic() - worker.started > self._timeout

    def close(self, grace: float = 5.0) -> None:
        """Stop every worker; after ``grace`` seconds by force."""
        for worker in self._workers:
            worker.stop(grace)
        self._workers = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self.close(grace=5.0 if kind is None else 0.0)


def _receive(connection: Connection) -> Any:
    """Return the next message, ``None`` if the other end died over it."""
    try:
        return connection.recv()
    except (EOFError, OSError):
        return None


@contextmanager
def _start_conditions() -> Iterator[None]:
    """Let a process that starts meanwhile use one thread and never see Ctrl-C.

    The workers already fill the cores. Ctrl-C goes to the whole process group, and a worker that
    has not yet got as far as ignoring it would print a traceback; a blocked signal is inherited.
    Here it is kept until the process has all it needs: half started, it would complain too.
    """
    missing = [name for name in _THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    # Started later, multiprocessing's resource tracker would unblock the signal again.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    interrupts: list[int] = []
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread:
        # Another thread (BLAS has some) may take the signal, and Python then handles it here.
        handler = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for name in missing:
            del os.environ[name]
        if interrupts:
            signal.raise_signal(signal.SIGINT)
