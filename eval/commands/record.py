"""``tpsrl record``: videos of episodes, of what failed, of one skill, of two agents."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path

from eval.again import DEPTH, Chain, read_evaluation
from eval.again import failed as failures_of
from eval.figures import own_parts
from eval.skills import SkillEvalConfig, TrialConfig, study_of
from eval.spec import EvaluationSpec, evaluation_spec
from eval.video import Side, compare_episode, ending, record_episode, record_trial
from planner.chain import options as agent_options
from planner.chain.make import skills_in_use
from planner.chain.problems import to_solve
from planner.words.options import GOAL, PlannerConfig, stem
from tpsrl import options
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options
from tpsrl.jobs.processes import all_cores
from tpsrl.provide import load_scenario_episodes, pick_episode
from ver_trainer.options import load, named, option

HELP = """Record a video, 1280x720, H.264: the robot from a place where no furniture hides it, and
beside it the running skill, the plan and why it is a new one, the head depth picture and a map.
A yellow wireframe is at the object, a green one at its goal.

  tpsrl record scenario=set_table agent=tpsrl episode=3
  tpsrl record skill=pick weights=runs/pick            one skill alone
  tpsrl record failures=outputs/eval/DIR most=5        what failed there, into DIR/videos
  tpsrl record compare=DIR1,DIR2 episode=3             two results side by side

