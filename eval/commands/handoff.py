"""``tpsrl handoff``: start states of each skill, where the chain really arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from eval.arrivals import arrivals, summary_lines
from eval.episode import EpisodeJob
from eval.spec import EvaluationSpec, evaluation_spec
from planner.chain import options as agent_options
from planner.chain.catalog import AGENTS
from planner.chain.make import skills_in_use
from planner.chain.problems import to_solve
from skills.tasks.handoff import HandoffStart, StartRecorder, is_sound, read_starts, write_starts
from tpsrl import options
from tpsrl.engines import make_simulator
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options, named_data
from tpsrl.jobs.folder import ResultFolder
from tpsrl.jobs.pool import JobPool
from tpsrl.jobs.processes import all_cores
from tpsrl.jobs.progress import Tally
from tpsrl.jobs.threads import one_thread
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import load

HELP = """Run the chain over episodes and keep the state in which every skill starts.

Writes out= (one file for all skills), which skill environments start from:
  tpsrl handoff scenario=rearrange_easy data=train.json.gz agent=tpsrl out=starts.npz
  tpsrl train skill=pick env_args.start=handoff env_args.handoff=starts.npz \\
      env_args.handoff_fraction=0.5 env_args.episodes=train.json.gz
States that no episode could begin in (something was flung out of the house) are left out. A command
that was interrupted goes on from out.parts/."""


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
    tries: int = field(
        default=0,
        metadata={"help": "of the same call in an episode keep so many; 0: all", "min": 0},
    )
    seed: int = field(default=0, metadata={"help": "of the chain", "min": 0})
    sim: str = field(default="mujoco", metadata=options.SIM)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    out: Path = field(default=Path("starts.npz"), metadata={"help": "file to write"})
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)


CONFIG = HandoffConfig


def run(overrides: list[str]) -> int:
    """Run the chain where it has not been run, and write all start states."""
    config = load(HandoffConfig, overrides)
    if config.out.suffix != ".npz":
        raise UserError(f"out={config.out} must end in .npz")
    if config.agent == "monolithic":
        raise UserError(
            "agent=monolithic is one policy without skills, so no skill starts in its episodes;"
            f" give {', '.join(name for name in AGENTS if name != config.agent)}"
        )
    to_solve(config.scenario)
    scenes = choose_scenes(config.path, config.data, config.scenario, config.split, config.episodes)
    episodes = load_scenario_episodes(
        config.scenario, config.split, config.data, config.episodes, config.workers, scenes
    )
    data = named_data(config.data)
    spec = evaluation_spec(
        scenario=config.scenario,
        agent=config.agent,
        executor=config.executor,
        engine=config.sim,
        seed=config.seed,
        config={"split": config.split, "data": data, "tries": config.tries},
        weights=config.weights,
        scenes=scenes,
        habitat=habitat_options(config.habitat, config.gpu),
    )
    if config.agent != "scripted":
        print(skills_in_use(config.agent, config.scenario, config.weights))
    starts = _collect(spec, episodes, config)
    write_starts(config.out, starts)
    counts = Counter(start.call.skill for start in starts)
    print(f"{config.out}: " + ", ".join(f"{n} {skill}" for skill, n in counts.most_common()))
    with make_simulator(**{**spec.simulator.kwargs, "depth": None}) as sim:
        table = arrivals(sim, starts)
    print("base to goal (m, deg), arm to reset posture (rad), before the handle (m): 10, 50, 90%")
    print("\n".join(f"  {line}" for line in summary_lines(table)))
    return 0


def _collect(
    spec: EvaluationSpec, episodes: Sequence[Episode], config: HandoffConfig
) -> list[HandoffStart]:
    """Run the chain over the episodes that the folder of parts lacks; return all their starts."""
    jobs = [spec.job(index, episode) for index, episode in enumerate(episodes)]
    with ResultFolder(config.out.with_name(config.out.name + ".parts"), spec.config) as folder:
        todo = folder.missing(jobs)
        record = partial(_recording, spec, folder.path, config.tries)
        pool = JobPool[EpisodeJob, int](record, config.workers)
        with Tally("chain", len(jobs), len(jobs) - len(todo)) as tally, pool:
            for job, count in pool.results(todo):
                own = {"index": job.index, "fingerprint": job.fingerprint}
                folder.append({**own, "starts": count})
                tally.add(1, f"{count} starts in the last one")
        found = [r["index"] for r in folder.first(len(jobs)) if r["starts"]]
        return [start for index in found for start in read_starts(_part(folder.path, index))]


def _part(folder: Path, index: int) -> Path:
    return folder / f"episode_{index:06d}.npz"


@contextmanager
def _recording(
    spec: EvaluationSpec, folder: Path, tries: int
) -> Iterator[Callable[[EpisodeJob], int]]:
    """Run the chain over episodes, in a worker process; write and count their starts."""
    with one_thread(), spec.simulator.build() as sim:

        def record(job: EpisodeJob) -> int:
            recorder, agent = StartRecorder(tries), spec.agent.build()
            agent.wrap_skills(recorder.wrap)
            sim.reset([job.episode], [job.seed])
            agent.reset(sim, 0, job.episode, job.seed)
            for _ in range(spec.max_steps):
                action = agent.act(sim, 0)
                if action is None:
                    break
                sim.step(action[None])
                if bool(sim.state().diverged[0]):
                    break  # the engine has begun the episode anew
            starts = [start for start in recorder.starts if is_sound(start)]
            if starts:
                write_starts(_part(folder, job.index), starts)
            return len(starts)

        yield record
