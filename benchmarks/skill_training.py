"""Speed of training a skill, trainer and environment together, and of its bounds.

``python -m benchmarks.skill_training json=FILE`` measures, one after the other, environment steps a
second of

- ``state``: Pick without a picture, 64 worlds x 128 steps, two layers of 256 units, actor and
  critic apart, 4 epochs;
- ``depth64``: Pick with 64x64 depth, network and settings of ``benchmarks.trainer
  workload=compute`` (CNN and LSTM 256, 16 x 32, one epoch);
- ``paper``: Pick with 128x128 depth, half-width ResNet18 and two LSTM layers of 512, 8 x 32, 2
  epochs of 2 mini-batches;
- each of the three with ``_overlap``: ``collect.overlap=true``; with ``_bf16``: ``precision=bf16``,
  for processors that multiply in it (AVX-512 BF16, AMX); with ``_overlap_bf16``: both;
- ``sb3_state``: Stable-Baselines3's PPO on the environment and network of ``state``, single
  environments in a ``SubprocVecEnv``, ``sb3_envs`` of them, with as many rows an update;
- ``physics``: the bare physics on all cores, the limit.

FILE is written after each of them; what failed is ``null`` there, and the exit code is 1. All run
on the processor; ``device=cuda`` measures ours on a GPU, where ``sb3_state`` has no place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import simulator
from benchmarks.names import chosen, run_main
from benchmarks.trainer import ROOT, describe_machine, end_session
from benchmarks.trainer_setup import python_of
from tpsrl.files import write_json
from ver_trainer.errors import UserError
from ver_trainer.machine import cores
from ver_trainer.options import option, parse_or_help

OURS = tuple(
    workload + variant
    for variant in ("", "_overlap", "_bf16", "_overlap_bf16")
    for workload in ("state", "depth64", "paper")
)
NAMES = (*OURS, "sb3_state", "physics")


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write")
    seconds: float = option(20.0, "measured time of each", above=0)
    warmup: float = option(10.0, "time before it", min=0)
    only: str = option("", "names with commas; empty: all")
    sb3_envs: int = option(16, "processes of SubprocVecEnv", min=1)
    device: str = option("cpu", "torch device of ours")


def measure(name: str, config: Config) -> dict[str, float]:
    """Steps a second, and what else is known of them.

    Raises:
        RuntimeError: if it fails, with the end of what it wrote.
    """
    if name == "physics":
        return simulator.measure("ours", None, cores(), config.seconds)
    python = sys.executable if name in OURS else python_of("sb3")
    words = [name, str(config.warmup), str(config.seconds), str(config.sb3_envs)]
    words.append(config.device)
    process = subprocess.Popen(
        [python, "-m", "benchmarks.skill_training_run", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=300 + config.warmup + 3 * config.seconds)
    finally:
        end_session(process)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"{name} failed: {errors.strip()[-1000:]}")
    return dict(json.loads(lines[-1]))


def names_of(config: Config) -> list[str]:
    """Return what is measured.

    Raises:
        UserError: an unknown name, or the peer beside ours on another device than its own.
    """
    names = chosen(config.only or "all", NAMES, "only")
    if config.device != "cpu" and "sb3_state" in names:
        raise UserError(f"device={config.device} is ours alone; leave sb3_state out of only=")
    return names


def run(config: Config) -> dict[str, Any]:
    """Measure everything; return what is written to the JSON file."""
    names = names_of(config)
    if "sb3_state" in names:
        python_of("sb3")  # if it cannot be set up, that is told before anything is measured
    report: dict[str, Any] = {"machine": describe_machine(), "device": config.device, "details": {}}
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr)
        try:
            found: dict[str, Any] = measure(name, config)
        except Exception as error:  # the other rows are worth as much without this one
            print(f"{name}: {error!r}", file=sys.stderr)
            found = {"steps_per_second": None}
        report[name] = found.pop("steps_per_second")
        report["details"][name] = found
        if config.json is not None:
            write_json(config.json, report)
    return report


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    table = Table("workload", "steps/s", "per CPU second", "collecting", "of physics")
    for name in (name for name in NAMES if name in report):
        more = report["details"][name]
        rate = more.get("steps_per_cpu_second")
        share = more.get("collect_share")
        table.add_row(
            name,
            "failed" if report[name] is None else f"{report[name]:,.0f}",
            "" if rate is None else f"{rate:,.0f}",
            "" if share is None else f"{share:.0%}",
            f"{report[name] / report['physics']:.0%}"
            if report[name] and report.get("physics")
            else "",
        )
    Console().print(table)


def main(words: Sequence[str]) -> int:
    """Measure, print and write; 1 if anything failed."""
    report = run(parse_or_help(Config, words, __doc__))
    show(report)
    return int(any(report[name] is None for name in report["details"]))


if __name__ == "__main__":
    sys.exit(run_main(main))
