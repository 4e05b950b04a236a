"""Speed of the trainer beside its peers.

``python -m benchmarks.trainer workload=waiting|compute json=FILE [rounds=3 seconds=20 warmup=10
only=ver,sb3]`` sets the peers up in environments of their own, measures every scheme and peer in
turn, repeats that ``rounds`` times (so that a change of the machine's load hits all alike), prints
the table and writes the numbers. ``only`` also knows ``ver_bf16`` (the encoder in bfloat16) and
``ver_two_inference`` (a second process infers); nobody else is measured with lower precision, so
they are not in the default table. Steps per CPU second say what a system costs whatever else runs
on the machine.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.trainer_envs import WORKLOADS
from benchmarks.trainer_setup import python_of
from tpsrl.files import write_json
from ver_trainer.options import option, parse_or_help

ROOT = Path(__file__).resolve().parent.parent
SCHEMES = ("ver", "nover", "ddppo", "htsrl", "async")
VARIANTS = {
    "ver_bf16": ("ver", ["precision=bf16"]),
    "ver_two_inference": ("ver", ["collect.num_inference_workers=2"]),
}
PEERS = {
    "waiting": ("sample_factory", "sb3", "skrl"),
    "compute": ("sample_factory", "sample_factory_serial", "sb3", "skrl"),
}


@dataclass
class Config:
    """Options of the benchmark."""

    workload: str = option("waiting", "what is measured", choices=tuple(WORKLOADS))
    json: Path | None = option(None, "report to write")
    rounds: int = option(3, "measurements of each", min=1)
    seconds: float = option(20.0, "measured time", above=0)
    warmup: float = option(10.0, "time before it", min=0)
    only: str = option("", "schemes and peers with commas; empty: all")


def measure(name: str, config: Config) -> tuple[float, float]:
    """Steps per second and per CPU second of one scheme or peer; NaN if it failed."""
    arguments = [config.workload, str(config.warmup), str(config.seconds)]
    if name in SCHEMES or name in VARIANTS:
        scheme, overrides = VARIANTS.get(name, (name, []))
        program = [sys.executable, "-m", "benchmarks.trainer_ours", scheme]
        command = [*program, *arguments, *overrides]
    else:
        peer = "sample_factory" if name.startswith("sample_factory") else name
        command = [python_of(peer), "-m", "benchmarks.trainer_peers", name, *arguments]
    limit = 120 + config.warmup + 3 * config.seconds
    threads = "2" if WORKLOADS[config.workload]["recurrent"] else "1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": threads}
    # Threads that wait must not take the core that an environment, or another user, needs.
    environment["OMP_WAIT_POLICY"] = "PASSIVE"
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        out, errors = "", "it took too long"
    finally:
        end_session(process)
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            found = json.loads(line)
            return float(found["steps_per_second"]), float(found["steps_per_cpu_second"])
    print(f"{name} failed: {errors.strip()[-400:]}", file=sys.stderr)
    return float("nan"), float("nan")


def end_session(process: subprocess.Popen[str]) -> None:
    """Ends what a peer may have left running, by its process group."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def describe_machine() -> dict[str, Any]:
    """Cores, load, versions and commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
    }


def run(config: Config) -> dict[str, Any]:
    """Measures everything and returns what is written to the JSON file."""
    names = [*SCHEMES, *PEERS[config.workload]]
    if config.only:
        names = [n for n in config.only.split(",") if n in (*names, *VARIANTS)]
    machine = describe_machine()
    console = Console(stderr=True)
    results: dict[str, list[float]] = {name: [] for name in names}
    efficiency: dict[str, list[float]] = {name: [] for name in names}
    rounds = config.rounds
    each = config.warmup + config.seconds + 8
    for number in range(rounds):
        for position, name in enumerate(names):
            left = ((rounds - number) * len(names) - position) * each
            rate, per_cpu = measure(name, config)
            results[name].append(rate)
            efficiency[name].append(per_cpu)
            load = os.getloadavg()[0]
            console.print(
                f"round {number + 1}/{rounds} {name}: {rate:,.0f} steps/s "
                f"(load {load:.1f}, about {left - each:,.0f} s left)",
                highlight=False,
            )
    medians = {name: statistics.median(values) for name, values in results.items()}
    return {
        "workload": config.workload,
        "steps_per_second": medians,
        "rounds": results,
        "steps_per_cpu_second": {n: statistics.median(v) for n, v in efficiency.items()},
        "ratios": ratios(medians),
        "machine": machine,
    }


def ratios(medians: dict[str, float]) -> dict[str, float]:
    """``ver`` over everything else."""
    ver = medians.get("ver", float("nan"))
    return {f"ver/{name}": ver / value for name, value in medians.items() if name != "ver"}


def show(report: dict[str, Any]) -> None:
    """Prints the table."""
    table = Table(title=f"workload={report['workload']}: environment steps per second")
    for column in ("system", "median", "rounds", "per CPU second", "ver is"):
        table.add_column(column, justify="right")
    for name, value in report["steps_per_second"].items():
        rounds = " ".join(f"{x:,.0f}" for x in report["rounds"][name])
        ratio = report["ratios"].get(f"ver/{name}")
        cpu = f"{report['steps_per_cpu_second'][name]:,.0f}"
        table.add_row(name, f"{value:,.0f}", rounds, cpu, f"{ratio:.2f}x" if ratio else "")
    Console().print(table)


def main(words: Sequence[str]) -> None:
    """Measure, print and write."""
    config = parse_or_help(Config, words, __doc__)
    report = run(config)
    show(report)
    if config.json is not None:
        write_json(config.json, report)


if __name__ == "__main__":
    main(sys.argv[1:])
