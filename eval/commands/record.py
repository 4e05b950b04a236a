"""``tpsrl record``: a video of one episode."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from eval.spec import evaluation_spec
from eval.video import record_episode
from planner import options as agent_options
from planner.chain.problems import to_solve
from planner.words.options import GOAL, PlannerConfig, stem
from tpsrl import options
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options
from tpsrl.jobs.processes import all_cores
from tpsrl.provide import load_scenario_episodes, pick_episode
from ver_trainer.options import load

HELP = """Record a video of one episode: third-person view with the head depth picture, the running
skill and the plan; a yellow wireframe at the object, a green one at its goal.

The episode runs exactly as 'tpsrl eval' with the same seed runs it."""


@dataclass
class RecordConfig:
    """Keys of ``tpsrl record``."""

    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    goal: str | None = field(default=None, metadata=GOAL)
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    episode: int = field(default=0, metadata={"help": "index in the set, from 0"})
    agent: str = field(default="scripted", metadata=agent_options.AGENT)
    weights: Path | None = field(default=None, metadata=agent_options.WEIGHTS)
    executor: str = field(default="replan", metadata=agent_options.EXECUTOR)
    out: Path | None = field(
        default=None, metadata={"help": ".mp4 file; null for outputs/SCENARIO_EPISODE.mp4"}
    )
    every: int = field(
        default=1,
        metadata={"help": "control steps a frame: 1 is real time, 4 four times as fast", "min": 1},
    )
    seed: int = field(default=0, metadata={"help": "as in tpsrl eval", "min": 0})
    max_steps: int | None = field(default=None, metadata=agent_options.MAX_STEPS)
    sim: str = field(default="mujoco", metadata=options.SIM)
    path: Path | None = field(default=None, metadata=options.PATH)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    planner: PlannerConfig = field(default_factory=PlannerConfig)


CONFIG = RecordConfig


def run(overrides: list[str]) -> int:
    """Record the video and say how the episode ended."""
    config = load(RecordConfig, overrides)
    # Mesa's software renderer may use all cores here: nothing else runs beside it.
    os.environ.setdefault("LP_NUM_THREADS", str(all_cores()))

    scenario = to_solve(config.scenario).name
    scenes = choose_scenes(config.path, config.data, config.scenario, config.split, None)
    episodes = load_scenario_episodes(
        config.scenario, config.split, config.data, scenes=scenes, least=config.episode + 1
    )
    episode = pick_episode(episodes, config.episode)
    spec = evaluation_spec(
        scenario=config.scenario,
        agent=config.agent,
        executor=config.executor,
        engine=config.sim,
        max_steps=config.max_steps,
        seed=config.seed,
        depth=128,
        weights=config.weights,
        scenes=scenes,
        habitat=habitat_options(config.habitat, config.gpu),
        goal=config.goal,
        planner=config.planner,
    )
    out = config.out or Path("outputs") / f"{scenario}_{config.episode}{stem(config.goal)}.mp4"
    record = record_episode(spec, episode, config.episode, out, config.every)
    for note in record.extra.get("notes", ()):
        print(note)
    failure = record.failure
    ending = f"failed ({failure['skill']}: {failure['cause']})" if failure else "success"
    print(
        f"{out}: {ending}, {record.steps} steps, {record.replans} replans, states {record.states}"
    )
    return 0
