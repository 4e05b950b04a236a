"""``tpsrl episodes``: generate and check episodes of a scenario."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from tpsrl import options
from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError
from tpsrl.generation.moved import moved_episodes
from tpsrl.generation.parallel import generate
from tpsrl.generation.rules import SPLIT_LAYOUTS, load_scenario, with_clutter
from tpsrl.launch.config import LAUNCH, LaunchConfig
from tpsrl.launch.start import as_one_job
from tpsrl.provide import check_playable
from tpsrl.scenes.apartment import load_apartment
from ver_trainer.options import load

HELP = """Generate rearrangement episodes and check each of them in the physics engine.
Interrupted work goes on where it stopped when the same command is run again."""


@dataclass
class EpisodesConfig:
    """What to generate."""

    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    split: str = field(
        default="val",
        metadata={"help": "whose layouts to use", "choices": list(SPLIT_LAYOUTS)},
    )
    n: int = field(default=100, metadata={"help": "number of episodes", "min": 1})
    seed: int = field(default=0, metadata={"help": "of the whole set", "min": 0})
    out: Path = field(
        default=Path("episodes.json.gz"),
        metadata={"help": "file to write, .json or .json.gz"},
    )
    workers: int = field(default=2, metadata={"help": "processes", "min": 1})
    clutter: int | None = field(
        default=None, metadata={"help": "objects that are no targets", "min": 0}
    )
    moved: Path | None = field(
        default=None,
        metadata={"help": "episode file to move into the split's layouts, nothing is simulated"},
    )
    launch: LaunchConfig = field(default_factory=LaunchConfig, metadata=LAUNCH)


CONFIG = EpisodesConfig


def run(overrides: list[str]) -> int:
    """Generate a set of episodes."""
    config = load(EpisodesConfig, overrides)
    if not config.out.name.endswith((".json", ".json.gz")):
        raise UserError(f"out={config.out} must end in .json or .json.gz")
    if config.moved is not None:
        _refuse_rules(overrides)
    code = as_one_job(config.launch, "episodes", run, overrides, config.workers)
    if code is not None:
        return code
    if config.moved is not None:
        return _move(config, config.moved)
    scenario = load_scenario(config.scenario)
    if config.clutter is not None:
        scenario = with_clutter(scenario, config.clutter)

    started = time.monotonic()
    what = (scenario, config.split, config.n, config.seed)
    rejections = generate(*what, config.out, config.workers, config.launch)
    seconds = time.monotonic() - started
    print(f"{config.out}: {config.n} episodes in {seconds:.0f} s")
    total = sum(rejections.values())
    if total:
        print(f"{total} draws were not usable, most often because:")
        for reason, count in rejections.most_common(5):
            print(f"  {count:5d}  {reason}")
    return 0


def _refuse_rules(overrides: list[str]) -> None:
    for key in ("scenario", "clutter"):
        if any(word.startswith(f"{key}=") for word in overrides):
            raise UserError(f"moved= moves episodes as they are: leave {key}= out")


def _move(config: EpisodesConfig, source: Path) -> int:
    """Write the episodes of a file with their furniture as in layouts of ``split``."""
    if not config.split.startswith("wide"):
        raise UserError("moved= is for split=wide and split=widedev: its episodes are not checked")
    episodes = load_episodes(source).episodes
    check_playable(episodes, source)
    found = moved_episodes(episodes, load_apartment(), config.split, config.n, config.seed)
    save_episodes(config.out, EpisodeSet(tuple(found)))
    print(f"{config.out}: {config.n} episodes of {source} in {config.split} layouts")
    return 0