An episode runs exactly as 'tpsrl eval' with the same seed runs it."""

SPEED = option(1, "1 is real time, 4 four times as fast (a frame every 4 control steps)", min=1)


@dataclass
class RecordConfig:
    """Keys of ``tpsrl record``."""

    skill: str | None = option(None, "one skill alone, by the keys of the other table")
    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    goal: str | None = field(default=None, metadata=GOAL)
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    episode: int = option(0, "index in the set, from 0", min=0)
    agent: str = field(default="scripted", metadata=agent_options.AGENT)
    weights: Path | None = field(default=None, metadata=agent_options.WEIGHTS)
    executor: str = field(default="replan", metadata=agent_options.EXECUTOR)
    failures: Path | None = option(None, "result folder of 'tpsrl eval': record what failed there")
    most: int = option(10, "failures=: so many videos at most", min=1)
    compare: str | None = option(None, "DIR1,DIR2: two result folders, one episode side by side")
    out: Path | None = option(
        None, "FILE.mp4; null: outputs/SCENARIO_EPISODE.mp4; a folder with failures="
    )
    speed: int = SPEED
    seed: int = field(default=0, metadata={"help": "as in tpsrl eval", "min": 0})
    max_steps: int | None = field(default=None, metadata=agent_options.MAX_STEPS)
    sim: str = field(default="mujoco", metadata=options.SIM)
    path: Path | None = field(default=None, metadata=options.PATH)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    planner: PlannerConfig = field(default_factory=PlannerConfig)


@dataclass
class SkillRecordConfig(TrialConfig):
    """Keys of ``tpsrl record skill=...``."""

    episode: int = option(0, "number of the episode, as in tpsrl eval", min=0)
    out: Path | None = option(None, "FILE.mp4; null: outputs/SKILL_EPISODE.mp4")
    speed: int = SPEED


CONFIG = (RecordConfig, SkillRecordConfig)


def run(overrides: list[str]) -> int:
    """Record the videos and say how the episodes ended."""
    # Mesa's software renderer may use all cores here: nothing else runs beside it.
    os.environ.setdefault("LP_NUM_THREADS", str(all_cores()))
    if named(overrides, "skill") is not None:
        return _skill(load(SkillRecordConfig, overrides))
    config = load(RecordConfig, overrides)
    _check_keys(config, overrides)
    if config.failures is not None:
        return _failures(config, config.failures)
    if config.compare is not None:
        return _compare(config, config.compare)
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
        depth=DEPTH,
        weights=config.weights,
        scenes=scenes,
        habitat=habitat_options(config.habitat, config.gpu),
        goal=config.goal,
        planner=config.planner,
    )
    if config.agent != "scripted":
        print(skills_in_use(config.agent, config.scenario, config.weights))
    out = config.out or Path("outputs") / f"{scenario}_{config.episode}{stem(config.goal)}.mp4"
    record = record_episode(spec, episode, config.episode, out, config.speed)
    for note in record.extra.get("notes", ()):
        print(note)
    print(
        f"{out}: {_how(ending(record))}, {record.steps} steps, {record.replans} replans, states"
        f" {record.states}"
    )
    return 0


def _check_keys(config: RecordConfig, overrides: list[str]) -> None:
    """Refuse what would be passed over: a result folder says itself what was run."""
    given = {word.partition("=")[0] for word in overrides}
    for mode, value, own in (
        ("failures", config.failures, {"most"}),
        ("compare", config.compare, {"episode"}),
    ):
        free = own | {mode, "out", "speed", "config", "gpu"}
        rest = sorted(key for key in given - free if key.partition(".")[0] != "habitat")
        if value is not None and rest:
            raise UserError(
                f"{mode}= takes from the results what to run; leave out {', '.join(rest)}"
            )


def _skill(config: SkillRecordConfig) -> int:
    tried = {key.name: getattr(config, key.name) for key in dataclasses.fields(TrialConfig)}
    study = study_of(SkillEvalConfig(**tried))
    out = config.out or Path("outputs") / f"{config.skill}_{config.episode}.mp4"
    record = record_trial(study, config.seed + config.episode, out, config.speed)
    cause = "" if record["success"] else record["cause"]
    print(f"{out}: {_how(cause)}, {record['steps']} steps, states {record['states']}")
    return 0


def _failures(config: RecordConfig, folder: Path) -> int:
    evaluation = read_evaluation(folder, habitat=config.habitat, gpu=config.gpu)
    records = evaluation.records
    failed = failures_of(records)
    print(f"{folder}: {len(failed)} of {len(records)} episodes failed")
    into = config.out or folder / "videos"
    for index in failed[: config.most]:
        out = into / f"failure_{index:04d}.mp4"
        if isinstance(evaluation, Chain):
            episode = evaluation.episode(index, folder)
            chain = record_episode(evaluation.spec, episode, index, out, config.speed)
            cause, states = ending(chain), chain.states
        else:
            seed = records[index]["seed"]
            trial = record_trial(evaluation.study, seed, out, config.speed)
            cause, states = "" if trial["success"] else trial["cause"], trial["states"]
        print(f"{out}: {_how(cause)}")
        if states != records[index]["states"]:
            print(
                f"  episode {index} went otherwise than in {folder}: those results are of another"
                " version of the program or of another machine"
            )
    if len(failed) > config.most:
        print(f"{len(failed) - config.most} more failed; most={len(failed)} records all")
    return 0


def _compare(config: RecordConfig, names: str) -> int:
    folders = [Path(name) for name in names.split(",")]
    if len(folders) != 2:
        raise UserError(f"compare={names} names {len(folders)} folders; give two with a comma.")
    left, right = (
        read_evaluation(folder, habitat=config.habitat, gpu=config.gpu) for folder in folders
    )
    if not isinstance(left, Chain) or not isinstance(right, Chain):
        raise UserError("compare= takes results of 'tpsrl eval scenario=...', not of a skill.")
    episode = left.episode(config.episode, folders[0])
    other = right.spec.job(config.episode, right.episode(config.episode, folders[1]))
    if other.fingerprint != left.spec.job(config.episode, episode).fingerprint:
        raise UserError(
            f"{folders[0]} and {folders[1]} ran different episodes; compare results of one set."
        )
    out = config.out or Path("outputs") / f"compare_{config.episode}.mp4"
    parts = own_parts(folders)
    sides = [_side(c.spec, part) for c, part in zip((left, right), parts, strict=True)]
    records = compare_episode((sides[0], sides[1]), episode, config.episode, out, config.speed)
    how = "; ".join(f"{s.title}: {_how(ending(r))}" for s, r in zip(sides, records, strict=True))
    print(f"{out}: {how}")
    return 0


def _side(spec: EvaluationSpec, name: str) -> Side:
    words = [str(spec.config.get(key) or "") for key in ("agent", "executor")]
    return Side(spec, f"{name}: {' '.join(filter(None, words))}")


def _how(cause: str) -> str:
    return f"failed ({cause})" if cause else "success"
