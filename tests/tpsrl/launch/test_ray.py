"""Jobs as Ray tasks: a cluster of two nodes, one of which is killed, and work that misbehaves."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from eval.runner import evaluate
from tests.eval.counting_world import episode, spec
from tests.eval.test_runner import alive, wait_until
from tests.tpsrl.jobs.test_pool import counting
from tpsrl.cli import main
from tpsrl.errors import UserError
from tpsrl.launch.config import LaunchConfig
from tpsrl.launch.pools import open_pool

pytest.importorskip("ray")


@contextlib.contextmanager
def head_node(seconds: int):
    """A cluster of one node, that gives up a client's server if it takes longer to start."""
    from ray.cluster_utils import Cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = {"num_cpus": 1, "ray_client_server_port": port}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", str(seconds))
        cluster = Cluster(initialize_head=True, head_node_args=words)
    cluster.client = f"ray://127.0.0.1:{port}"
    try:
        wait_until(lambda: listens(port), 60.0)
        yield cluster
    finally:
        cluster.shutdown()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture(scope="module")
def cluster():
    with head_node(seconds=200) as cluster:  # beside other tests the usual 30 s are too few
        yield cluster


def records(out: Path) -> list[dict]:
    rows = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: row["index"])


def without(rows: list[dict], *names: str) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


def test_an_evaluation_survives_a_node(cluster, tmp_path: Path) -> None:
    """The same records as from the local pool, each once, though a node dies with its episode."""
    second = cluster.add_node(num_cpus=1)
    gate, pids = tmp_path / "gate", [tmp_path / f"pid{k}" for k in range(6)]
    episodes = [
        episode(k, goal_step=3 + 3 * k, pid_file=str(pid), wait_for=str(gate))
        for k, pid in enumerate(pids)
    ]

    def running() -> list[int]:
        """Processes that have begun an episode and said so in full."""
        texts = [pid.read_text() for pid in pids if pid.exists()]
        return [int(text) for text in texts if text]

    def kill_a_node() -> None:
        try:
            wait_until(lambda: len(running()) == 2, 150.0)
            begun = running()
            cluster.remove_node(second, allow_graceful=False)
            wait_until(lambda: not all(alive(pid) for pid in begun), 60.0)
        finally:
            gate.touch()

    killer = threading.Thread(target=kill_a_node)
    killer.start()
    launch = LaunchConfig(engine="ray", address=cluster.address)
    summary = evaluate(spec(), episodes, tmp_path / "ray", launch=launch)
    killer.join()
    assert summary["complete"] and summary["session"]["worker_restarts"] == 1
    evaluate(spec(), episodes, tmp_path / "local", workers=1)
    ray, local = records(tmp_path / "ray"), records(tmp_path / "local")
    assert without(ray, "seconds", "attempts") == without(local, "seconds", "attempts")
    assert sorted(row["attempts"] for row in ray) == [1, 1, 1, 1, 1, 2]


def test_tasks_that_misbehave_end_as_workers_do(cluster, tmp_path: Path) -> None:
    launch = LaunchConfig(engine="ray", address=cluster.address)
    work = partial(counting, tmp_path / "log")
    with open_pool(launch, work, attempts=2, timeout=2.0) as pool:
        done = {d.job: d for d in pool.run([1, 2, "die", "hang", 3])}
        assert pool.restarts == 4
    assert [done[k].result[0] for k in (1, 2, 3)] == [1, 2, 3]
    assert done["die"].lost and done["hang"].lost and done["die"].attempts == 2
    with open_pool(launch, work) as pool:
        with pytest.raises(UserError, match="the number is bad; give another"):
            list(pool.run([1, "bad"]))
        with pytest.raises(RuntimeError, match="EOFError: planned"):
            list(pool.run(["end of file"]))


def test_a_scheduler_ends_a_hopeless_training(cluster, tmp_path: Path) -> None:
    """ASHA keeps the training that learns, and stops the one whose rate is next to nothing."""
    words = [
        *("sweep", "env=CartPole-v1", "collector=inline", "log.tensorboard=false"),
        *("collect.num_envs=8", "collect.steps=64", "ppo.epochs=6", "total_steps=30000"),
        *("over.optim.lr=[3e-3,1e-12]", "scheduler=asha", "launch=ray"),
        *(f"launch.address={cluster.address}", f"out={tmp_path}"),
    ]
    assert main(words) == 0
    good, bad = records(tmp_path)
    assert good["finished"] and good["score"] > bad["score"]
    assert not bad["finished"] and bad["steps"] < 30_000


