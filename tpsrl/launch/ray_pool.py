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
        workers: jobs at once of a cluster that is started here.
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
        self._launch, self._cores = launch, launch.cpus or 1
        self._stack = ExitStack()

    def __enter__(self) -> RayPool[J, R]:
        cores = self._count * self._cores
        with ExitStack() as stack:
            self._ray = stack.enter_context(connected(self._launch, cores))
            self._check_room()
            self._stack = stack.pop_all()
        return self

    def _check_room(self) -> None:
        """Refuse jobs that no node has the cores for: Ray would wait for one, without a word.

        Raises:
            UserError: it says how many cores there are.
        """
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        most = int(max((resources.get("CPU", 0) for resources in nodes), default=0))
        if most < self._cores:
            raise UserError(
                f"launch.cpus={self._cores}: no node of the Ray cluster has more than {most} cores"
                " for a job; give fewer, or add a node"
            )

    def close(self, grace: float = 5.0) -> None:
        """Leave the cluster; tasks of ours that still run there end."""
        del grace
        self._stack.close()

    def run(self, jobs: Iterable[J]) -> Iterator[Finished[J, R]]:
        """Yield each job as it ends, in any order; see :meth:`JobPool.run`."""
        ray, name, cores = self._ray, uuid4().hex, self._cores
        # In a list: Ray would fetch a bare reference for every task, not once for a worker.
        work = [ray.put(self._work)]
        task = ray.remote(num_cpus=cores, max_retries=0)(_do)
        waiting: deque[tuple[J, int]] = deque((job, 1) for job in jobs)
        running: dict[Any, tuple[J, int]] = {}
        lost: list[Finished[J, R]] = []  # until one ends, that may be for a reason of all
        one_ended = False
        while waiting or running:
            room = max(int(ray.cluster_resources().get("CPU", 0)) // cores, 1)
            while waiting and len(running) < room:
                job, attempt = waiting.popleft()
                running[task.remote(name, work, job, self._timeout, os.getcwd())] = job, attempt
            for ended in ray.wait(list(running), timeout=1.0)[0]:
                job, attempt = running.pop(ended)
                try:
                    kind, content = ray.get(ended)
                except ray.exceptions.RayError as error:
                    _raise_if_lasting(ray, error)
                    self.restarts += 1
                    if attempt < self._attempts:
                        waiting.appendleft((job, attempt + 1))
                    else:
                        lost.append(Finished(job, None, attempt, lost=True))
                    if len(lost) > 1 and not one_ended:
                        raise RuntimeError(_at_start(error)) from None
                else:
                    one_ended = True
                    yield Finished(job, _content(kind, content), attempt)
                if one_ended:
                    yield from lost
                    lost.clear()
        yield from lost


def _raise_if_lasting(ray: Any, error: Exception) -> None:
    """Raise what would meet the next worker as well, and is no death of this one.

    Raises:
        RuntimeError: a node lacks a module, a job cannot be unpickled or placed.
    """
    lasting = ("RayTaskError", "RuntimeEnvSetupError", "TaskUnschedulableError")
    if isinstance(error, tuple(getattr(ray.exceptions, name) for name in lasting)):
        raise RuntimeError(f"a worker failed:\n{error}") from None


def _at_start(error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return (
        f"workers die while they start or over their first jobs, and none has ended ({reason});"
        " run with launch=local workers=1 and look at the messages"
    )


def _content(kind: str, content: Any) -> Any:
    """Return the result that a task has sent.

    Raises:
        UserError: it has sent one.
        RuntimeError: it has sent another exception.
    """
    if kind == "user error":
        raise UserError(content)
    if kind == "fault":
        raise RuntimeError(f"a worker failed:\n{content}")
    return content


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
