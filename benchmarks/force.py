"""Contact forces of good runs: ``python -m benchmarks.force scenario=set_table episodes=20``.

Force limits of the published benchmark belong to another contact solver. This prints what the
scripted robot feels on this engine, by skill, so that a limit can be chosen from a distribution.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from planner.chain.make import make_agent
from planner.chain.make import make_task as task_of
from tpsrl.engines import make_simulator
from tpsrl.generation.rules import load_scenario
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the measurement."""

    scenario: str = option("set_table", "whose episodes")
    executor: str = option("replan", "hab or replan")
    split: str = option("val", "whose layouts")
    episodes: int = option(20, "how many")


def collect(config: Config) -> dict[str, list[float]]:
    """Return the force of every control step of successful episodes, by running skill, N."""
    max_steps = load_scenario(config.scenario).max_steps
    episodes = load_scenario_episodes(config.scenario, config.split, count=config.episodes)
    agent = make_agent("scripted", config.executor, config.scenario)
    forces: dict[str, list[float]] = defaultdict(list)
    with make_simulator() as sim:
        for seed, episode in enumerate(track(episodes, "episodes")):
            sim.reset([episode], [seed])
            agent.reset(sim, 0, episode, seed)
            rows: list[tuple[str, float]] = []
            for _ in range(max_steps):
                action = agent.act(sim, 0)
                if action is None:
                    break
                sim.step(action[None])
                skills = agent.report().skills
                rows.append((skills[-1].skill if skills else "", float(sim.state().force[0])))
            if task_of(episode, config.scenario).success(sim, 0):
                for skill, force in rows:
                    forces[skill].append(force)
    return forces


def main(overrides: list[str]) -> int:
    """Print the table."""
    config = parse_or_help(Config, overrides, __doc__)
    table = Table("skill", "steps", "touching", "median N", "95% N", "99% N", "largest N")
    for skill, values in sorted(collect(config).items()):
        force = np.array(values)
        touch = force[force > 0]
        if not len(touch):
            table.add_row(skill, f"{len(force):,}", "0.0%", *["-"] * 4)
            continue
        cells = [f"{v:,.0f}" for v in (*np.percentile(touch, [50, 95, 99]), touch.max())]
        table.add_row(skill, f"{len(force):,}", f"{len(touch) / len(force):.1%}", *cells)
    Console().print(table)
    print("median and percentiles are of the steps in which the robot touched something")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
