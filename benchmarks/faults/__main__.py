"""Damaged files and disturbed runs: what becomes of them.

``python -m benchmarks.faults [json=FILE mutations=1000 runs=60 seed=0 only=eval,train]``

Every mutation damages a small sound file of one reader and reads it; every fault disturbs a real
run of a command and continues it. Each ends as one of: survived (read, or continued to the result
of an undisturbed run), refused in one sentence, untouched (the fault hit nothing: the run had ended
before it, there was no file or worker), traceback, hang, wrong result, leak (of processes, files or
shared memory). The last four should be 0; the exit code is 1 if they are not.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.damage import BAD, OUTCOMES, Row, damage
from benchmarks.faults.runs import JOBS, faults
from benchmarks.names import chosen, run_main
from tpsrl.files import write_json
from tpsrl.jobs.progress import Tally
from tpsrl.provenance import git_commit, machine, now
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write")
    mutations: int = option(1000, "damaged files to read", min=0)
    runs: int = option(60, "disturbed runs", min=0)
    only: str = option("all", "commands of tpsrl that are disturbed, with commas")
    seed: int = option(0, "of what is damaged", min=0)


def main(words: list[str]) -> int:
    """Run both parts, print a table and write it."""
    config = parse_or_help(Config, words, __doc__)
    seed = config.seed
    commands = {job.name.removeprefix("tpsrl "): job.name for job in JOBS}
    disturbed = [commands[name] for name in chosen(config.only, commands, "only")]
    rows: dict[str, Row] = {}
    for label, part, count, names in (
        ("mutations", damage, config.mutations, None),
        ("faults", faults, config.runs, disturbed),
    ):
        if count:
            with Tally(label, count, unit=label) as tally:
                rows |= part(count, seed, names, lambda tally=tally: tally.add(1))  # type: ignore[misc]
    print(f"{'':24}" + "".join(f"{name:>10}" for name in OUTCOMES))
    for name, row in rows.items():
        print(f"{name:24}" + "".join(f"{row.counts[o]:10}" for o in OUTCOMES))
        for example in row.examples:
            print("    " + example.replace("\n", "\n    "))
    bad = sum(row.counts[o] for row in rows.values() for o in BAD)
    if config.json is not None:
        table = {n: {"counts": dict(r.counts), "examples": r.examples} for n, r in rows.items()}
        content = {"seed": seed, "bad": bad, "rows": table, "date": now()}
        content |= {"commit": git_commit(), "machine": machine()}
        write_json(config.json, content)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(run_main(main))
