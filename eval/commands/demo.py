"""``tpsrl demo``: a video of each scenario and a small evaluation."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from eval.again import DEPTH
from eval.figures import draw_stages, load_runs
from eval.runner import evaluate, read_run
from eval.spec import EvaluationSpec, evaluation_spec
from eval.table import print_summary
from eval.video import ending, record_episode
from planner.chain import options as agent_options
from planner.chain.catalog import AGENTS, fingerprints, policies_of, skill_lines
from planner.chain.problems import to_solve
from tpsrl import options
from tpsrl.errors import UserError
from tpsrl.jobs.processes import all_cores
from tpsrl.provide import load_scenario_episodes, pick_episode
from ver_trainer.options import load, option

HELP = """Watch the robot work: evaluate a few episodes of each scenario of the Home Assistant
Benchmark, draw how far they got, and record a video of one of them. Takes a few minutes on two
cores. Skills whose weights ship are learned, the others scripted; the videos name the policy.

Running it again continues the evaluation and records the videos anew."""


@dataclass
class DemoConfig:
    """Keys of ``tpsrl demo``."""

    scenarios: str = field(
        default="tidy_house,prepare_groceries,set_table",
        metadata={"help": "names or files of scenarios, with commas"},
    )
    out: Path = field(default=Path("outputs/demo"), metadata={"help": "folder for the results"})
    agent: str = field(
        default="tpsrl",
        metadata={"help": "learned skills where weights ship, or others", "choices": list(AGENTS)},
    )
    weights: Path | None = field(default=None, metadata=agent_options.WEIGHTS)
    executor: str = field(default="replan", metadata=agent_options.EXECUTOR)
    episode: int = field(default=0, metadata={"help": "which of them is recorded", "min": 0})
    episodes: int = field(default=4, metadata={"help": "episodes of each scenario", "min": 1})
    speed: int = option(4, "of the videos: 4 is four times real time", min=1)
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)


CONFIG = DemoConfig


def run(overrides: list[str]) -> int:
    """Record, evaluate, print the tables and where everything is."""
    config = load(DemoConfig, overrides)

    if config.episode >= config.episodes:
        raise UserError(
            f"episode={config.episode} is not in the table of episodes={config.episodes}; give"
            f" episodes={config.episode + 1} or more."
        )
    scenarios = {word: to_solve(word) for word in config.scenarios.split(",")}
    policies = policies_of(config.agent, weights=config.weights)
    lines = "\n  ".join(skill_lines(config.agent, policies))
    print(f"skills of agent={config.agent}:\n  {lines}", flush=True)
    # Results of other weights are other results: they get a folder of their own.
    digest = hashlib.sha256(repr(fingerprints(policies)).encode()).hexdigest()[:8]
    mark = f"{config.agent}_{config.executor}" + (f"_{digest}" if policies else "")
    folders = [config.out / f"{rules.stem()}_{mark}" for rules in scenarios.values()]
    for word, folder in zip(scenarios, folders, strict=True):
        _evaluate(config, word, folder)
    figure = draw_stages(load_runs(folders), config.out / "stages.png")
    endings = [
        _record(config, word, config.out / f"{rules.stem()}.mp4", folder)
        for (word, rules), folder in zip(scenarios.items(), folders, strict=True)
    ]
    print("\nvideos:")
    print("\n".join(f"  {line}" for line in endings))
    print(f"figure:\n  {figure.resolve()}")
    return 0


def _spec(config: DemoConfig, scenario: str, depth: int | None) -> EvaluationSpec:
    return evaluation_spec(
        scenario=scenario,
        agent=config.agent,
        executor=config.executor,
        depth=depth,
        config={"split": "val"},
        weights=config.weights,
    )


def _evaluate(config: DemoConfig, scenario: str, out: Path) -> None:
    episodes = load_scenario_episodes(scenario, count=config.episodes, workers=config.workers)
    summary = evaluate(_spec(config, scenario, None), episodes, out, config.workers, label=out.name)
    print()
    print_summary(summary)


def _record(config: DemoConfig, scenario: str, out: Path, folder: Path) -> str:
    """Record an episode of the table; return where the video is and how it ended."""
    os.environ.setdefault("LP_NUM_THREADS", str(all_cores()))
    episodes = load_scenario_episodes(scenario, count=config.episodes)
    episode = pick_episode(episodes, config.episode)
    record = record_episode(
        _spec(config, scenario, DEPTH), episode, config.episode, out, config.speed
    )
    cause = ending(record)
    how = f"failed ({cause})" if cause else "success"
    if record.states != read_run(folder)[1][config.episode].states:
        raise UserError(
            f"{out} shows episode {config.episode} otherwise than the results in {folder}, which"
            " are of another version of the program or another machine; remove that folder and run"
            " the demo again."
        )
    return f"{out.resolve()}: episode {config.episode}, {how}, {record.steps} steps"
