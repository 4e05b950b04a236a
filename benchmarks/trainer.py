"""Speed of the trainer beside its peers.

``python -m benchmarks.trainer workload=waiting|compute json=FILE [rounds=3 seconds=20 warmup=10
only=ver,sb3]`` sets the peers up in environments of their own, measures every scheme and peer in
turn, repeats that ``rounds`` times (so that a change of the machine's load hits all alike), prints
the table and writes the numbers, after each measurement; what failed is ``null`` there, and the
exit code is 1. ``only`` also knows ``ver_bf16`` (the encoder in bfloat16) and
``ver_two_inference`` (a second process infers); nobody else is measured with lower precision, so
they are not in the default table. Steps per CPU second say what a system costs whatever else runs
on the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
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

from benchmarks.names import chosen, run_main
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


def peer_of(name: str) -> str | None:
    """Environment of a peer, ``None`` for what is ours."""
    if name in SCHEMES or name in VARIANTS:
        return None
    return "sample_factory" if name.startswith("sample_factory") else name


def measure(name: str, config: Config) -> tuple[float, float] | None:
    """Steps per second and per CPU second of one scheme or peer; ``None`` if it failed."""
    arguments = [config.workload, str(config.warmup), str(config.seconds)]
    peer = peer_of(name)
    if peer is None:
        scheme, overrides = VARIANTS.get(name, (name, []))
        program = [sys.executable, "-m", "benchmarks.trainer_ours", scheme]
        command = [*program, *arguments, *overrides]
    else:
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
    return None


def end_session(process: subprocess.Popen[Any], patience: float = 10.0) -> None:
    """Ends a process and what it may have left running, by its process group.

    Args:
        process: that was started in a session of its own.
        patience: seconds that it has to end well if it still runs.
    """
    try:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
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


def names_of(config: Config) -> list[str]:
    """Return what is measured.

    Raises:
        UserError: an unknown name.
    """
    names = [*SCHEMES, *PEERS[config.workload]]
    return chosen(config.only, (*names, *VARIANTS), "only") if config.only else names


def run(config: Config) -> dict[str, Any]:
    """Measures everything and returns what is written to the JSON file."""
    names = names_of(config)
    for peer in dict.fromkeys(filter(None, map(peer_of, names))):
        python_of(peer)  # what cannot be set up is told before anything is measured
    machine = describe_machine()
    console = Console(stderr=True)
    found: dict[str, list[tuple[float, float] | None]] = {name: [] for name in names}
    each = config.warmup + config.seconds + 8
    for number in range(config.rounds):
        for position, name in enumerate(names):
            left = ((config.rounds - number) * len(names) - position - 1) * each
            row = measure(name, config)
            found[name].append(row)
            said = "failed" if row is None else f"{row[0]:,.0f} steps/s"
            console.print(
                f"round {number + 1}/{config.rounds} {name}: {said} "
                f"(load {os.getloadavg()[0]:.1f}, about {left:,.0f} s left)",
                highlight=False,
            )
            report = {**summarise(config.workload, found), "machine": machine}
            if config.json is not None:
                write_json(config.json, report)
    return report


def summarise(workload: str, found: dict[str, list[tuple[float, float] | None]]) -> dict[str, Any]:
    """Medians and ratios of what was measured so far; ``None`` stands for what failed."""
    medians, efficiency = (
        {name: _median([row[part] for row in rows if row]) for name, rows in found.items()}
        for part in (0, 1)
    )
    return {
        "workload": workload,
        "steps_per_second": medians,
        "rounds": {name: [row and row[0] for row in rows] for name, rows in found.items()},
        "steps_per_cpu_second": efficiency,
        "ratios": ratios(medians),
    }


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def ratios(medians: dict[str, float | None]) -> dict[str, float | None]:
    """``ver`` over everything else."""
    ver, others = medians.get("ver"), {k: v for k, v in medians.items() if k != "ver"}
    return {f"ver/{name}": ver / value if ver and value else None for name, value in others.items()}


def show(report: dict[str, Any]) -> None:
    """Prints the table."""
    table = Table(title=f"workload={report['workload']}: environment steps per second")
    for column in ("system", "median", "rounds", "per CPU second", "ver is"):
        table.add_column(column, justify="right")
    for name, value in report["steps_per_second"].items():
        rounds = " ".join(map(_number, report["rounds"][name]))
        ratio = report["ratios"].get(f"ver/{name}")
        cpu = _number(report["steps_per_cpu_second"][name])
        table.add_row(name, _number(value), rounds, cpu, f"{ratio:.2f}x" if ratio else "")
    Console().print(table)


def _number(value: float | None) -> str:
    return "failed" if value is None else f"{value:,.0f}"


def main(words: Sequence[str]) -> int:
    """Measure, print and write; 1 if anything failed."""
    report = run(parse_or_help(Config, words, __doc__))
    show(report)
    return int(any(None in rounds for rounds in report["rounds"].values()))


if __name__ == "__main__":
    sys.exit(run_main(main))
