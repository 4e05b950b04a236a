"""Speed of the simulator: ``python -m benchmarks.simulator json=FILE``.

Every rate is environment steps a second (one step = one 30 Hz action, four physics steps) in an
apartment with 30 objects, the robot moving at random. The depth rows read state and picture after
every step, the physics rows step alone. One process a core; processes start together and are timed
over the same span. Beside ours runs a public MuJoCo arm (Gymnasium's Pusher-v5: seven joints, one
cylinder, five physics steps an action), with a colour picture of the same size, so that a reader
can tell a slow machine from a slow simulator.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.names import run_main
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.files import write_json
from tpsrl.sim.mujoco.engine import MujocoSimulator
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the benchmark."""

    json: str = option("", "write the numbers to this file")
    seconds: float = option(8.0, "measured time of each row", above=0)
    workers: int = option(0, "processes of the all-cores rows; 0 = cores", min=0)


def _ours(depth: int | None) -> tuple[Callable[[], None], Callable[[], float]]:
    path = Path(__file__).parents[1] / "tpsrl" / "episodes" / "data" / "tidy_house_val.json.gz"
    episodes = load_episodes(path).episodes
    sim = MujocoSimulator(depth=depth)
    sim.reset([episodes[0]], [0])
    rng = np.random.default_rng(os.getpid())
    count = 0

    def reset() -> float:
        """Begin the next episode; return the seconds it took."""
        nonlocal count
        count += 1
        start = time.perf_counter()
        sim.reset([episodes[count % len(episodes)]], [count])
        sim.state()
        return time.perf_counter() - start

    def step() -> None:
        """Take one random step, and a picture if there are any."""
        sim.step(rng.uniform(-1.0, 1.0, (1, 10)))
        if depth:
            sim.state()
            sim.depth()

    for _ in range(len(episodes)):
        reset()  # free-space grids are made once per layout
    return step, reset


def _peer(depth: int | None) -> tuple[Callable[[], None], Callable[[], float]]:
    options: dict[str, Any] = {}
    if depth:
        options = {"render_mode": "rgb_array", "width": depth, "height": depth}
    env = gymnasium.make("Pusher-v5", max_episode_steps=10**9, **options)
    env.reset(seed=0)

    def reset() -> float:
        """Begin the next episode; return the seconds it took."""
        start = time.perf_counter()
        env.reset()
        return time.perf_counter() - start

    def step() -> None:
        """Take one random step, and a picture if there are any."""
        env.step(env.action_space.sample())
        if depth:
            env.render()

    return step, reset


def _work(kind: str, depth: int | None, seconds: float, barrier: Any, results: Any) -> None:
    try:
        results.put(_timed(kind, depth, seconds, barrier))
    except Exception as error:  # the parent must not wait for a row that never comes
        barrier.abort()
        results.put(error)


def _timed(kind: str, depth: int | None, seconds: float, barrier: Any) -> tuple[float, ...]:
    os.environ.setdefault("MUJOCO_GL", "egl")
    step, reset = (_ours if kind == "ours" else _peer)(depth)
    resets = sorted(reset() for _ in range(10))
    for _ in range(60):
        step()
    barrier.wait(120)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step()
        steps += 1
    rate = steps / (time.perf_counter() - start)
    memory = psutil.Process().memory_info()
    shared = getattr(memory, "shared", 0)
    return rate, resets[len(resets) // 2], memory.rss / 2**20, shared / 2**20


def measure(kind: str, depth: int | None, workers: int, seconds: float) -> dict[str, float]:
    """Return steps/s of all workers together, median reset time and memory of one process."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=_work, args=(kind, depth, seconds, barrier, results), daemon=True)
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    rows = [results.get(timeout=300 + seconds) for _ in processes]
    for process in processes:
        process.join()
    for row in rows:
        if isinstance(row, Exception):
            raise row
    return {
        "steps_per_second": sum(r[0] for r in rows),
        "reset_ms": 1000 * max(r[1] for r in rows),
        "memory_mb": max(r[2] for r in rows),
        "shared_mb": max(r[3] for r in rows),
    }


def main(overrides: list[str]) -> int:
    """Measure every row, print the table and write the file."""
    config = parse_or_help(Config, overrides, __doc__)
    cores = config.workers or len(os.sched_getaffinity(0))
    rows = {
        "physics_one_core": ("ours", None, 1),
        "physics_all_cores": ("ours", None, cores),
        "depth64_one_core": ("ours", 64, 1),
        "depth64_all_cores": ("ours", 64, cores),
        "depth128_one_core": ("ours", 128, 1),
        "depth128_all_cores": ("ours", 128, cores),
        "peer_physics_one_core": ("peer", None, 1),
        "peer_picture128_all_cores": ("peer", 128, cores),
    }
    results: dict[str, Any] = {}
    table = Table("row", "processes", "steps/s", "reset ms", "MiB a process (shared)")
    for name, (kind, depth, workers) in rows.items():
        print(f"measuring {name} for {config.seconds:.0f} s ...", file=sys.stderr)
        row = measure(kind, depth, workers, config.seconds)
        results[name] = row["steps_per_second"]
        results[f"{name}_reset_ms"] = row["reset_ms"]
        results[f"{name}_memory_mb"] = row["memory_mb"]
        table.add_row(
            name,
            str(workers),
            f"{row['steps_per_second']:,.0f}",
            f"{row['reset_ms']:.1f}",
            f"{row['memory_mb']:.0f} ({row['shared_mb']:.0f})",
        )
    results["cores"] = cores
    results["load_average_before"] = os.getloadavg()[0]
    Console().print(table)
    if config.json:
        write_json(Path(config.json), results)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
