"""Reads damaged files in a process of its own, which is ended when it hangs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults.readers import READERS, Reader
from tpsrl.errors import UserError

SECONDS = 20.0
"""Longest reading of a file of a few kilobytes, on a machine that others use as well."""
MEMORY = 12 * 2**30
OUTCOMES = ("survived", "refused", "untouched", "traceback", "hang", "wrong", "leak")
"""``untouched``: the fault hit nothing, so that it says nothing."""
BAD = OUTCOMES[3:]


@dataclass
class Row:
    """What became of the mutations of one reader, or the faults of one kind of run.

    Attributes:
        counts: outcome -> how often.
        examples: a line for each outcome that should not be.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def note(self, outcome: str, example: str) -> None:
        """Count an outcome; keep it if it should not be."""
        self.counts[outcome] += 1
        if outcome in BAD:
            self.examples.append(f"{outcome}: {example}")


def damage(
    count: int, seed: int, names: list[str] | None = None, done: Callable[[], None] | None = None
) -> dict[str, Row]:
    """Read ``count`` damaged files over all readers, or those named.

    Args:
        count: mutations.
        seed: of all mutations; each has its own, so that a subset is the same.
        names: readers, ``None`` for all.
        done: called after each.

    Returns:
        The rows by reader.
    """
    rows: dict[str, Row] = {}
    chosen = [r for r in READERS if names is None or r.name in names]
    whole = sum(r.share for r in chosen)
    for reader in chosen:
        row = rows[reader.name] = Row()
        for number, outcome, text in _outcomes(reader, round(count * reader.share / whole), seed):
            row.note(outcome, f"seed {seed}, mutation {number}: {text}")
            if done is not None:
                done()
    return rows


def _outcomes(reader: Reader, count: int, seed: int) -> Iterator[tuple[int, str, str]]:
    """Yield number, outcome and a text of each mutation, restarting the process after a hang."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="tpsrl-faults-") as folder:
        number = 0
        while number < count:
            ours, theirs = context.Pipe()
            arguments = (theirs, reader.name, number, count, seed, folder)
            process = context.Process(target=_read_all, args=arguments, daemon=True)
            process.start()
            theirs.close()
            limit = 120.0  # the first answer says that the example was made
            while number < count:
                try:
                    answer = ours.recv() if ours.poll(limit) else None
                except EOFError:
                    answer = ("traceback", f"the process ended with code {process.exitcode}")
                if answer == "ready":
                    limit = SECONDS
                    continue
                yield number, *(answer or ("hang", f"no answer in {limit:g} s"))
                number += 1
                if answer is None or answer[1].startswith("the process ended"):
                    break
            process.kill()
            process.join()


def _read_all(pipe: Connection, name: str, first: int, count: int, seed: int, folder: str) -> None:
    os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    reader = next(r for r in READERS if r.name == name)
    sound = Path(folder) / "sound"
    if not sound.exists():
        sound.mkdir()
        reader.make(sound / "x")
    wanted = reader.read(sound / "x")
    pipe.send("ready")
    for number in range(first, count):
        pipe.send(_one(reader, sound, Path(folder) / "work", Random(f"{seed} {number}"), wanted))


def _one(reader: Reader, sound: Path, work: Path, rng: Random, wanted: Any) -> tuple[str, str]:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(sound, work)
    sealed = reader.change(work / "x", rng)
    before = _descriptors()
    outcome, text = _judged(reader, work, sealed, wanted)
    # What is read may not hold its file; a refusal may in a cycle, which is gone in time.
    if outcome == "refused" and _descriptors() != before:
        gc.collect()
    if outcome not in BAD and _descriptors() != before:
        return "leak", f"a file stayed open ({outcome}: {text})"
    return outcome, text


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _judged(reader: Reader, work: Path, sealed: bool, wanted: Any) -> tuple[str, str]:
    try:
        found = reader.read(work / "x")
        if sealed and found != wanted:
            return "wrong", "a file with a checksum was read with another content"
    except UserError as error:
        text = str(error)
        plain = len(text) < 2000 and text.isprintable() and str(work) in text
        return ("refused", text) if plain else ("traceback", f"not one plain sentence: {text!r}")
    except AssertionError:
        return "wrong", traceback.format_exc()[-1500:]
    except BaseException:
        return "traceback", traceback.format_exc()[-1500:]
    return "survived", ""
