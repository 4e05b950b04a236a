"""``tpsrl dataset``: episodes as a data set in LeRobot's format, out, again, and learned from."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from eval.dataset.clone import CloneConfig, clone_skill
from eval.dataset.lerobot import features, pack, parquet
from eval.dataset.record import record
from eval.dataset.replay import replay
from eval.runner import report_errors
from eval.spec import evaluation_spec
from eval.table import print_summary
from planner.chain import options as agent_options
from planner.chain.problems import to_solve
from skills.book import chained
from tpsrl import options
from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError, nearest
from tpsrl.habitat.scenes import named_data
from tpsrl.jobs.folder import CONFIG_FILE, read_folder
from tpsrl.jobs.processes import all_cores
from tpsrl.launch.config import LAUNCH, LaunchConfig
from tpsrl.launch.start import as_one_job
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import load, option

HELP = """Write what an agent did as a data set in LeRobot's format v3.0 (docs/datasets.md).

  tpsrl dataset export scenario=tidy_house episodes=50 out=DIR
                                     run episodes, keep their frames, make the data set; the same
                                     command again goes on where it was stopped
                                     (launch=ray: on a cluster that shares out=, docs/cluster.md)
  tpsrl dataset replay data=DIR      do the recorded actions again, compare with what was recorded
  tpsrl dataset clone data=DIR skill=pick out=DIR
                                     learn a skill from it (behaviour cloning) and try it"""


@dataclass
class DatasetConfig:
    """Keys of ``tpsrl dataset``."""

    format: str = option("lerobot", "export: of what library", choices=("lerobot",))
    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    split: str = field(default="train", metadata=options.SPLIT)
    episode_file: Path | None = option(None, "export: Habitat episode file instead of the split's")
    agent: str = field(default="scripted", metadata=agent_options.AGENT)
    weights: Path | None = field(default=None, metadata=agent_options.WEIGHTS)
    executor: str = field(default="replan", metadata=agent_options.EXECUTOR)
    episodes: int | None = option(None, "export: to run; replay: of the set; null: 50, all", min=1)
    failures: bool = option(False, "export: keep episodes that failed, too")
    pixels: int = option(256, "export: of the square colour pictures", min=16, max=960)
    depth: int = option(
        128, "export: of the depth picture, where the policies ask for none", min=16
    )
    out: Path | None = option(None, "folder; null: below outputs/datasets")
    data: Path | None = option(None, "replay, clone: folder of a data set")
    skill: str = option("pick", "clone: which", choices=chained())
    epochs: int = option(60, "clone: passes over the frames", min=1)
    trials: int = option(50, "clone: episodes in which the policy is tried; 0: none", min=0)
    seed: int = option(0, "export: of the whole run, as in tpsrl eval", min=0)
    max_steps: int | None = field(default=None, metadata=agent_options.MAX_STEPS)
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)
    attempts: int = field(default=3, metadata=options.ATTEMPTS)
    timeout: float = field(default=3600.0, metadata=options.TIMEOUT)
    launch: LaunchConfig = field(default_factory=LaunchConfig, metadata=LAUNCH)


CONFIG = DatasetConfig
VERBS = ("export", "replay", "clone")


def run(overrides: list[str]) -> int:
    """Export a data set, replay it or learn from it."""
    if not overrides or overrides[0] not in VERBS:
        given = f"'{overrides[0]}'" if overrides else "nothing"
        raise UserError(f"tpsrl dataset got {given}{nearest((overrides or [''])[0], VERBS)}")
    config = load(DatasetConfig, overrides[1:])
    parquet()
    if overrides[0] == "export":
        code = as_one_job(config.launch, "dataset", run, overrides, config.workers)
        return _export(config) if code is None else code
    if config.launch.engine != "local":
        raise UserError(
            f"launch={config.launch.engine} is of tpsrl dataset export; {overrides[0]} runs here"
        )
    if config.data is None:
        raise UserError(f"tpsrl dataset {overrides[0]} needs data=DIR, the folder of a data set")
    return _replay(config, config.data) if overrides[0] == "replay" else _clone(config, config.data)


def _replay(config: DatasetConfig, data: Path) -> int:
    """Replay; the exit code is 0 if everything was as recorded."""
    won, again, same, count = replay(data, config.episodes, config.workers)
    print(f"{data}: {again} of {won} successes again, same states in {same} of {count} episodes")
    return int(again < won or same < count)


def _clone(config: DatasetConfig, data: Path) -> int:
    out = config.out or Path("outputs/datasets") / f"{data.name}_{config.skill}"
    wanted = CloneConfig(config.skill, config.epochs, config.trials, config.seed)
    found = clone_skill(data, wanted, out)
    print(", ".join(f"{name} {value:.3g}" for name, value in found.items()))
    print(out / "policy.safetensors")
    return 0


def _export(config: DatasetConfig) -> int:
    """Record what is missing, then make the data set."""
    # Pictures are drawn by Mesa's threads in each worker, which share the cores.
    os.environ.setdefault("LP_NUM_THREADS", str(max(all_cores() // config.workers, 1)))
    for key in ("pixels", "depth"):
        if getattr(config, key) % 2:
            raise UserError(f"{key}={getattr(config, key)}; videos have an even number of pixels")
    scenario, count = to_solve(config.scenario).name, config.episodes or 50
    name = f"{scenario}_{config.split}_{config.agent}"
    out = (config.out or Path("outputs/datasets") / name).resolve()  # '.' has no name
    if out.exists() and any(out.iterdir()):
        raise UserError(f"out={out} holds files already; choose another folder, or remove it")
    parts = out.with_name(f"{out.name}.parts")
    described = {key: getattr(config, key) for key in ("split", "pixels", "depth", "failures")}
    described["episode_file"] = named_data(config.episode_file)
    spec = evaluation_spec(
        scenario=config.scenario, agent=config.agent, executor=config.executor,
        max_steps=config.max_steps, seed=config.seed, depth=config.depth, weights=config.weights,
        config=described,
    )  # fmt: skip
    problems = parts / "episodes.json.gz"
    # Without a config nobody knows whose episodes these are: its command ended before it ran any.
    if not problems.exists() or not (parts / CONFIG_FILE).exists():
        found = load_scenario_episodes(
            config.scenario, config.split, config.episode_file, count, config.workers
        )
        save_episodes(problems, EpisodeSet(found))
    # From the file that will be replayed, whose numbers are rounded.
    episodes = load_episodes(problems).episodes[:count]
    if len(episodes) < count:
        raise UserError(
            f"{parts} was begun with episodes={len(episodes)}; give no more, or choose another out="
        )
    depth = spec.simulator.kwargs["depth"]
    limits = (config.workers, config.attempts, config.timeout, config.launch)
    summary = record(spec, episodes, parts, config.pixels, depth, config.failures, *limits)
    print_summary(summary)
    code = report_errors(summary, parts)
    records = [r for _, r in sorted(read_folder(parts)[1].items()) if r["index"] < count]
    kept = [r for r in records if r["steps"] and (r["success"] or config.failures)]
    pack(parts, kept, out, features(config.pixels, depth), spec.config)
    if not summary["errors"]:  # else they say why
        shutil.rmtree(parts)
    frames = sum(r["steps"] for r in kept)
    print(f"\n{out}: {len(kept)} of {count} episodes, {frames} frames")
    return code
