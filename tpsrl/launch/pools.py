"""The pool that ``launch=`` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from tpsrl.jobs.pool import JobPool
from tpsrl.launch.config import LaunchConfig

J = TypeVar("J")
R = TypeVar("R")
_launch = ContextVar("launch", default=LaunchConfig())  # noqa: B039 - nobody changes it
Work = Callable[[], AbstractContextManager[Callable[[J], R]]]


def open_pool(
    launch: LaunchConfig,
    work: Work[J, R],
    workers: int = 1,
    attempts: int = 3,
    timeout: float = 3600.0,
) -> JobPool[J, R]:
    """Return worker processes of this machine, or tasks of a Ray cluster; results are the same.

    Args:
        launch: where.
        work: see :class:`tpsrl.jobs.pool.JobPool`.
        workers: processes; of a Ray cluster at an address, as many as it has cores for.
        attempts: workers that may die over one job before it is lost.
        timeout: wall-clock seconds after which a worker on one job is taken for hung.
    """
    if launch.engine != "ray":
        return JobPool(work, workers, attempts, timeout)
    from tpsrl.launch.ray_pool import RayPool

    return RayPool(launch, work, workers, attempts, timeout)


@contextmanager
def jobs_on(launch: LaunchConfig) -> Iterator[None]:
    """Have :func:`run_jobs` within use this engine: imitation, which calls it, is superseded."""
    token = _launch.set(launch)
    try:
        yield
    finally:
        _launch.reset(token)


def run_jobs(function: Callable[[J], R], jobs: Sequence[J], workers: int) -> Iterator[tuple[J, R]]:
    """Yield jobs of which nothing is kept from one to the next, with their results, in any order.

    Args:
        function: importable.
        jobs: picklable.
        workers: processes.

    Raises:
        UserError: see :meth:`tpsrl.jobs.pool.JobPool.results`.
    """
    with open_pool(_launch.get(), partial(_bare, function), workers) as pool:
        yield from pool.results(jobs)


@contextmanager
def _bare(function: Callable[[J], R]) -> Iterator[Callable[[J], R]]:
    yield function
