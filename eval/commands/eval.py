"""``tpsrl eval``: run an agent over episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from eval.episode import GOAL_REFUSED, EpisodeRecord
from eval.figures import draw_stages, load_runs
from eval.recording import MODES, RECORD
from eval.report import write_report
from eval.runner import evaluate, read_run, report_errors
from eval.skills import SkillEvalConfig, evaluate_skill
from eval.spec import evaluation_spec
from eval.table import print_summary
from planner.chain import options as agent_options
from planner.chain.make import skills_in_use
from planner.chain.problems import to_solve
from planner.words.options import GOAL, PlannerConfig, stem
from tpsrl import options
from tpsrl.habitat.scenes import (
    REPLICA_CAD,
    HabitatConfig,
    choose_scenes,
    habitat_options,
    named_data,
)
from tpsrl.jobs.processes import all_cores
from tpsrl.launch.config import LAUNCH, LaunchConfig
from tpsrl.launch.start import as_one_job
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import load, named, option

HELP = """Run an agent over episodes in worker processes and measure it.

Writes episodes.jsonl (one line an episode), summary.json, stages.png, report.html and the states
of failed episodes ('tpsrl view results=DIR') into out=. The same command again only runs what is
missing, so it can be stopped and continued at any time. docs/metrics.md explains the numbers.

  tpsrl eval scenario=tidy_house agent=tpsrl     learned skills, scripted where there are none
  tpsrl eval skill=pick agent=teacher episodes=500     one skill in its environment
  tpsrl eval launch=ray launch.address=auto ...     on a cluster (docs/cluster.md)"""


@dataclass
class EvalConfig:
    """Keys of ``tpsrl eval scenario=...``."""

    skill: str | None = option(None, "evaluate one skill instead, by the keys of the other table")
    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    goal: str | None = field(default=None, metadata=GOAL)
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    path: Path | None = field(default=None, metadata=options.PATH)
    agent: str = field(default="scripted", metadata=agent_options.AGENT)
    weights: Path | None = field(default=None, metadata=agent_options.WEIGHTS)
    executor: str = field(default="hab", metadata=agent_options.EXECUTOR)
    episodes: int | None = field(
        default=None,
        metadata={"help": "how many, from the first; null for all there are", "min": 1},
    )
    out: Path | None = field(
        default=None,
        metadata={"help": "result folder; null for one in outputs/eval/, named after the run"},
    )
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)
    seed: int = field(default=0, metadata={"help": "of the whole run", "min": 0})
    max_steps: int | None = field(default=None, metadata=agent_options.MAX_STEPS)
    sim: str = field(default="mujoco", metadata=options.SIM)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    planner: PlannerConfig = field(default_factory=PlannerConfig)
    attempts: int = field(default=3, metadata=options.ATTEMPTS)
    timeout: float = field(default=3600.0, metadata=options.TIMEOUT)
    launch: LaunchConfig = field(default_factory=LaunchConfig, metadata=LAUNCH)
    record: str = option("failures", RECORD, choices=MODES)


CONFIG = (EvalConfig, SkillEvalConfig)


def run(overrides: list[str]) -> int:
    """Evaluate, print the table and the paths of the results."""
    if named(overrides, "skill") is not None:
        return _skill(overrides)
    config = load(EvalConfig, overrides)
    code = as_one_job(config.launch, "eval", run, overrides, config.workers)
    if code is not None:
        return code

    scenario = to_solve(config.scenario).name
    name = f"{scenario}_{config.split}_{config.agent}_{config.executor}{stem(config.goal)}"
    out = config.out or Path("outputs/eval") / name
    scenes = choose_scenes(config.path, config.data, config.scenario, config.split, config.episodes)
    episodes = load_scenario_episodes(
        config.scenario, config.split, config.data, config.episodes, config.workers, scenes
    )
    data = named_data(config.data)
    own = data is not None and data != REPLICA_CAD
    spec = evaluation_spec(
        scenario=config.scenario,
        agent=config.agent,
        executor=config.executor,
        engine=config.sim,
        max_steps=config.max_steps,
        seed=config.seed,
        config={"split": None if own else config.split, "data": data},
        weights=config.weights,
        scenes=scenes,
        habitat=habitat_options(config.habitat, config.gpu),
        goal=config.goal,
        planner=config.planner,
    )
    if config.agent != "scripted":
        print(skills_in_use(config.agent, config.scenario, config.weights))
    label = f"{scenario} {config.executor}"
    limits = (config.workers, config.attempts, config.timeout)
    summary = evaluate(spec, episodes, out, *limits, label, config.launch, config.record)
    print_summary(summary)
    for line in _about_words(config, [record for _, record in sorted(read_run(out)[1].items())]):
        print(f"\n{line}")
    figure = draw_stages(load_runs([out]), out / "stages.png")
    print(f"\n{out / 'summary.json'}\n{figure}\n{write_report(out)}")
    return report_errors(summary, out)


def _about_words(config: EvalConfig, records: list[EpisodeRecord]) -> list[str]:
    """Return sentences: which episodes cannot have the goal, and who understood it."""
    lines, refused = [], [record for record in records if record.end == GOAL_REFUSED]
    if refused:
        which = ", ".join(str(record.index) for record in refused)
        lines.append(
            f"{len(refused)} of {len(records)} episodes cannot have this goal and count as failures"
            f" ({which}): {refused[0].extra['refused']}"
        )
    if config.planner.llm is not None:
        notes = [" ".join(record.extra.get("notes", ())) for record in records]
        idle = len(refused) + sum("gave nothing usable" in note for note in notes)
        lines.append(
            f"planner.llm was of use in {len(notes) - idle} of {len(notes)} episodes; notes say how"
        )
    return lines


def _skill(overrides: list[str]) -> int:
    config = load(SkillEvalConfig, overrides)
    code = as_one_job(config.launch, "eval", run, overrides, config.workers)
    return evaluate_skill(config) if code is None else code
