"""Forces on the robot: ``python -m benchmarks.force json=FILE``.

Runs the scripted chains on val episodes of the three scenarios, then random actions in Pick. It
prints the 99th percentile over episodes of the largest contact force of a chain and the largest
force that random actions make, and what each skill feels in successful episodes: the numbers that
the limits of the skill environments (``skills/rows.py``) were chosen from.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.names import run_main
from eval.episode import EpisodeRecord, run_episode
from planner.chain.make import make_agent, make_task
from tpsrl.engines import make_simulator
from tpsrl.files import write_json
from tpsrl.generation.rules import load_scenario
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import option, parse_or_help

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
_BLOCK = 10
"""Episodes of one job."""


@dataclass
class Config:
    """Options of the measurement."""

    json: Path | None = option(None, "report to write")
    executor: str = option("replan", "hab or replan")
    episodes: int = option(40, "val episodes of each scenario", min=1)
    random: int = option(200, "episodes of random actions in Pick", min=1)
    workers: int = option(1, "processes", min=1)


@dataclass
class Run:
    """What one episode felt.

    Attributes:
        success: of the whole episode.
        peak: largest force, N.
        skills: skill, largest force and accumulated force of every skill that ran, N.
    """

    success: bool
    peak: float
    skills: list[tuple[str, float, float]]


def chain(scenario: str, executor: str, first: int, count: int) -> list[Run]:
    """Run scripted chains on ``count`` episodes from number ``first`` on."""
    episodes = load_scenario_episodes(scenario, "val", count=first + count)
    agent, runs = make_agent("scripted", executor, scenario), []
    with make_simulator() as sim:
        for index in range(first, first + count):
            felt: list[tuple[str, float, float]] = []
            before = 0.0

            def feel(sim: Any, agent: Any, step: int, felt: Any = felt) -> None:
                """Add one step to the skill that runs."""
                nonlocal before
                skills, state = agent.report().skills, sim.state()
                total = float(state.force_sum[0])
                if skills and step:
                    if len(felt) < len(skills):
                        felt.append((skills[-1].skill, 0.0, 0.0))
                    name, peak, added = felt[-1]
                    felt[-1] = name, max(peak, float(state.force[0])), added + total - before
                before = total

            episode = episodes[index]
            task = make_task(episode, scenario)
            record = EpisodeRecord(
                index, episode.episode_id, "", scenario, episode.layout, seed=index
            )
            run_episode(sim, agent, task, record, episode, load_scenario(scenario).max_steps, feel)
            runs.append(Run(record.success, record.force_max, felt))
    return runs


def chance(first: int, count: int) -> list[Run]:
    """Draw actions in Pick, seeds ``first`` to ``first + count - 1``; no force ends an episode."""
    no_limits = {"max_force": None, "max_force_sum": None}
    env = gymnasium.make("skills.envs:tpsrl/Pick-v0", depth=None, split="val", options=no_limits)
    runs = []
    for seed in range(first, first + count):
        env.reset(seed=seed)
        rng, over, peak, success = np.random.default_rng(seed), False, 0.0, False
        while not over:
            action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
            _, _, terminated, truncated, info = env.step(action)
            over, peak = terminated or truncated, max(peak, float(info["force"]))
            success = bool(info["success"])
        runs.append(Run(success, peak, []))
    env.close()
    return runs


def measure(config: Config) -> dict[str, list[Run]]:
    """Return the runs of every scenario and of ``"random_pick"``."""
    jobs: list[tuple[str, Any]] = []
    # Not forked: a parent that has used OpenGL must not hand its context on.
    with ProcessPoolExecutor(config.workers, get_context("spawn")) as pool:
        for first in range(0, config.episodes, _BLOCK):
            count = min(_BLOCK, config.episodes - first)
            jobs += [
                (name, pool.submit(chain, name, config.executor, first, count))
                for name in SCENARIOS
            ]
        for first in range(0, config.random, _BLOCK):
            count = min(_BLOCK, config.random - first)
            jobs.append(("random_pick", pool.submit(chance, first, count)))
        runs: dict[str, list[Run]] = defaultdict(list)
        try:
            for name, job in track(jobs, "jobs of ten episodes"):
                runs[name] += job.result()
        except BaseException:  # e.g. Ctrl-C, after which jobs that wait are not worth their time
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return runs


def _spread(values: list[float]) -> dict[str, float]:
    marks = zip(("median", "p90", "p99", "largest"), (50, 90, 99, 100), strict=True)
    return {name: round(float(np.percentile(values, mark)), 1) for name, mark in marks}


def summarise(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Return the spread of forces over episodes and, in successful chains, over skills, N."""
    found: dict[str, Any] = {}
    skills: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, rows in runs.items():
        found[name] = {"episodes": len(rows), "success": np.mean([r.success for r in rows]).item()}
        found[name]["force_max"] = _spread([r.peak for r in rows])
        for row in (r for r in rows if r.success):
            for skill, peak, total in row.skills:
                skills[skill].append((peak, total))
    found["skills"] = {
        skill: {
            "runs": len(rows),
            "force_max": _spread([peak for peak, _ in rows]),
            "force_sum": _spread([total for _, total in rows]),
        }
        for skill, rows in sorted(skills.items())
    }
    return found


def main(overrides: list[str]) -> int:
    """Measure, print the tables and write the file."""
    config = parse_or_help(Config, overrides, __doc__)
    found = summarise(measure(config))
    skills = found.pop("skills")
    marks = ("median", "p90", "p99", "largest")
    table = Table("force_max of an episode, N", "episodes", "success", *marks)
    for name, row in found.items():
        cells = [f"{row['force_max'][mark]:,.0f}" for mark in marks]
        table.add_row(name, str(row["episodes"]), f"{row['success']:.1%}", *cells)
    Console().print(table)
    table = Table("in good chains, N", "runs", "max p99", "largest", "sum p99", "largest")
    for skill, row in skills.items():
        both = [row[f"force_{kind}"][mark] for kind in ("max", "sum") for mark in marks[2:]]
        table.add_row(skill, str(row["runs"]), *(f"{value:,.0f}" for value in both))
    Console().print(table)
    if config.json is not None:
        write_json(config.json, {**found, "skills": skills})
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
