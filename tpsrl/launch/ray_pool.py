"""Jobs as tasks of a Ray cluster, with what :class:`tpsrl.jobs.pool.JobPool` promises of them."""

from __future__ import annotations

import faulthandler
import os
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

from tpsrl.errors import UserError
from tpsrl.jobs.pool import START_SECONDS, Finished, JobPool
from tpsrl.launch.cluster import connected
from tpsrl.launch.config import LaunchConfig

J = TypeVar("J")
R = TypeVar("R")


class RayPool(JobPool[J, R], Generic[J, R]):
    """Runs jobs as Ray tasks; use it as a context manager.

    A cluster runs as many at once as it has cores for, also when nodes come and go. A task whose
    process or node dies is given to another one. Only this process counts results, so none is
    counted twice.

    Args:
        launch: which cluster, and the cores of a job.
        work: see :class:`tpsrl.jobs.pool.JobPool`; a Ray worker builds it at its first job.
        workers: cores of a cluster that is started here.
        attempts: workers that may die over one job before it is lost.
        timeout: wall-clock seconds after which a worker on one job is taken for hung.
    """

    def __init__(
        self,
        launch: LaunchConfig,
        work: Callable[[], AbstractContextManager[Callable[[J], R]]],
        workers: int = 1,
        attempts: int = 3,
        timeout: float = 3600.0,
    ) -> None:
        super().__init__(work, workers, attempts, timeout)
        self._launch = launch
        self._stack = ExitStack()

    def __enter__(self) -> RayPool[J, R]:
        self._ray = self._stack.enter_context(connected(self._launch, self._count))
        return self

    def close(self, grace: float = 5.0) -> None:
        """Leave the cluster; tasks of ours that still run there end."""
        del grace
        self._stack.close()

    def run(self, jobs: Iterable[J]) -> Iterator[Finished[J, R]]:
        """Yield each job as it ends, in any order; see :meth:`JobPool.run`."""
        ray, name = self._ray, uuid4().hex
        cores = self._launch.cpus or 1
        # In a list: Ray would fetch a bare reference for every task, not once for a worker.
        work = [ray.put(self._work)]
        task = ray.remote(num_cpus=cores, max_retries=0)(_do)
        waiting: deque[tuple[J, int]] = deque((job, 1) for job in jobs)
        running: dict[Any, tuple[J, int]] = {}
        while waiting or running:
            room = max(int(ray.cluster_resources().get("CPU", 0)) // cores, 1)
            while waiting and len(running) < room:
                job, attempt = waiting.popleft()
                running[task.remote(name, work, job, self._timeout, os.getcwd())] = job, attempt
            for ended in ray.wait(list(running), timeout=1.0)[0]:
                job, attempt = running.pop(ended)
                try:
                    kind, content = ray.get(ended)
                except ray.exceptions.RayError:
                    self.restarts += 1
                    if attempt < self._attempts:
                        waiting.appendleft((job, attempt + 1))
                    else:
                        yield Finished(job, None, attempt, lost=True)
                    continue
                if kind == "user error":
                    raise UserError(content)
                if kind == "fault":
                    raise RuntimeError(f"a worker failed:\n{content}")
                yield Finished(job, content, attempt)


class _Kept:
    """What this Ray worker has built, for one pool at a time."""

    name = ""
    stack = ExitStack()
    run: Callable[[Any], Any]


def _do(name: str, work: list[Any], job: Any, timeout: float, folder: str) -> tuple[str, Any]:
    """Turn a job into a result in a Ray worker.

    Returns:
        ``("result", it)``, or ``("user error", message)``, ``("fault", traceback)``.
    """
    # What hangs is ended from within: only here is it known when the job really began.
    end_after = partial(faulthandler.dump_traceback_later, exit=True, file=2)
    try:
        if _Kept.name != name:
            end_after(max(timeout, START_SECONDS))
            _Kept.stack.close()
            _Kept.name = ""
            with suppress(OSError):  # relative paths of jobs are the driver's, where they can be
                os.chdir(folder)
            import ray

            _Kept.run = _Kept.stack.enter_context(ray.get(work[0])())
            _Kept.name = name
        end_after(timeout)
        return "result", _Kept.run(job)
    except UserError as error:
        return "user error", str(error)
    except Exception:
        return "fault", traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
