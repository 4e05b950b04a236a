"""A Ray cluster of two nodes on this machine that loses one, and SLURM where it runs.

``python -m benchmarks.cluster [json=FILE only=eval,skill,episodes,train,sweep,stray,slurm]``

``eval``, ``skill``, ``episodes``, ``sweep``: the same work by the local pool and by the cluster,
one node of which is killed in the middle; every record must be there once, with the same result to
the bit. ``train``: two ranks, one on each node, one node killed; the run must go on with the rank
that is left and count every step once. ``stray``: a command that started a cluster of its own is
interrupted and killed; no process and no shared memory of it may be left, and Ctrl-C ends with code
130. ``slurm``: two ranks through submitit on a real SLURM, its signal in the middle; the run must
come back and end.
Needs ``pip install 'tpsrl[ray,slurm]'``.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.names import chosen, run_main
from tpsrl.files import lines_of, write_json
from tpsrl.launch.guard import members
from ver_trainer.options import option, parse_or_help

PARTS = ("eval", "skill", "episodes", "train", "sweep", "stray", "slurm")
_FREE = ("seconds", "attempts", "times")
"""Keys of a record that are measured times, or tell what it took."""
CARTPOLE = (
    *("env=CartPole-v1", "collector=inline", "log.tensorboard=false"),
    *("collect.num_envs=4", "collect.steps=64"),
)
ROWS = 4 * 64
"""Most steps of an update that a rank of these trainings brings."""


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write")
    only: str = option(",".join(PARTS), "which parts")
    episodes: int = option(24, "of eval; skill has twice as many, episodes a third", min=6)


def tpsrl(*words: str, wait: bool = True, **options: Any) -> subprocess.Popen[str]:
    """Start the command line; with ``wait`` return when it has ended well.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "tpsrl", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(command, env=environment, text=True, **options)
    if wait and process.wait(timeout=900) != 0:
        raise RuntimeError(f"{' '.join(words)} ended with code {process.returncode}")
    return process


@dataclass
class Victim:
    """A node of a cluster.

    Attributes:
        raylet: the process that its workers are children of.
    """

    raylet: psutil.Process

    def busy(self) -> bool:
        """Return whether one of its workers is at a task or training."""
        with contextlib.suppress(psutil.Error):
            titles = [" ".join(p.cmdline()) for p in self.raylet.children(recursive=True)]
            return any("ray::" in t and "IDLE" not in t and "Agent" not in t for t in titles)
        return False

    def kill(self) -> None:
        """End all of it at once, as when a machine loses its power."""
        # Ray's own way of removing a node lets a worker end what it has begun.
        for process in [*self.raylet.children(recursive=True), self.raylet]:
            with contextlib.suppress(psutil.Error):
                process.kill()


