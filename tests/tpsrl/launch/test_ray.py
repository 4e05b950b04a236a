"""Jobs as Ray tasks: a cluster of two nodes, one of which is killed, and work that misbehaves."""

from __future__ import annotations

import json
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


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield cluster
    cluster.shutdown()


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
