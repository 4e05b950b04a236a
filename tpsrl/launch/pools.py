"""The pool that ``launch=`` asks for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from tpsrl.jobs.pool import JobPool
from tpsrl.launch.config import LaunchConfig

J = TypeVar("J")
R = TypeVar("R")
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
