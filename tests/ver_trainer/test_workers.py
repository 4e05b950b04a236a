"""Environment processes: isolation, replacement, and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.ver_trainer.envs import make
from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import TrainerError, WorkerFailure

ROOT = Path(__file__).parents[2]


def make_pool(kind: str = "Ragged", **options) -> WorkerPool:
    kwargs = options.pop("kwargs", {})
    factory = EnvFactory(make, {"kind": kind, **kwargs})
    spec = probe(EnvFactory(make, {"kind": kind}))
    return WorkerPool(factory, spec, PoolOptions(**{"num_envs": 4, **options}))


def wait_all(pool: WorkerPool) -> None:
    got: set[int] = set()
    while len(got) < pool.num_envs:
        got |= set(pool.receive(None))


def loads_torch(pid: int) -> bool:
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("envs_per_worker", [1, 3])
def test_workers_do_what_inline_does(envs_per_worker: int) -> None:
    workers = make_pool(envs_per_worker=envs_per_worker, seed=5)
    factory = EnvFactory(make, {"kind": "Ragged"})
    inline = InlinePool(factory, probe(factory), PoolOptions(4, seed=5))
    try:
        wait_all(workers)
        inline.receive(None)
        rows = np.arange(4)
        for step in range(40):
            for pool in (workers, inline):
                pool.buffers["action"][:] = (rows + step) % 3
                pool.send(rows)
            wait_all(workers)
            inline.receive(None)
            for name, array in inline.buffers.items():
                np.testing.assert_array_equal(array, workers.buffers[name], err_msg=name)
    finally:
        workers.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def shared_files(pids: list[int]) -> set[str]:
    """Files of /dev/shm that the trainer's processes have mapped (semaphores aside)."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    paths = {line.split(maxsplit=5)[5] for line in lines if " /dev/shm/" in line}
    return {path for path in paths if not Path(path).name.startswith("sem.")}


def test_workers_do_not_load_torch_and_have_no_shared_memory_file() -> None:
    import torch  # noqa: F401 - the parent has it, the workers must not

    others = shared_files([os.getpid()])  # of tests before this one
    pool = make_pool()
    try:
        wait_all(pool)
        assert loads_torch(os.getpid())
        assert not any(loads_torch(pid) for pid in pool.pids)
        assert shared_files([os.getpid(), *pool.pids]) <= others
    finally:
        pool.close()


def test_close_ends_all_processes_and_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    pool = make_pool()
    wait_all(pool)
    processes = [psutil.Process(pid) for pid in [*pool.pids, pool._nursery.pid]]
    pool.close()
    pool.close()
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert not alive
    del pool
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize(
    ("fault", "kind"), [("raise", "raised"), ("die", "died"), ("hang", "hung")]
)
def test_faulty_worker_is_replaced(fault: str, kind: str, tmp_path: Path) -> None:
    kwargs = {"fault": fault, "marker": str(tmp_path / "m"), "at": 15}
    pool = make_pool("Faulty", kwargs=kwargs, step_timeout=0.7)
    try:
        wait_all(pool)
        pool.send(np.arange(4))
        faults, counts = [], np.zeros(4, int)
        end = time.monotonic() + 30
        while counts.min() < 40 and time.monotonic() < end:
            rows = pool.receive(1.0)
            faults += pool.take_faults()
            counts[rows] += 1
            if rows:
                pool.send(np.array(rows))
        assert counts.min() >= 40
        assert [f.kind for f in faults] == [kind] and pool.fault_count == 1
        assert len(faults[0].rows) == 1
        if fault == "raise":
            assert "RuntimeError: the robot fell over" in faults[0].detail
    finally:
        pool.close()


def test_too_many_faults_stop_with_the_traceback() -> None:
    pool = make_pool("Faulty", kwargs={"fault": "raise", "at": 1}, max_faults=3)
    try:
        with pytest.raises(WorkerFailure, match=r"(?s)max_faults=3.*the robot fell over"):
            for _ in range(200):
                rows = pool.receive(1.0)
                pool.send(np.array(rows, int))
    finally:
        pool.close()


def test_environment_that_cannot_be_made_stops_with_the_reason() -> None:
    with pytest.raises(TrainerError, match=r"Nowhere-v0.*registered id"):
        probe(EnvFactory("Nowhere-v0"))
    with pytest.raises(TrainerError, match=r"no_such_package.*registered id"):
        probe(EnvFactory("no_such_package:Env-v0"))


VICTIM = """
import sys, numpy as np
sys.path.insert(0, {root!r})
from tests.ver_trainer.envs import make
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory, probe
factory = EnvFactory(make, {{"kind": "Slow"}})
pool = WorkerPool(factory, probe(factory), PoolOptions(3))
print(pool._nursery.pid, *pool.pids, flush=True)
while True:
    rows = pool.receive(None)
    pool.send(np.array(rows, int))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals")
def test_sigkill_of_the_trainer_leaves_nothing_behind() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", VICTIM.format(root=str(ROOT))], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    pids = [int(word) for word in child.stdout.readline().split()]
    processes = [psutil.Process(pid) for pid in pids]
    assert len(pids) == 4
    time.sleep(0.3)
    files = shared_files([child.pid, *pids])
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert not alive
    assert not [name for name in files if os.path.exists(name)]


def test_close_frees_everything_where_the_only_worker_gave_up() -> None:
    before = len(os.listdir("/proc/self/fd"))
    kwargs = {"fault": "raise", "at": 1}
    pool = make_pool("Faulty", kwargs=kwargs, num_envs=1, max_faults=0)
    with pytest.raises(WorkerFailure):
        for _ in range(20):
            pool.send(np.array(pool.receive(1.0), int))
    pool.close()
    pool.close()
    del pool
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
