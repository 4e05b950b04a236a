"""Episodes for a command: of a file, of a scene dataset, of the shipped set, or newly made."""

from __future__ import annotations

import fcntl
import sys
import warnings
from pathlib import Path

from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.shipped import shipped_file
from tpsrl.episodes.types import Episode
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.generation.parallel import fingerprint, generate
from tpsrl.generation.rules import load_scenario
from tpsrl.habitat.scenes import Scenes
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.cache import cache_dir
from tpsrl.scenes.objects import object_types


def load_scenario_episodes(
    scenario: str,
    split: str = "val",
    data: Path | None = None,
    count: int | None = None,
    cache: Path | None = None,
    workers: int = 1,
    scenes: Scenes | None = None,
) -> tuple[Episode, ...]:
    """Return the first episodes of a file, of the shipped set, or of a newly generated one.

    Args:
        scenario: one of ``SCENARIOS``.
        split: one of ``SPLITS``; unused with ``data``.
        data: Habitat episode file of one's own.
        count: how many; ``None`` for all there are.
        cache: file to generate episodes into when the shipped set is too small.
        workers: processes that generate.
        scenes: of a Habitat dataset; its episodes are taken and ``data`` is not looked at.

    Raises:
        UserError: unreadable file, episodes of another scenario, or fewer than ``count``.
    """
    if scenes is not None:
        return _of_dataset(scenes, count)
    source = data or shipped_file(scenario, split)
    episodes = load_episodes(source).episodes if data or source.exists() else ()
    _check_scenario(scenario, episodes, source)
    if data is not None:
        _check_playable(episodes[:count], source)
    if data is None and len(episodes) < (count or 1):
        if cache is None:
            raise UserError(
                f"only {len(episodes)} {split} episodes of {scenario} ship with tpsrl; make more "
                f"with 'tpsrl episodes scenario={scenario} split={split} n={count or 100} "
                "out=FILE.json.gz' and give data=FILE.json.gz"
            )
        episodes = _generated(scenario, split, count or 100, cache, workers)
        source = cache
    if count is not None and len(episodes) < count:
        raise UserError(f"{source} holds {len(episodes)} episodes; {count} were asked for")
    return tuple(episodes[:count])


def _of_dataset(scenes: Scenes, count: int | None) -> tuple[Episode, ...]:

    dataset, episodes = scenes.read()
    _check_scenario(scenes.scenario, episodes, Path(scenes.file or scenes.path))
    if count is not None and len(episodes) < count:
        raise UserError(f"{scenes.path} has {len(episodes)} episodes; {count} were asked for")
    for episode in episodes:
        validate(episode, dataset.apartment, dataset.types)
    return episodes


def make_episodes(scenario: str, split: str, count: int, workers: int = 1) -> Path:
    """Return a file of generated episodes, which is made once on a machine.

    It lies in :func:`cache_dir`, under a name that tells the scenario's rules and the scenes.

    Args:
        scenario: one that :func:`load_scenario` knows.
        split: whose layouts.
        count: how many.
        workers: processes that generate.
    """
    rules = load_scenario(scenario)
    path = _made_folder() / f"{scenario}_{split}_{count}_{fingerprint(rules, split, 0)}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    # the ranks of one training come here together
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            print(f"making {count} {split} episodes of {scenario}, once: {path}", file=sys.stderr)
            generate(rules, split, count, 0, path, workers)
    return path


def find_episodes(scenario: str, split: str) -> Path:
    """Return the file of a shipped set, or else the largest that was made on this machine.

    Raises:
        UserError: there is none. In place of a train set the shipped val set is returned, with a
            warning.
    """
    shipped, substitute = shipped_file(scenario, split), shipped_file(scenario)
    if shipped.exists():
        return shipped
    pattern = f"{scenario}_{split}_*_{fingerprint(load_scenario(scenario), split, 0)}.json.gz"
    made = sorted(_made_folder().glob(pattern), key=lambda path: int(path.name.split("_")[-2]))
    if made:
        return made[-1]
    hint = f"'tpsrl episodes scenario={scenario} split={split}' makes some"
    if split != "train" or not substitute.exists():
        raise UserError(f"no {split} episodes of '{scenario}' ship with tpsrl; {hint}.")
    warnings.warn(
        f"no train episodes of '{scenario}' are on this machine, its val episodes are used: fine"
        f" for a first look, not for training; {hint}, pass their file as episodes=FILE.",
        stacklevel=2,
    )
    return substitute


def _made_folder() -> Path:
    return cache_dir() / "episodes"


def pick_episode(episodes: tuple[Episode, ...], index: int) -> Episode:
    """Return the episode with this index.

    Raises:
        UserError: there is none.
    """
    if not 0 <= index < len(episodes):
        raise UserError(f"episode={index} does not exist; give 0 to {len(episodes) - 1}")
    return episodes[index]


def _check_scenario(scenario: str, episodes: tuple[Episode, ...], source: Path) -> None:
    for episode in episodes:
        if episode.scenario and episode.scenario != scenario:
            raise UserError(
                f"{source} holds episodes of {episode.scenario}, not of {scenario}; "
                f"give scenario={episode.scenario}"
            )


def _check_playable(episodes: tuple[Episode, ...], source: Path) -> None:
    """Refuse a foreign file before hours are spent on its good part."""
    if not episodes:
        raise UserError(f"{source} holds no episodes")
    apartment, types = load_apartment(), object_types()
    for episode in episodes:
        try:
            validate(episode, apartment, types)
        except UserError as error:
            raise UserError(f"{source}: {error}") from error


def _generated(
    scenario: str, split: str, count: int, cache: Path, workers: int
) -> tuple[Episode, ...]:
    """Read a generated set, making it (or its missing rest) first."""
    if cache.exists():
        episodes = load_episodes(cache).episodes
        if len(episodes) >= count:
            return episodes
    cache.parent.mkdir(parents=True, exist_ok=True)
    generate(load_scenario(scenario), split, count, 0, cache, workers)
    return load_episodes(cache).episodes
