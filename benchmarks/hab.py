"""The Home Assistant Benchmark: ``python -m benchmarks.hab agents=tpsrl,scripted out=DIR``.

Runs scenarios, agents and executors (each one is a ``tpsrl eval``, so the command can be stopped
and continued), prints one table in Markdown and draws cumulative success per interaction for all
agents, as figure 6 of the VER paper does. Weights that an agent lacks are named before anything
runs. NavPick and NavPickNavPlace are the stages of the first object: it was held; it was at its
goal and the hand empty.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.names import chosen, run_main
from eval.commands.eval import run
from eval.figures import draw_stages, load_runs
from eval.statistics import wilson
from planner.chain.catalog import AGENTS, agent_kind, policies_of
from planner.chain.problems import to_solve
from planner.chain.tpsrl import EXECUTORS
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the benchmark."""

    agents: str = option("scripted", "whose skills, with commas")
    executors: str = option("hab,replan", "with commas")
    scenarios: str = option("tidy_house,prepare_groceries,set_table", "with commas")
    split: str = option("val", "whose layouts")
    data: Path | None = option(None, "episode file instead of the split's, for one scenario")
    weights: Path | None = option(None, "folder of learned skills; null for those shipped")
    episodes: int = option(100, "of each scenario", min=1)
    seed: int = option(0, "of the run", min=0)
    out: Path = option(Path("outputs/hab"), "folder of the evaluations")
    workers: int = option(2, "processes", min=1)


HEAD = """\
| scenario | agent | executor | episodes | success [95%] | NavPick | NavPickNavPlace | steps |
|---|---|---|---|---|---|---|---|"""
NAV_PICK_PLACE = ("stage_0_5", "stage_1")
"""Stages of the first object; a scenario with stages of its own may have neither."""


def row(folder: Path) -> str:
    """Return one line of the table from an evaluation's ``summary.json``."""
    summary = json.loads((folder / "summary.json").read_text())
    stages = summary["stages"]
    settings = summary["config"]
    cells = [
        settings["scenario"],
        _agent(settings),
        settings.get("executor") or "-",
        str(summary["success"]["count"]),
        _rate(summary["success"]),
        *(_rate(stages[name]) if name in stages else "-" for name in NAV_PICK_PLACE),
        f"{summary['steps']['mean']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _agent(settings: dict[str, Any]) -> str:
    stand_ins = settings.get("stand_ins")
    return settings["agent"] + (f" (scripted: {', '.join(stand_ins)})" if stand_ins else "")


def _rate(interval: dict[str, Any]) -> str:
    """Return a rate with its 95% Wilson interval, which stays honest at 0 and 100%."""
    mean, count = interval["mean"], interval["count"]
    low, high = wilson(round(mean * count), count)
    return f"{100 * mean:.0f}% [{100 * low:.0f}, {100 * high:.0f}]"


def plan_runs(config: Config) -> list[dict[str, Any]]:
    """Return the keys of ``tpsrl eval`` for every run, in order.

    Raises:
        UserError: an unknown name, or an agent whose weights are missing.
    """
    agents = chosen(config.agents, AGENTS, "agents")
    executors = chosen(config.executors, EXECUTORS, "executors")
    scenarios = {w: to_solve(w).name for w in config.scenarios.replace(" ", "").split(",")}
    runs = []
    for agent, executor, scenario in itertools.product(agents, executors, scenarios):
        policies_of(agent, scenario, config.weights if agent_kind(agent).learned else None)
        name = f"{scenarios[scenario]}_{config.split}_{agent}"
        if agent == "monolithic":  # there is no plan that an executor could carry out
            if executor != executors[0]:
                continue
        else:
            name += f"_{executor}"
        words: dict[str, Any] = {
            "scenario": scenario,
            "split": config.split,
            "agent": agent,
            "executor": executor,
            "episodes": config.episodes,
            "seed": config.seed,
            "workers": config.workers,
            "out": config.out / name,
        }
        words |= {k: v for k in ("data", "weights") if (v := getattr(config, k)) is not None}
        if agent == "scripted":
            words.pop("weights", None)
        runs.append(words)
    return runs


def main(overrides: list[str]) -> int:
    """Evaluate what is missing, print the table and draw the figure."""
    return run_main(_measure, overrides)


def _measure(overrides: list[str]) -> int:
    config = parse_or_help(Config, overrides, __doc__)
    runs = plan_runs(config)
    codes = [run([f"{key}={value}" for key, value in words.items()]) for words in runs]
    folders = [Path(words["out"]) for words in runs]
    print(draw_stages(load_runs(folders), config.out / "stages.png"))
    print(HEAD)
    for folder in folders:
        print(row(folder))
    return max(codes, default=0)  # episodes that failed are told, and hide nobody else's


if __name__ == "__main__":
    sys.exit(run_main(main))
