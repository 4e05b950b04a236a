"""``tpsrl handoff``: start states of each skill, where the chain really arrives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner import options as agent_options
from tpsrl import options
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options
from tpsrl.jobs.processes import all_cores
from ver_trainer.options import load

HELP = """Run the chain over episodes and keep the state in which every skill starts.

Writes out= (one file for all skills), which skill environments start from:
  tpsrl handoff scenario=rearrange_easy data=train.json.gz agent=tpsrl out=starts.npz
  tpsrl train skill=pick env_args.start=handoff env_args.handoff=starts.npz \\
      env_args.handoff_fraction=0.5 env_args.episodes=train.json.gz
A command that was interrupted goes on from out.parts/."""

_BLOCK = 5


@dataclass
class HandoffConfig:
    """Keys of ``tpsrl handoff``."""

    scenario: str = field(default="rearrange_easy", metadata=options.SCENARIO)
    split: str = field(default="train", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    path: Path | None = field(default=None, metadata=options.PATH)
    agent: str = field(default="scripted", metadata=agent_options.AGENT)
    weights: Path | None = field(default=None, metadata=agent_options.WEIGHTS)
    executor: str = field(default="hab", metadata=agent_options.EXECUTOR)
    episodes: int | None = field(
        default=None, metadata={"help": "how many, from the first; null for all", "min": 1}
    )
    seed: int = field(default=0, metadata={"help": "of the chain", "min": 0})
    sim: str = field(default="mujoco", metadata=options.SIM)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    out: Path = field(default=Path("starts.npz"), metadata={"help": "file to write"})
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)


CONFIG = HandoffConfig


@dataclass(frozen=True)
class _Job:
    spec: Any
    episodes: tuple[Any, ...]
    first: int
    path: Path


def run(overrides: list[str]) -> int:
    """Run the chain where it has not been run, and write all start states."""
    config = load(HandoffConfig, overrides)
    if config.out.suffix != ".npz":
        raise UserError(f"out={config.out} must end in .npz")
    from eval.spec import evaluation_spec
    from planner.chain.make import skills_in_use
    from planner.chain.problems import to_solve
    from skills.tasks.handoff import read_starts, write_starts
    from tpsrl.jobs.batch import Tally, run_jobs
    from tpsrl.provide import load_scenario_episodes

    to_solve(config.scenario)
    scenes = choose_scenes(config.path, config.data, config.scenario, config.split, config.episodes)
    episodes = load_scenario_episodes(
        config.scenario, config.split, config.data, config.episodes, config.workers, scenes
    )
    spec = evaluation_spec(
        scenario=config.scenario,
        agent=config.agent,
        executor=config.executor,
        engine=config.sim,
        seed=config.seed,
        weights=config.weights,
        scenes=scenes,
        habitat=habitat_options(config.habitat, config.gpu),
    )
    if config.agent != "scripted":
        print(skills_in_use(config.agent, config.scenario, config.weights))
    parts = config.out.with_name(config.out.name + ".parts")
    _check_same(parts, spec.config, config)
    jobs = []
    for first in range(0, len(episodes), _BLOCK):
        path = parts / f"episodes_{first:06d}.npz"
        if not path.exists():
            jobs.append(_Job(spec, episodes[first : first + _BLOCK], first, path))
    missing = sum(len(job.episodes) for job in jobs)
    with Tally("chain", len(episodes), len(episodes) - missing) as tally:
        for job, count in run_jobs(_collect, jobs, config.workers):
            tally.add(len(job.episodes), f"{count} starts in the last {len(job.episodes)}")
    starts = [s for path in sorted(parts.glob("episodes_*.npz")) for s in read_starts(path)]
    write_starts(config.out, starts)
    counts = Counter(start.call.skill for start in starts)
    print(f"{config.out}: " + ", ".join(f"{n} {skill}" for skill, n in counts.most_common()))
    from eval.arrivals import arrivals, summary_lines
    from tpsrl.engines import make_simulator

    with make_simulator(**{**spec.simulator.kwargs, "depth": None}) as sim:
        table = arrivals(sim, starts)
    print("base to goal (m, deg), arm to reset posture (rad), before the handle (m): 10, 50, 90%")
    print("\n".join(f"  {line}" for line in summary_lines(table)))
    return 0


def _collect(job: _Job) -> int:
    """Run the chain over some episodes, in a worker process; write and count their starts."""
    import numpy as np

    from skills.tasks.handoff import StartRecorder, write_starts

    recorder = StartRecorder()
    with job.spec.simulator.build() as sim:
        for number, episode in enumerate(job.episodes, job.first):
            agent = job.spec.agent.build()
            agent.wrap_skills(recorder.wrap)
            seed = int(np.random.SeedSequence([job.spec.seed, number]).generate_state(1)[0])
            sim.reset([episode], [seed])
            agent.reset(sim, 0, episode, seed)
            for _ in range(job.spec.max_steps):
                action = agent.act(sim, 0)
                if action is None:
                    break
                sim.step(action[None])
    write_starts(job.path, recorder.starts)
    return len(recorder.starts)


def _check_same(parts: Path, described: Any, config: HandoffConfig) -> None:
    import json

    from tpsrl.files import write_json

    data = str(config.data.resolve()) if config.data else None
    wanted = json.loads(json.dumps({**described, "data": data, "split": config.split}))
    path = parts / "config.json"
    if path.exists() and json.loads(path.read_text()) != wanted:
        raise UserError(f"{parts} holds starts of another chain; delete it or choose another out.")
    write_json(path, wanted)
