"""What a skill environment adds to a step of the engine: ``python -m benchmarks.skill_envs``.

The engine alone (step, state, depth) and the environment take the same actions in the same
episodes; medians. The first column is measured between real engine steps, which leave cold caches
behind; the second repeats the environment's share alone, the engine's last answers standing in.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import skills.envs
from benchmarks.names import chosen, run_main
from skills.book import BOOK
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the benchmark."""

    skills: str = option("all", "comma-separated skills, or all")
    steps: int = option(1500, "steps a skill", min=100)
    depth: int = option(64, "pixels of the depth picture")
    split: str = option("val", "which episodes")


def measure(skill: str, steps: int, depth: int, split: str) -> tuple[float, float, float, float]:
    """Return median ms: added to a step, the same alone, whole step, reset."""
    env = gymnasium.make(skills.envs.env_id(skill), depth=depth, split=split)
    sim = env.unwrapped.sim  # type: ignore[attr-defined]
    inside: list[float] = []

    def timed(name: str) -> None:
        original = getattr(sim, name)

        def call(*args: object) -> object:
            start = time.perf_counter()
            result = original(*args)
            inside.append(time.perf_counter() - start)
            return result

        setattr(sim, name, call)

    env.reset(seed=0)
    env.action_space.seed(0)
    for name in ("step", "state", "depth"):
        timed(name)
    added, whole, resets = [], [], []
    for _ in range(steps):
        action = np.asarray(env.action_space.sample())
        if env.unwrapped.worlds.task.layout.stop:  # type: ignore[attr-defined]
            action[-1] = -1.0
        inside.clear()
        start = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(action)
        total = time.perf_counter() - start
        added.append(total - sum(inside))
        whole.append(total)
        if terminated or truncated:
            start = time.perf_counter()
            env.reset()
            resets.append(time.perf_counter() - start)
    alone = _alone(env, action)
    env.close()
    slow = _median(resets)
    return tuple(1e3 * t for t in (_median(added), alone, _median(whole), slow))  # type: ignore[return-value]


def _alone(env: Any, action: np.ndarray) -> float:
    """Return seconds a step without the engine: its last state and picture are given again."""
    sim = env.unwrapped.sim
    state, depth = sim.state(), sim.depth()
    sim.step, sim.state, sim.depth = lambda a: None, lambda: state, lambda: depth.copy()
    times = []
    for _ in range(1000):
        start = time.perf_counter()
        env.step(action)
        times.append(time.perf_counter() - start)
    return _median(times)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def main(overrides: list[str]) -> int:
    """Print the table."""
    config = parse_or_help(Config, overrides, __doc__)
    names = chosen(config.skills, BOOK, "skills")
    table = Table("skill", "added to a step, ms", "alone, ms", "whole step, ms", "reset, ms")
    for name in names:
        print(f"measuring {name}: {config.steps} steps ...", file=sys.stderr)
        row = measure(name, config.steps, config.depth, config.split)
        table.add_row(name, *(f"{value:.3f}" for value in row))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
