"""Jobs in worker processes, with progress: how many, how fast, until when."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tpsrl.jobs.processes import follow_parent

J = TypeVar("J")
R = TypeVar("R")
_PLAIN_SECONDS = 15.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Tally:
    """A progress bar on a terminal, a line now and then where there is none.

    Args:
        label: what is done.
        total: units of work.
        done: units that were done before.
        unit: what a unit is called, e.g. ``"episodes"``.
    """

    def __init__(self, label: str, total: int, done: int = 0, unit: str = "episodes") -> None:
        self._label, self._total, self._first, self._unit = label, total, done, unit
        self.done, self._start = done, time.monotonic()
        self._last_line = self._start
        console = Console(file=sys.stderr)
        self._plain = not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[status]}"),
            console=console,
            disable=self._plain,
        )
        self._task = self._bar.add_task(label, total=total, completed=done, status="")

    def __enter__(self) -> Tally:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def add(self, count: int, text: str = "") -> None:
        """Count finished units; ``text`` is what is being measured."""
        self.done += count
        seconds = max(time.monotonic() - self._start, 1e-9)
        rate = (self.done - self._first) / seconds
        left = (self._total - self.done) / max(rate, 1e-9)
        clock = time.strftime("%H:%M:%S", time.gmtime(max(left, 0)))
        status = f"{rate:.2f} {self._unit}/s, {clock} left{', ' if text else ''}{text}"
        self._bar.update(self._task, completed=self.done, status=status)
        now = time.monotonic()
        late = now - self._last_line > _PLAIN_SECONDS or self.done >= self._total
        if self._plain and late:
            self._last_line = now
            print(f"{self._label}: {self.done}/{self._total} {status}", file=sys.stderr, flush=True)


def run_jobs(function: Callable[[J], R], jobs: Sequence[J], workers: int) -> Iterator[tuple[J, R]]:
    """Run jobs in processes of their own, which import no torch unless ``function`` does.

    Args:
        function: importable.
        jobs: picklable.
        workers: processes.

    Yields:
        Each job with its result, as they finish.
    """
    with _executor(min(workers, len(jobs))) as executor:
        waiting: dict[Future[R], J] = {}
        rest = iter(jobs)
        for job in rest:
            waiting[executor.submit(function, job)] = job
            if len(waiting) > workers:
                break
        while waiting:
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                job = waiting.pop(future)
                following = next(rest, None)
                if following is not None:
                    waiting[executor.submit(function, following)] = following
                yield job, future.result()


@contextmanager
def _executor(workers: int) -> Iterator[ProcessPoolExecutor]:
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    executor = ProcessPoolExecutor(
        max(workers, 1), multiprocessing.get_context("spawn"), initializer=follow_parent
    )
    try:
        yield executor
        executor.shutdown()
    except BaseException:
        children = list(getattr(executor, "_processes", None) or {})
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.pid in children:
                child.terminate()
        raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
