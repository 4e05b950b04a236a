"""The Home Assistant Benchmark, whole: ``python -m benchmarks.hab split=val episodes=100 out=DIR``.

Runs the three scenarios with both executors (each one is a ``tpsrl eval``, so the command can be
stopped and continued) and prints one table in Markdown, with the figure of cumulative success.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tpsrl.config import load

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
EXECUTORS = ("hab", "replan")


@dataclass
class Config:
    """Options of the benchmark."""

    split: str = field(default="val", metadata={"help": "whose layouts"})
    agent: str = field(default="scripted", metadata={"help": "whose skills"})
    episodes: int = field(default=100, metadata={"help": "of each scenario"})
    out: str = field(default="outputs/hab", metadata={"help": "folder of the six evaluations"})
    workers: int = field(default=2, metadata={"help": "processes"})


def row(folder: Path) -> str:
    """Return one line of the table from an evaluation's ``summary.json``."""
    summary = json.loads((folder / "summary.json").read_text())
    score = summary["success"]
    stages = list(summary["stages"].values())
    first = stages[min(1, len(stages) - 1)]
    settings = summary["config"]
    return (
        f"| {settings['scenario']} | {settings['executor']} | {score['count']} "
        f"| {100 * score['mean']:.0f}% [{100 * score['low']:.0f}, {100 * score['high']:.0f}] "
        f"| {100 * first['mean']:.0f}% | {summary['steps']['mean']:,.0f} |"
    )


def main(overrides: list[str]) -> int:
    """Evaluate what is missing and print the table."""
    from eval.figures import main as draw
    from tpsrl.commands.eval import run

    config = load(Config, overrides)
    folders = []
    for executor in EXECUTORS:
        for scenario in SCENARIOS:
            folder = Path(config.out) / f"{scenario}_{config.split}_{config.agent}_{executor}"
            words = {
                "scenario": scenario,
                "split": config.split,
                "agent": config.agent,
                "executor": executor,
                "episodes": config.episodes,
                "workers": config.workers,
                "out": folder,
            }
            code = run([f"{key}={value}" for key, value in words.items()])
            if code:
                return code
            folders.append(folder)
    draw([*map(str, folders), f"out={Path(config.out) / 'stages.png'}"])
    print("| scenario | executor | episodes | success [95%] | first object placed | steps |")
    print("|---|---|---|---|---|---|")
    for folder in folders:
        print(row(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
