"""``tpsrl demo``: a video of each scenario and a small evaluation."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from eval.figures import draw_stages, load_runs
from eval.runner import evaluate
from eval.spec import evaluation_spec
from eval.table import print_summary
from eval.video import record_episode
from planner import options as agent_options
from planner.chain.catalog import AGENTS, fingerprints, policies_of, skill_lines
from planner.chain.problems import to_solve
from tpsrl import options
from tpsrl.jobs.processes import all_cores
from tpsrl.provide import load_scenario_episodes, pick_episode
from ver_trainer.options import load

HELP = """Watch the robot work: record a video of each scenario of the Home Assistant Benchmark,
then evaluate a few episodes of each and draw how far they got. Takes a few minutes on two cores.
Skills whose weights ship are learned, the others scripted; the videos name the policy that acts.

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
    episode: int = field(default=0, metadata={"help": "index of the episodes to record", "min": 0})
    episodes: int = field(default=4, metadata={"help": "episodes of each scenario", "min": 1})
    every: int = field(
        default=4, metadata={"help": "control steps a frame: 4 is four times real time", "min": 1}
    )
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)


CONFIG = DemoConfig


def run(overrides: list[str]) -> int:
    """Record, evaluate, print the tables and where everything is."""
    config = load(DemoConfig, overrides)

    scenarios = {word: to_solve(word) for word in config.scenarios.split(",")}
    policies = policies_of(config.agent, weights=config.weights)
    lines = "\n  ".join(skill_lines(config.agent, policies))
    print(f"skills of agent={config.agent}:\n  {lines}", flush=True)
    # Results of other weights are other results: they get a folder of their own.
    digest = hashlib.sha256(repr(fingerprints(policies)).encode()).hexdigest()[:8]
    mark = f"{config.agent}_{config.executor}" + (f"_{digest}" if policies else "")
    videos = [
        _record(config, word, config.out / f"{rules.stem()}.mp4")
        for word, rules in scenarios.items()
    ]
    folders = [
        _evaluate(config, word, config.out / f"{rules.stem()}_{mark}")
        for word, rules in scenarios.items()
    ]

    figure = draw_stages(load_runs(folders), config.out / "stages.png")
    print("\nvideos:")
    for video in videos:
        print(f"  {video.resolve()}")
    print(f"figure:\n  {figure.resolve()}")
    return 0


def _record(config: DemoConfig, scenario: str, out: Path) -> Path:
    os.environ.setdefault("LP_NUM_THREADS", str(all_cores()))

    episodes = load_scenario_episodes(scenario, least=config.episode + 1)
    episode = pick_episode(episodes, config.episode)
    spec = evaluation_spec(
        scenario=scenario,
        agent=config.agent,
        executor=config.executor,
        depth=128,
        weights=config.weights,
    )
    record = record_episode(spec, episode, config.episode, out, config.every)
    failure = record.failure
    ending = f"failed ({failure['skill']}: {failure['cause']})" if failure else "success"
    print(
        f"{out}: {ending}, {record.steps} steps, {record.replans} replans, states {record.states}",
        flush=True,
    )
    return out


def _evaluate(config: DemoConfig, scenario: str, out: Path) -> Path:

    episodes = load_scenario_episodes(scenario, count=config.episodes, workers=config.workers)
    spec = evaluation_spec(
        scenario=scenario,
        agent=config.agent,
        executor=config.executor,
        config={"split": "val"},
        weights=config.weights,
    )
    summary = evaluate(spec, episodes, out, config.workers, label=out.name)
    print()
    print_summary(summary)
    return out
