"""Episodes for a command: of a file, of a scene dataset, of the shipped set, or newly made."""

from __future__ import annotations

import fcntl
import glob
import sys
import warnings
from pathlib import Path

from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.shipped import shipped_file
from tpsrl.episodes.types import Episode
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.generation.parallel import fingerprint, generate
from tpsrl.generation.rules import Scenario, load_scenario
from tpsrl.habitat.scenes import Scenes
from tpsrl.jobs.processes import all_cores
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.cache import cache_dir
from tpsrl.scenes.objects import object_types

TRAIN_EPISODES = 500
"""So many of a split that does not ship are made where none are named."""


def load_scenario_episodes(
    scenario: str,
    split: str = "val",
    data: Path | None = None,
    count: int | None = None,
    workers: int = 1,
    scenes: Scenes | None = None,
    least: int | None = None,
) -> tuple[Episode, ...]:
    """Return the first episodes of a file, or of the shipped set and what was generated after it.

    Args:
        scenario: name of one that ships, or the path of a YAML file.
        split: one of ``SPLITS``; unused with ``data``.
        data: Habitat episode file of one's own.
        count: how many; ``None`` for all there are.
        workers: processes that generate.
        scenes: of a Habitat dataset; its episodes are taken and ``data`` is not looked at.
        least: with ``count=None``: so many are generated where none ship, 100 without a number;
            where some do, what was made on this machine follows them if it reaches so far.

    Raises:
        UserError: unreadable file, episodes of another scenario, or fewer than ``count``.
    """
    if scenes is not None:
        return _of_dataset(scenes, count)
    rules = load_scenario(scenario)
    source = data or shipped_file(rules.name, split)
    ships = not rules.file and source.exists()
    episodes = load_episodes(source).episodes if data or ships else ()
    if data is None:
        more, source = _more(rules, split, len(episodes), count, least, workers) or ((), source)
        episodes = (*episodes, *more)  # those that ship stay what they are
    _check_scenario(rules.name, episodes, source)
    if data is not None:
        check_playable(episodes[:count], source)
    if count is not None and len(episodes) < count:
        raise UserError(f"{source} holds {len(episodes)} episodes; {count} were asked for")
    return tuple(episodes[:count])


def _more(
    rules: Scenario, split: str, ships: int, count: int | None, least: int | None, workers: int
) -> tuple[tuple[Episode, ...], Path] | None:
    """Return the episodes that follow those that ship, and their file; ``None`` for none."""
    made = _made(rules, split)
    wanted = count or least or (0 if ships else 100)
    if wanted <= ships:
        return None
    if count is None and ships:  # a number too high is a mistake, and no reason to make hundreds
        source = made[-1][1] if made and made[-1][0] >= wanted else None
    else:
        source = make_episodes(rules, split, wanted, workers)
    return None if source is None else (load_episodes(source).episodes[ships:wanted], source)


def _of_dataset(scenes: Scenes, count: int | None) -> tuple[Episode, ...]:
    dataset, episodes = scenes.read()
    _check_scenario(scenes.scenario, episodes, Path(scenes.file or scenes.path))
    if count is not None and len(episodes) < count:
        raise UserError(f"{scenes.path} has {len(episodes)} episodes; {count} were asked for")
    for episode in episodes:
        validate(episode, dataset.apartment, dataset.types)
    return episodes


def make_episodes(rules: Scenario, split: str, count: int, workers: int = 1) -> Path:
    """Return a file with at least ``count`` generated episodes, which is made once on a machine.

    It lies in :func:`cache_dir`, under a name that tells the scenario's rules and the scenes.

    Args:
        rules: of the scenario.
        split: whose layouts.
        count: how many.
        workers: processes that generate.

    Raises:
        UserError: the file cannot be written, or an episode cannot be made.
    """
    folder, code = cache_dir() / "episodes", fingerprint(rules, split, 0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}, where made episodes are kept, cannot be made ({error.strerror}); let"
            " XDG_CACHE_HOME name a folder that can be written"
        ) from None
    # The ranks of one training come here together.
    with (folder / f".{code}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = _made(rules, split)
        if made and made[-1][0] >= count:
            return made[-1][1]
        path = folder / f"{rules.name}_{split}_{count}_{code}.json.gz"
        print(f"making {count} {split} episodes of {rules.name}, once: {path}", file=sys.stderr)
        generate(rules, split, count, 0, path, workers)
    return path


def find_episodes(scenario: str, split: str, make: int = 0) -> Path:
    """Return the file of a shipped set, or else the largest that was made on this machine.

    Args:
        scenario: whose.
        split: whose layouts.
        make: so many are made where there are none; 0 for none.

    Raises:
        UserError: no such scenario, or no episodes. In place of a train set the shipped val set is
            returned, with a warning.
    """
    rules = load_scenario(scenario)
    shipped, substitute = shipped_file(rules.name, split), shipped_file(rules.name)
    if shipped.exists() and not rules.file:
        return shipped
    made = _made(rules, split)
    if made:
        return made[-1][1]
    if make:
        return make_episodes(rules, split, make, all_cores())
    hint = f"'tpsrl episodes scenario={scenario} split={split}' makes some"
    if split != "train" or rules.file or not substitute.exists():
        raise UserError(f"no {split} episodes of '{scenario}' ship with tpsrl; {hint}.")
    warnings.warn(
        f"no train episodes of '{scenario}' are on this machine, its val episodes are used: fine"
        f" for a first look, not for training; {hint}, pass their file as episodes=FILE.",
        stacklevel=2,
    )
    return substitute


def _made(rules: Scenario, split: str) -> list[tuple[int, Path]]:
    """Return the sets that were made on this machine, with their sizes, the largest last."""
    pattern = f"{glob.escape(rules.name)}_{split}_*_{fingerprint(rules, split, 0)}.json.gz"
    files = (cache_dir() / "episodes").glob(pattern)
    return sorted((int(path.name.split("_")[-2]), path) for path in files)


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


def check_playable(episodes: tuple[Episode, ...], source: Path) -> None:
    """Refuse a foreign file before hours are spent on its good part.

    Args:
        episodes: of the file, those that are used.
        source: the file.

    Raises:
        UserError: there are none, or one that cannot be played in our apartment.
    """
    if not episodes:
        raise UserError(f"{source} holds no episodes")
    apartment, types = load_apartment(), object_types()
    for episode in episodes:
        try:
            validate(episode, apartment, types)
        except UserError as error:
            raise UserError(f"{source}: {error}") from error
