"""Open Cabinet learned by other trainers beside ours: success over steps.

``python -m benchmarks.clients json=FILE [steps=1000000 clients=ours,sb3,cleanrl seeds=1 depth=64
worlds=16]`` trains, one after the other,

- ``ours``: VER;
- ``sb3``: Stable-Baselines3's PPO, in an environment of its own that
  ``benchmarks.trainer_setup`` makes, single environments in a ``SubprocVecEnv``;
- ``cleanrl``: the PPO of ``benchmarks/clients_ppo.py``, one file in the manner of CleanRL, over
  ``gymnasium.make_vec``.

All have the environment of docs/other_trainers.md (64x64 depth as uint8, ``stop="success"``,
``reward="teaching"``, the contract's vectors and those ``fine``), 4,096 rows an update, the same
discount, epochs, mini-batches, clip, first deviation and falling rate, rewards in units of their
returns' deviation, a CNN of 256 features (ours: one each for actor and critic) and two layers of 64
each for actor and critic; what is left is each one's own.
Success is the share of the last 100 episodes while training. Runs that FILE holds to their end are
not done again.
"""

from __future__ import annotations

import json
import os
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
from benchmarks.trainer import ROOT, describe_machine, end_session
from benchmarks.trainer_setup import python_of
from skills.book import row_of
from tpsrl.files import write_json
from tpsrl.generation.rules import load_scenario
from tpsrl.provide import make_episodes
from ver_trainer.machine import cores
from ver_trainer.options import option, parse_or_help
from ver_trainer.reading import read_json

CLIENTS = ("ours", "sb3", "cleanrl")
MARKS = 8
"""Lines of the table."""


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write, and to go on from")
    steps: int = option(1_000_000, "environment steps of a run", min=1)
    clients: str = option(",".join(CLIENTS), "names with commas")
    seeds: int = option(1, "runs of each", min=1)
    depth: int | None = option(64, "pixels; null: no picture", min=36)
    worlds: int = option(16, "environments at once", min=1)


def arguments(depth: int | None) -> dict[str, Any]:
    """Arguments of the environment; its training episodes are made where there are none."""
    scenario = load_scenario(row_of("open_cab").task.scenario)
    return {
        "depth": depth,
        "sensors": ["contract", "fine"],
        "depth_dtype": "uint8",
        "stop": "success",
        "reward": "teaching",
        "episodes": str(make_episodes(scenario, "train", 500, cores())),
    }


def one_run(client: str, seed: int, config: Config, arguments: dict[str, Any]) -> dict[str, Any]:
    """Train once, in a process of its own; return its curve and its seconds.

    Raises:
        RuntimeError: it failed; with the end of what it wrote.
    """
    python = python_of("sb3") if client == "sb3" else sys.executable
    numbers = [str(number) for number in (config.steps, seed, config.worlds)]
    begin = time.monotonic()
    process = subprocess.Popen(
        [python, "-m", "benchmarks.clients_run", client, *numbers, json.dumps(arguments)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    curve: list[dict[str, Any]] = []
    rest = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                rest = line
                continue
            curve.append(json.loads(line))
            steps, success = curve[-1]["step"], curve[-1]["success"]
            said = "no episode yet" if success is None else f"success {success:.0%}"
            print(f"{client} seed {seed}: {steps:,} steps, {said}", file=sys.stderr, flush=True)
        code = process.wait()
    finally:
        end_session(process)
    if code or not curve:
        raise RuntimeError(f"{client} failed with exit code {code}: {rest}")
    return {"curve": curve, "seconds": time.monotonic() - begin}


def show(report: dict[str, Any], config: Config) -> None:
    """Print success over steps, one column a run."""
    runs = {k: v for k, v in report.items() if k.endswith(_described(config))}
    table = Table("steps", *(key.removesuffix(_described(config)) for key in runs))
    for mark in range(1, MARKS + 1):
        step = config.steps * mark // MARKS
        table.add_row(f"{step:,}", *(_at(run["curve"], step) for run in runs.values()))
    table.add_row("minutes", *(f"{run['seconds'] / 60:.1f}" for run in runs.values()))
    Console().print(table)


def _described(config: Config) -> str:
    """What runs of one table have in common, at the end of their names."""
    return f" of {config.steps} steps, {config.worlds} worlds, depth {config.depth}"


def _at(curve: Sequence[dict[str, Any]], step: int) -> str:
    """Success at the last rollout that ended by then."""
    past = [point for point in curve if point["step"] <= step and point["success"] is not None]
    return f"{past[-1]['success']:.0%}" if past else "-"


def main(words: Sequence[str]) -> None:
    """Train what is missing, print and write."""
    config = parse_or_help(Config, words, __doc__)
    known, clients = config.json, chosen(config.clients, CLIENTS, "clients")
    report = read_json(known) if known is not None and known.exists() else {}
    environment = arguments(config.depth)
    for seed in range(1, config.seeds + 1):
        for client in clients:
            key = f"{client} {seed}{_described(config)}"
            if key in report:
                continue
            machine = describe_machine()
            found = one_run(client, seed, config, environment)
            report[key] = {"arguments": environment, "machine": machine, **found}
            if known is not None:
                write_json(known, report)
    show(report, config)


if __name__ == "__main__":
    sys.exit(run_main(main))
