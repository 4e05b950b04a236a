"""Makes a set of episodes in worker processes; interrupted work goes on where it stopped."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.episodes.habitat_json import episode_from_json, episode_to_json, save_episodes
from tpsrl.episodes.types import EpisodeSet
from tpsrl.generation.generator import GENERATOR_FORMAT, Generator
from tpsrl.generation.rules import Scenario
from tpsrl.jobs.folder import ResultFolder
from tpsrl.jobs.pool import JobPool
from tpsrl.jobs.progress import Tally
from tpsrl.launch.config import LaunchConfig
from tpsrl.launch.pools import open_pool
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types

_DECIMALS = 6
"""Of the metres of a mesh, in the fingerprint."""


@dataclass(frozen=True)
class _Draw:
    """An episode to make: its number, and a hash of the rules and scenes."""

    index: int
    fingerprint: str


def generate(
    scenario: Scenario,
    split: str,
    n: int,
    seed: int,
    out: Path,
    workers: int,
    launch: LaunchConfig | None = None,
) -> Counter[str]:
    """Make episodes 0 to ``n`` - 1 and write them.

    The file does not depend on ``workers`` nor on interruptions. Finished episodes wait in the
    folder ``out`` + ``.partial``, which is removed at the end if it holds no later ones.

    Args:
        scenario: what to draw.
        split: whose layouts to use.
        n: how many episodes.
        seed: of the set.
        out: ``.json`` or ``.json.gz`` file.
        workers: processes.
        launch: where they are; ``None`` for this machine.

    Returns:
        Why draws were rejected -> how often.

    Raises:
        UserError: the file cannot be written, an unfinished set is of another command, or an
            episode cannot be made.
    """
    what = fingerprint(scenario, split, seed)
    provenance = {"scenario": scenario.name, "split": split, "seed": seed}
    provenance |= {"clutter": scenario.clutter(), "fingerprint": what}
    partial_set = out.with_name(out.name + ".partial")
    with ResultFolder(partial_set, provenance) as folder:
        todo = folder.missing([_Draw(index, what) for index in range(n)])
        work = partial(_making, scenario, split, seed)
        pool: JobPool[_Draw, dict[str, Any]] = open_pool(launch or LaunchConfig(), work, workers)
        with Tally(f"{scenario.name} {split}", n, n - len(todo)) as tally, pool:
            for job, made in pool.results(todo):
                folder.append({**asdict(job), **made})
                tally.add(1)
        rows = folder.first(n)
        episodes = tuple(episode_from_json(row["episode"]) for row in rows)
        provenance |= {"n": n, "engine": f"mujoco {version('mujoco')}"}
        save_episodes(out, EpisodeSet(episodes, {"config": None, "generator": provenance}))
        if len(rows) == len(folder.records):  # of a larger set that was interrupted there are more
            folder.remove()
    return sum((Counter(row["rejections"]) for row in rows), Counter[str]())


@contextmanager
def _making(
    scenario: Scenario, split: str, seed: int
) -> Iterator[Callable[[_Draw], dict[str, Any]]]:
    """Make episodes in a worker process."""
    with closing(Generator(scenario, split, seed)) as generator:

        def make(job: _Draw) -> dict[str, Any]:
            made = generator.make(job.index)
            return {"episode": episode_to_json(made.episode), "rejections": dict(made.rejections)}

        yield make


def fingerprint(scenario: Scenario, split: str, seed: int) -> str:
    """Return a digest of what a set of episodes depends on: rules, split, seed, scenes, engine.

    Not on where the scenario's file lies.
    """
    made_by = (GENERATOR_FORMAT, version("mujoco"))
    what = (replace(scenario, file=""), split, seed, load_apartment(), object_types(), made_by)
    return hashlib.sha256("\n".join(_words(what)).encode()).hexdigest()[:16]


def _words(value: Any) -> Iterator[str]:
    """Yield what tells a value from all others; arrays whole, which ``repr`` leaves out."""
    if isinstance(value, np.ndarray):
        # Of another machine the last bits may differ, and before it was cached the type.
        numbers = np.round(value.astype(np.float64), _DECIMALS) + 0.0
        yield f"{value.shape} {hashlib.sha256(numbers.tobytes()).hexdigest()}"
    elif is_dataclass(value):
        yield from _words({f.name: getattr(value, f.name) for f in fields(value)})
    elif isinstance(value, Mapping):
        yield from _words(list(value.items()))
    elif isinstance(value, list | tuple):
        yield f"{len(value)}:"
        for part in value:
            yield from _words(part)
    else:
        yield repr(float(value) if isinstance(value, float) else value)
