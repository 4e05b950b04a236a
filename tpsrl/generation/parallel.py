"""Makes a set of episodes in worker processes; interrupted work goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tpsrl.episodes.habitat_json import episode_from_json, episode_to_json, save_episodes
from tpsrl.episodes.types import Episode, EpisodeSet
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.generation.rules import Scenario
from tpsrl.jobs.processes import follow_parent

Result = tuple[int, dict[str, Any], dict[str, int]]
"""Episode number, its JSON, and why earlier draws were rejected -> how often."""

_worker_generator: Any = None


def generate(
    scenario: Scenario, split: str, n: int, seed: int, out: Path, workers: int
) -> Counter[str]:
    """Make episodes 0 to ``n`` - 1 and write them.

    The file does not depend on ``workers`` nor on interruptions. Finished episodes wait in
    ``out`` + ``.partial``, which is removed at the end.

    Args:
        scenario: what to draw.
        split: whose layouts to use.
        n: how many episodes.
        seed: of the set.
        out: ``.json`` or ``.json.gz`` file.
        workers: processes; 1 works in this process.

    Returns:
        Why draws were rejected -> how often.

    Raises:
        UserError: the file cannot be written, an unfinished file is of another command, or an
            episode cannot be made.
    """
    partial = out.with_name(out.name + ".partial")
    task = fingerprint(scenario, split, seed)
    done = _read_partial(partial, task)
    missing = [i for i in range(n) if i not in done]
    rejections: Counter[str] = Counter()
    with (
        _progress(scenario.name, split, n, n - len(missing)) as advance,
        _opened(partial, task, done) as write,
    ):
        for index, raw, why in _results(scenario, split, seed, missing, workers):
            done[index] = raw
            rejections.update(why)
            write({"index": index, "episode": raw})
            advance()
    episodes = tuple(_episode(done[i]) for i in range(n))
    provenance = {
        "scenario": scenario.name,
        "split": split,
        "seed": seed,
        "n": n,
        "engine": f"mujoco {version('mujoco')}",
    }
    save_episodes(out, EpisodeSet(episodes, {"config": None, "generator": provenance}))
    partial.unlink()
    return rejections


def _results(
    scenario: Scenario, split: str, seed: int, missing: list[int], workers: int
) -> Iterator[Result]:
    if workers == 1 or len(missing) < 2:
        if missing:
            _make_generator(scenario, split, seed)
        for index in missing:
            yield _make(index)
        return
    # spawn: a forked child would share the parent's locks and threads
    pool = ProcessPoolExecutor(
        max_workers=min(workers, len(missing)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(scenario, split, seed),
    )
    try:
        pending: set[Future[Result]] = {pool.submit(_make, i) for i in missing}
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
    except BrokenProcessPool:
        raise UserError(
            "a worker process died; run the same command again, it goes on where it stopped"
            " (workers=1 shows the cause)"
        ) from None
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _start_worker(scenario: Scenario, split: str, seed: int) -> None:
    follow_parent()
    _make_generator(scenario, split, seed)


def _make_generator(scenario: Scenario, split: str, seed: int) -> None:
    global _worker_generator
    from tpsrl.generation.generator import Generator

    _worker_generator = Generator(scenario, split, seed)


def _make(index: int) -> Result:
    made = _worker_generator.make(index)
    return index, episode_to_json(made.episode), dict(made.rejections)


def _episode(raw: dict[str, Any]) -> Episode:
    return episode_from_json(raw)


def fingerprint(scenario: Scenario, split: str, seed: int) -> str:
    """Return a digest of what a set of episodes depends on: rules, split, seed and scenes."""
    from tpsrl.scenes.apartment import load_apartment
    from tpsrl.scenes.objects import object_types

    what = json.dumps([asdict(scenario), split, seed], sort_keys=True)
    scenes = repr(load_apartment()) + repr(sorted(object_types().items()))
    return hashlib.sha256((what + scenes).encode()).hexdigest()[:16]


def _read_partial(path: Path, task: str) -> dict[int, dict[str, Any]]:
    """Episodes made so far; a last line that was cut off is ignored."""
    if not path.exists():
        return {}
    entries = []
    for line in path.read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    if len(entries) < 2:
        return {}
    if entries[0].get("task") != task:
        raise UserError(
            f"{path}: was left by a run with other settings or scenes; delete it or choose"
            " another out="
        )
    return {int(e["index"]): e["episode"] for e in entries[1:]}


@contextmanager
def _opened(path: Path, task: str, done: dict[int, dict[str, Any]]) -> Iterator[Any]:
    # written anew, for a run that was killed may have left half a line at the end
    entries = [{"task": task}, *({"index": i, "episode": e} for i, e in sorted(done.items()))]
    write_atomically(path, "".join(json.dumps(e) + "\n" for e in entries).encode())

    def write(entry: dict[str, Any]) -> None:
        try:
            file.write(json.dumps(entry) + "\n")
            file.flush()
        except OSError as e:
            raise UserError(f"{path}: cannot be written ({e.strerror}); free some space") from None

    with path.open("a") as file:
        yield write


@contextmanager
def _progress(name: str, split: str, total: int, done: int) -> Iterator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("episodes, {task.fields[rate]:.2f} /s,"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    made = 0
    with Progress(*columns) as progress:
        bar = progress.add_task(f"{name} {split}", total=total, completed=done, rate=0.0)

        def advance() -> None:
            nonlocal made
            made += 1
            progress.update(bar, advance=1, rate=made / (time.monotonic() - started))

        yield advance