def test_demonstrations_are_recorded_as_tasks(cluster, tmp_path: Path) -> None:
    """A data set of a cluster has the bytes of one that was made here."""
    words = [
        *("dataset", "export", "scenario=rearrange_easy", "split=val", "episodes=2"),
        *("max_steps=6", "failures=true", "pixels=36", "depth=36", "workers=1"),
    ]
    ray = ("launch=ray", f"launch.address={cluster.address}")
    for name, more in (("here", ()), ("there", ray)):
        assert main([*words, f"out={tmp_path / name}", *more]) == 0
    here, there = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.*")
         if p.is_file() and p.name != "info.json"}
        for name in ("here", "there")
    )  # fmt: skip
    assert len(here) > 5 and here == there


def test_an_address_where_nobody_answers_is_refused() -> None:
    launch = LaunchConfig(engine="ray", address="127.0.0.1:1")
    with pytest.raises(UserError, match=r"launch.address=127.0.0.1:1: no Ray cluster answers"):
        open_pool(launch, counting).__enter__()


class Foreign:
    """A job of a module that only this process has."""

    def __init__(self, home: int) -> None:
        self.home = home

    def __reduce__(self):
        return read, (self.home,)


def read(home: int) -> Foreign:
    if os.getpid() != home:
        raise ModuleNotFoundError("No module named 'mine'")
    return Foreign(home)


@contextlib.contextmanager
def dying():
    os._exit(3)
    yield


def test_what_meets_every_worker_ends_the_command(cluster, tmp_path: Path) -> None:
    launch = LaunchConfig(engine="ray", address=cluster.address)
    work = partial(counting, tmp_path / "log")
    with open_pool(launch, work) as pool:
        with pytest.raises(RuntimeError, match="No module named 'mine'"):
            list(pool.run([Foreign(os.getpid())]))
        assert pool.restarts == 0
    with (
        open_pool(launch, dying, attempts=1) as pool,
        pytest.raises(RuntimeError, match=r"workers die while they start .*The worker died unexp"),
    ):
        list(pool.run([1, 2, 3]))
    with open_pool(launch, work, attempts=1) as pool:  # one job may kill whom it meets
        done = list(pool.run(["die", 1, 2]))
    assert [d.job for d in done] == [1, "die", 2] and done[1].lost


def test_jobs_have_the_cores_they_ask_for(cluster, tmp_path: Path) -> None:
    launch = LaunchConfig(engine="ray", address=cluster.address, cpus=99)
    with pytest.raises(UserError, match=r"launch.cpus=99: no node .* has more than 1 cores"):
        open_pool(launch, counting).__enter__()


@pytest.mark.timeout(100)
def test_a_cluster_of_ones_own_has_room_for_the_cores(tmp_path: Path) -> None:
    launch = LaunchConfig(engine="ray", cpus=2)
    with open_pool(launch, partial(counting, tmp_path / "log"), workers=1) as pool:
        assert [d.job for d in pool.run([1])] == [1]


def test_a_client_of_a_cluster_is_one_of_it(cluster, tmp_path: Path) -> None:
    launch = LaunchConfig(engine="ray", address=cluster.client)
    with open_pool(launch, partial(counting, tmp_path / "log")) as pool:
        assert sorted(d.job for d in pool.run([1, 2])) == [1, 2]


REFUSED = """
import os, sys
from tpsrl.errors import UserError
from tpsrl.launch.cluster import connected
from tpsrl.launch.config import LaunchConfig

for address in (sys.argv[1], None):
    try:
        connected(LaunchConfig(engine="ray", address=address), 1).__enter__()
    except UserError as error:
        print(error)
    os.environ |= {"RAY_TMPDIR": "/dev/null/no", "RAY_AUTH_MODE": "disabled"}
"""


def test_a_cluster_that_wants_a_token_or_cannot_start_is_one_sentence(
    cluster, tmp_path: Path
) -> None:
    own = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    words = [sys.executable, "-c", REFUSED, cluster.address]
    result = subprocess.run(words, env={**os.environ, **own}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith(f"launch.address={cluster.address}: no Ray cluster answers (")
    assert "token" in first
    assert second.startswith("a Ray cluster cannot start here (") and "Not a directory" in second


def test_a_server_that_does_not_start_for_a_client_says_why() -> None:
    """Ray hands on a traceback under a heading; what is wrong stands in its last line."""
    with head_node(seconds=0) as cluster:
        launch = LaunchConfig(engine="ray", address=cluster.client)
        # How it ended, or that it did: which of the two depends on who notices first.
        reasons = r"no Ray cluster answers \((.*ray_client_server|psutil\.ZombieProcess)"
        with pytest.raises(UserError, match=reasons):
            open_pool(launch, counting).__enter__()
