"""Success of an agent in every skill environment: ``python -m benchmarks.skill_success``.

``agent=scripted`` runs the scripted skills, ``agent=random`` uniform actions. The table shows the
success rate with its 95% Wilson interval, mean return and length, and why episodes ended.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval.statistics import wilson
from eval.trials import play_episode
from tpsrl.config import load


@dataclass
class Config:
    """Options of the benchmark."""

    agent: str = field(
        default="scripted", metadata={"help": "who acts", "choices": ["scripted", "random"]}
    )
    skills: str = field(default="all", metadata={"help": "comma-separated skills, or all"})
    episodes: int = field(default=20, metadata={"help": "episodes a skill", "min": 1})
    split: str = field(default="val", metadata={"help": "which episodes"})
    contract: str = field(default="fixed", metadata={"choices": ["fixed", "parity"]})
    actions: str = field(default="full", metadata={"choices": ["full", "restricted"]})
    seed: int = field(default=0, metadata={"help": "of the first episode"})


GRIP = {"close_cab": {"suction": True}, "close_fridge": {"suction": True}}
"""The scripted Close skills pull and push by the handle; the contract's robot has no grip there."""


def run(skill: str, config: Config) -> list[dict[str, Any]]:
    """Return the record of every episode, see ``eval.trials.play_episode``."""
    import gymnasium

    import skills.envs
    from eval.trials import scripted_agent
    from skills.envs.agents import RandomAgent

    env = gymnasium.make(
        skills.envs.env_id(skill),
        depth=None,
        split=config.split,
        contract=config.contract,
        actions=config.actions,
        options=GRIP.get(skill, {}) if config.agent == "scripted" else {},
    ).unwrapped
    agent = scripted_agent(env) if config.agent == "scripted" else RandomAgent(env)  # type: ignore[arg-type]
    seeds = range(config.seed, config.seed + config.episodes)
    rows = [play_episode(env, agent, seed) for seed in seeds]  # type: ignore[arg-type]
    env.close()
    return rows


def _cause(row: dict[str, Any]) -> str:
    return row["cause"] + (f" ({row['reason']})" if row["reason"] and not row["success"] else "")


def main(overrides: list[str]) -> int:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    import skills.envs

    config = load(Config, overrides)
    names = list(skills.envs.NAMES) if config.skills == "all" else config.skills.split(",")
    table = Table("skill", "success", "95% interval", "return", "steps", "peak force, N", "ends")
    for name in names:
        print(f"{config.agent} {name}: {config.episodes} episodes ...", file=sys.stderr)
        rows = run(name, config)
        won = sum(row["success"] for row in rows)
        low, high = wilson(won, len(rows))
        ends = Counter(_cause(row) for row in rows).most_common()
        means = [np.mean([row[key] for row in rows]) for key in ("return", "steps")]
        table.add_row(
            f"{name} (grip on)" if config.agent == "scripted" and name in GRIP else name,
            f"{won}/{len(rows)} {100 * won / len(rows):.0f}%",
            f"{100 * low:.0f}-{100 * high:.0f}%",
            f"{means[0]:.1f}",
            f"{means[1]:.0f}",
            f"{np.median([row['force_max'] for row in rows]):.0f}",
            ", ".join(f"{cause} {count}" for cause, count in ends),
        )
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