@contextlib.contextmanager
def two_nodes() -> Iterator[tuple[str, Victim]]:
    """Yield the address of a cluster with one core on each of two nodes, and the second node."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    raylet = psutil.Process(second.all_processes["raylet"][0].process.pid)
    try:
        yield cluster.address, Victim(raylet)
    finally:
        cluster.shutdown()


def until(done: Callable[[], bool], seconds: float, process: subprocess.Popen[str]) -> None:
    """Wait for something that a process does.

    Raises:
        RuntimeError: it ended or took too long before.
    """
    end = time.monotonic() + seconds
    while not done():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise RuntimeError(f"{process.args!r} did not get there (code {process.poll()})")
        time.sleep(0.1)


def disturbed(words: Sequence[str], out: Path, half: int, lines: Path | None = None) -> None:
    """Run a command on two nodes and kill one when half of its records are there."""
    records = lines or out / "episodes.jsonl"
    with two_nodes() as (address, victim):
        ray = ("launch=ray", f"launch.address={address}")
        process = tpsrl(*words, f"out={out}", *ray, wait=False)
        until(lambda: len(lines_of(records)) >= half and victim.busy(), 600, process)
        victim.kill()
        if process.wait(timeout=900) != 0:
            raise RuntimeError(f"{' '.join(words)} did not survive the loss of a node")


def results(folder: Path) -> dict[int, Any]:
    """Return what the records of a folder say, without times.

    Raises:
        RuntimeError: a record is there twice.
    """
    found: dict[int, Any] = {}
    for line in lines_of(folder / "episodes.jsonl"):
        record = json.loads(line)
        if record["index"] in found:
            raise RuntimeError(f"record {record['index']} of {folder} is there twice")
        found[record["index"]] = {k: v for k, v in record.items() if k not in _FREE}
    return found


def same_records(words: Sequence[str], folder: Path, count: int) -> dict[str, Any]:
    """Compare the local pool with a cluster that loses a node."""
    tpsrl(*words, f"out={folder / 'local'}", "workers=2")
    disturbed(words, folder / "ray", count // 2)
    local, ray = results(folder / "local"), results(folder / "ray")
    again = [json.loads(x)["attempts"] for x in lines_of(folder / "ray" / "episodes.jsonl")
             if "attempts" in x]  # fmt: skip
    return {
        "records": len(ray),
        "missing": sorted(set(local) - set(ray)),
        "different": [index for index in local if local[index] != ray.get(index)],
        "given to a second worker": sum(attempts > 1 for attempts in again),
    }


def part_eval(folder: Path, config: Config) -> dict[str, Any]:
    """The chain over episodes."""
    words = ("eval", "scenario=rearrange_easy", f"episodes={config.episodes}")
    return same_records(words, folder, config.episodes)


def part_skill(folder: Path, config: Config) -> dict[str, Any]:
    """A learned skill in its environment."""
    words = ("eval", "skill=open_cab", f"episodes={2 * config.episodes}")
    return same_records(words, folder, 2 * config.episodes)


def part_episodes(folder: Path, config: Config) -> dict[str, Any]:
    """A set of generated episodes: one file, compared by its digest."""
    words = ("episodes", "scenario=rearrange_easy", f"n={config.episodes // 3}", "seed=3")
    local, ray = (folder / f"{name}.json" for name in ("local", "ray"))
    tpsrl(*words, f"out={local}", "workers=2")
    waiting = ray.with_name("ray.json.partial") / "episodes.jsonl"
    disturbed(words, ray, config.episodes // 6, waiting)
    one, other = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (local, ray))
    return {"records": config.episodes // 3, "same file": one == other}


def part_sweep(folder: Path, config: Config) -> dict[str, Any]:
    """Four trainings, compared by the digests of their weights."""
    del config
    words = (
        "sweep",
        *CARTPOLE,
        "total_steps=40000",
        "over.seed=[1,2]",
        "over.optim.lr=[1e-4,1e-3]",
    )
    return same_records((*words, "log.checkpoint_interval=5"), folder, 4)


def part_train(folder: Path, config: Config) -> dict[str, Any]:
    """Two ranks, of which one is left."""
    del config
    total, run = 60_000, folder / "run"
    words = ("train", *CARTPOLE, f"total_steps={total}", "launch.ranks=2", "log.progress=false")
    disturbed((*words, "log.checkpoint_interval=10"), run, 40, run / "metrics.jsonl")
    records = [json.loads(line) for line in lines_of(run / "metrics.jsonl")]
    newest = sorted(p for p in (run / "checkpoints").glob("update_*") if not p.suffix)
    ranks = [json.loads((path / "meta.json").read_text())["ranks"] for path in newest]
    updates = [record["update"] for record in records]
    steps = [record["step"] for record in records]
    each = sorted({b - a for a, b in itertools.pairwise(steps)})
    return {
        "steps": steps[-1],
        "finished": steps[-1] >= total,
        "ranks of the last checkpoints": ranks,
        "goes on with one rank": ranks[-1:] == [1],
        "updates counted once": updates == list(range(1, len(updates) + 1)),
        "steps of an update": each,
        "steps counted once": bool(each) and each[0] > 0 and each[-1] <= 2 * ROWS,
    }


def left_over(mark: str, shared: set[str]) -> list[str]:
    """Return processes of a command, known by a mark in their environment or by Ray's logs.

    New shared memory too; semaphores of other programs come and go and are not looked at.
    """
    names = set(os.listdir("/dev/shm")) - shared
    found = [f"/dev/shm/{name}" for name in names if not name.startswith("sem.")]
    sessions = Path("/tmp/ray/session_latest").resolve()
    for process in [*members(str(sessions)), *psutil.process_iter()]:
        with contextlib.suppress(psutil.Error):
            named = mark in process.environ() or process.name().startswith("ray")
            if process.status() != psutil.STATUS_ZOMBIE and named:
                found.append(" ".join(process.cmdline())[:100])
    return found


def part_stray(folder: Path, config: Config) -> dict[str, Any]:
    """Ctrl-C and SIGKILL in the middle of commands with a cluster of their own."""
    del config
    commands = {
        "eval": ("eval", "skill=open_cab", "episodes=500", "launch=ray", "workers=2"),
        "train": ("train", *CARTPOLE, "total_steps=10000000", "launch=ray", "launch.ranks=2"),
        "sweep": (
            *("sweep", *CARTPOLE, "total_steps=10000000", "over.seed=[1,2]", "launch=ray"),
            "workers=2",
        ),
    }
    begun = {"eval": "episodes.jsonl", "train": "metrics.jsonl", "sweep": "000/metrics.jsonl"}
    found: dict[str, Any] = {}
    for name, words in commands.items():
        for number in (signal.SIGINT, signal.SIGKILL):
            mark, shared = f"MARK_{name}_{number.name}", set(os.listdir("/dev/shm"))
            out = folder / f"{name}{number}"
            os.environ[mark] = "1"
            process = tpsrl(*words, f"out={out}", wait=False, start_new_session=True)
            del os.environ[mark]
            try:
                code = ended_by(number, process, out / begun[name])
                end = time.monotonic() + 30
                while left_over(mark, shared) and time.monotonic() < end:
                    time.sleep(0.5)
                left = left_over(mark, shared)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            expected = 130 if number == signal.SIGINT else -signal.SIGKILL
            told = {"code": code, "code as it must be": code == expected, "left": left}
            found[f"{name}, {number.name}"] = told
    return found


def ended_by(number: int, process: subprocess.Popen[str], records: Path) -> int:
    """Send a signal to a command that has written its first record; return its exit code."""
    until(lambda: bool(lines_of(records)), 300, process)
    process.send_signal(number)
    return process.wait(timeout=120)


def part_slurm(folder: Path, config: Config) -> dict[str, Any]:
    """Two ranks on a real SLURM that get its signal once."""
    del config
    if shutil.which("srun") is None:
        return {"not run": "there is no srun on this machine"}
    run, total = folder / "run", 200_000
    words = ("train", *CARTPOLE, f"total_steps={total}", f"out={run}", "log.progress=false")
    launch = ("launch=slurm", "launch.ranks=2", f"launch.folder={folder / 'jobs'}")
    process = tpsrl(*words, *launch, stdout=subprocess.PIPE)
    assert process.stdout is not None
    job = process.stdout.read().split("as job ")[1].split(";")[0]
    waiting = subprocess.Popen(["sleep", "900"], text=True)
    try:
        until(lambda: len(lines_of(run / "metrics.jsonl")) > 5, 120, waiting)
        subprocess.run(["scancel", "--signal=USR2", job], check=True)
        until(lambda: bool(list((run / "checkpoints").glob("update_*"))), 60, waiting)
        seen = len(lines_of(run / "metrics.jsonl"))
        begin_again = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
        until(lambda: subprocess.run(begin_again, capture_output=True).returncode == 0, 60, waiting)
        results = folder / "jobs"
        until(lambda: bool(list(results.glob("*_0_result.pkl"))), 600, waiting)
    finally:
        waiting.kill()
    updates = [json.loads(line)["update"] for line in lines_of(run / "metrics.jsonl")]
    last = json.loads(lines_of(run / "metrics.jsonl")[-1])
    return {
        **{"finished": last["step"] >= total, "updates at the signal": seen},
        **{"updates": updates[-1], "updates counted once": len(set(updates)) == len(updates)},
    }


def wrong(found: dict[str, Any]) -> list[str]:
    """Return what is not as it must be in the report of a part."""
    bad = [key for key in ("missing", "different") if found.get(key)]
    bad += [key for key, value in found.items() if value is False]
    rows = {key: row for key, row in found.items() if isinstance(row, dict)}
    return bad + [key for key, row in rows.items() if row.get("left") or wrong(row)]


def main(words: Sequence[str]) -> None:
    """Run the parts and print what each of them found; exit with 1 if anything is wrong."""
    config = parse_or_help(Config, words, __doc__)
    report = {}
    for name in chosen(config.only, PARTS, "only"):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            report[name] = globals()[f"part_{name}"](Path(folder), config)
        print(f"{name} ({time.monotonic() - begin:.0f} s): {json.dumps(report[name])}", flush=True)
        if config.json is not None:
            write_json(config.json, report)
    bad = {name: wrong(found) for name, found in report.items() if wrong(found)}
    if bad:
        sys.exit(f"not as it must be: {json.dumps(bad)}")


if __name__ == "__main__":
    sys.exit(run_main(main))
