"""Worker processes that are replaced when they die or hang; every job ends exactly once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Generic, TypeVar

from tpsrl.errors import UserError
from tpsrl.jobs.processes import follow_parent

J = TypeVar("J")
R = TypeVar("R")
START_SECONDS = 300.0
"""A worker may take so long to build what it needs, however short its jobs are."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Finished(Generic[J, R]):
    """A job that has ended.

    Attributes:
        job: as it was given.
        result: what came of it; ``None`` if it was lost.
        attempts: workers that tried it.
        lost: every one of them died or hung.
        exit_code: of the last one, if it was lost; ``None`` where nobody knows it.
        hung: the last one was ended because it took too long.
    """

    job: J
    result: R | None
    attempts: int
    lost: bool = False
    exit_code: int | None = None
    hung: bool = False


class _Worker(Generic[J]):
    """One process and the job it has."""

    def __init__(self, context: SpawnContext, work: Any) -> None:
        self.connection: Connection
        self.connection, child = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(child, work))
        self.process.daemon = True
        with _start_conditions():
            self.process.start()
        child.close()
        self.task: tuple[int, J] | None = None
        self.ready = False
        self.started = time.monotonic()

    def give(self, task: tuple[int, J]) -> None:
        self.task, self.started = task, time.monotonic()
        # It may have died between two jobs; the pool notices and gives the job to its successor.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(task)

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


class JobPool(Generic[J, R]):
    """Runs jobs in worker processes; use it as a context manager.

    The workers import no more than ``work`` does, use one thread for linear algebra, leave Ctrl-C
    to this process and end when it does.

    Args:
        work: picklable; every worker calls it once. What it builds is kept while its context is
            open, and the function that it gives turns a job into a result, both picklable.
        workers: processes.
        attempts: workers that may die over one job before it is lost.
        timeout: wall-clock seconds after which a worker on one job is taken for hung.

    Attributes:
        restarts: workers that died.
    """

    def __init__(
        self,
        work: Callable[[], AbstractContextManager[Callable[[J], R]]],
        workers: int = 1,
        attempts: int = 3,
        timeout: float = 3600.0,
    ) -> None:
        self._work, self._count = work, workers
        self._attempts, self._timeout = attempts, timeout
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker[J]] = []
        self._queue: deque[tuple[int, J]] = deque()
        self._deaths: dict[int, int] = {}
        self._failed_starts = 0
        self.restarts = 0

    def run(self, jobs: Iterable[J]) -> Iterator[Finished[J, R]]:
        """Yield each job as it ends, in any order.

        Raises:
            UserError: ``work`` or a job raised it; the message is the same.
            RuntimeError: they raised another exception, or workers die before their first job.
        """
        self._queue, self._deaths = deque(enumerate(jobs)), {}
        pending = len(self._queue)
        for _ in range(min(self._count, pending)):
            self._workers.append(_Worker(self._context, self._work))
        while pending:
            for finished in self._wait():
                pending -= 1
                yield finished

    def results(self, jobs: Iterable[J]) -> Iterator[tuple[J, R]]:
        """Yield each job with its result, in any order.

        Raises:
            UserError: as :meth:`run`, or a job was lost.
            RuntimeError: as :meth:`run`.
        """
        for finished in self.run(jobs):
            if finished.lost:
                raise UserError(
                    f"{finished.attempts} worker processes {_end(finished, self._timeout)}; run the"
                    " same command again, it goes on where it stopped"
                )
            yield finished.job, finished.result  # type: ignore[misc]

    def _wait(self) -> list[Finished[J, R]]:
        """Wait until something happens and return the jobs that ended."""
        handles: list[Any] = [w.connection for w in self._workers]
        handles += [w.process.sentinel for w in self._workers]
        happened = set(wait(handles, timeout=1.0))
        ended: list[Finished[J, R]] = []
        for worker in list(self._workers):
            if worker.connection in happened and (message := _receive(worker.connection)):
                ended += self._heard(worker, *message)
                if self._queue and worker.task is None:
                    worker.give(self._queue.popleft())
            elif not worker.process.is_alive() or self._is_hung(worker):
                self._workers.remove(worker)
                ended += self._bury(worker)
                if self._queue:
                    self._workers.append(_Worker(self._context, self._work))
        return ended

    def _heard(self, worker: _Worker[J], kind: str, content: Any) -> list[Finished[J, R]]:
        if kind == "user error":
            raise UserError(content)
        if kind == "fault":
            raise RuntimeError(f"a worker failed:\n{content}")
        if kind == "ready":
            worker.ready, self._failed_starts = True, 0
            return []
        assert worker.task is not None
        (number, job), worker.task = worker.task, None
        return [Finished(job, content, self._deaths.get(number, 0) + 1)]

    def _bury(self, worker: _Worker[J]) -> list[Finished[J, R]]:
        """Take a dead worker's job back, or give it up after too many deaths."""
        code, hung = worker.process.exitcode, worker.process.is_alive()
        worker.stop(0.0)
        self.restarts += 1
        if worker.task is None:
            self._failed_starts += not worker.ready
            if self._failed_starts > self._attempts:
                raise RuntimeError(
                    f"workers die while they start (exit code {code}); "
                    "run with workers=1 and look at the messages above"
                )
            return []
        number, job = worker.task
        self._deaths[number] = deaths = self._deaths.get(number, 0) + 1
        if deaths < self._attempts:
            self._queue.appendleft(worker.task)
            return []
        return [Finished(job, None, deaths, lost=True, exit_code=code, hung=hung)]

    def _is_hung(self, worker: _Worker[J]) -> bool:
        limit = self._timeout if worker.ready else max(self._timeout, START_SECONDS)
        busy = worker.task is not None or not worker.ready
        return busy and time.monotonic() - worker.started > limit

    def close(self, grace: float = 5.0) -> None:
        """Stop every worker; after ``grace`` seconds by force."""
        for worker in self._workers:
            worker.stop(grace)
        self._workers = []

    def __enter__(self) -> JobPool[J, R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self.close(grace=5.0 if kind is None else 0.0)


def _end(finished: Finished[Any, Any], timeout: float) -> str:
    """Say how the last worker of a lost job ended."""
    if finished.hung:
        return f"hung over the same job for longer than timeout={timeout:g} s"
    code = "" if finished.exit_code is None else f"exit code {finished.exit_code}; "
    return f"died over the same job ({code}is there enough memory?)"


def _serve(connection: Connection, work: Any) -> None:
    """Turn jobs into results in a worker process, until there are no more or the parent is gone."""
    follow_parent()
    try:
        with work() as run:
            connection.send(("ready", None))
            while (task := _receive(connection)) is not None:
                connection.send(("result", run(task[1])))
    except UserError as error:
        last = ("user error", str(error))
    except Exception:
        last = ("fault", traceback.format_exc())
    else:
        return
    with suppress(OSError):
        connection.send(last)


def _receive(connection: Connection) -> Any:
    """Return the next message, ``None`` if the other end is gone."""
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
