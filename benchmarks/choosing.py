"""Which policy of a skill is better? Apartments that nothing was learned from decide.

``python -m benchmarks.choosing skill=place candidates=shipped,RUN,RUN out=DIR [agent=tpsrl]`` tries
every candidate (``shipped``, or anything that ``weights=`` takes) at the same starts: the skill's
own in ``train`` and in ``widedev``, forty layouts drawn at random that no training and no result is
of, and those where the chain of the policies that ship arrives in ``widedev``, in Tidy House,
Prepare Groceries and Set Table (``scenarios=``: not all of them call every skill). It prints a
table in Markdown and who has most successes of ``widedev``; train stands there to show who learned
it by heart. Val and test are for measuring: it does not know them. The same command goes on where
it was broken off.

``agent`` says whose chain arrives: ``tpsrl`` for students, ``teacher`` for teachers. Candidates may
be either, a card says what a policy senses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.names import chosen, run_main
from eval.commands import eval as evaluation
from eval.commands import handoff
from eval.statistics import wilson
from planner.chain.catalog import agent_kind
from skills.book import BOOK, row_of
from skills.chain_starts import SCENARIOS
from skills.envs.starts import beginnings
from skills.learned.cards import SHIPPED, digest, policies_in
from skills.learned.find import find_policy
from tpsrl.errors import UserError
from tpsrl.generation.rules import load_scenario
from tpsrl.jobs.processes import all_cores
from tpsrl.provide import make_episodes
from tpsrl.scenes.cache import cache_key
from ver_trainer.options import option, parse_or_help
from ver_trainer.reading import read_json

SPLIT = "widedev"
"""Whose layouts decide."""
AGENTS = ("tpsrl", "teacher")


@dataclass
class Config:
    """Options of the benchmark."""

    skill: str = field(metadata={"help": "which skill", "choices": list(BOOK)})
    candidates: str = option("shipped", "runs, files or folders, with commas")
    agent: str = option("tpsrl", "whose chain arrives; shipped is of it", choices=AGENTS)
    episodes: int = option(400, "own starts, of train and of widedev each", min=1)
    starts: int = option(150, "most arrivals of each scenario", min=0)
    chains: int = option(80, "chains of each scenario that are run to have them", min=1)
    scenarios: str = option(",".join(SCENARIOS), "whose chains, with commas")
    seed: int = option(0, "of the first episode", min=0)
    out: Path = option(Path("outputs/choosing"), "folder of everything")
    workers: int = field(default_factory=all_cores, metadata={"help": "processes", "min": 1})


@dataclass(frozen=True)
class Starts:
    """Where candidates begin.

    Attributes:
        name: in the table.
        words: of ``tpsrl eval``.
        count: episodes.
        known: they are of train layouts, and decide nothing.
    """

    name: str
    words: tuple[str, ...]
    count: int
    known: bool = False


def candidates_of(config: Config) -> dict[str, Path]:
    """Return the weights of every candidate by its name.

    Raises:
        UserError: one is not there, or two have one name.
    """
    found: dict[str, Path] = {}
    for word in (w.strip() for w in config.candidates.split(",") if w.strip()):
        shipped = SHIPPED / agent_kind(config.agent).folder
        given = shipped if word == "shipped" else Path(word).resolve()
        name = "shipped" if word == "shipped" else given.name
        if name in found:
            raise UserError(f"candidates={config.candidates} has two of the name {name}; link one.")
        found[name] = find_policy(given, config.skill).path
    if not found:
        raise UserError("candidates= names nothing; give runs or 'shipped', with commas.")
    return found


def own_starts(config: Config) -> list[Starts]:
    """Return the skill's own starts in train and in the layouts that decide."""
    rules = load_scenario(row_of(config.skill).task.scenario)
    rows = []
    for split in ("train", SPLIT):
        data = make_episodes(rules, split, config.episodes, config.workers)
        words = (f"data={data}", f"seed={config.seed}")
        rows.append(Starts(f"own, {split}", words, config.episodes, split != SPLIT))
    return rows


def arrivals(config: Config) -> list[Starts]:
    """Run the chains and return where they call the skill, of scenarios that do.

    The files' names tell how many chains were run, and by which weights.
    """
    rows, acting = [], SHIPPED / agent_kind(config.agent).folder
    for scenario in chosen(config.scenarios, SCENARIOS, "scenarios") if config.starts else ():
        code = cache_key({k: digest(p.path) for k, p in policies_in(acting).items()})
        file = config.out.resolve() / f"{scenario}_{config.agent}_{config.chains}_{code}.npz"
        if not file.exists():
            made = make_episodes(load_scenario(scenario), SPLIT, config.chains, config.workers)
            words = [f"scenario={scenario}", f"data={made}", f"agent={config.agent}", f"out={file}"]
            counts = [f"episodes={config.chains}", f"workers={config.workers}"]
            handoff.run([*words, *counts, "executor=hab"])
        count = min(len(beginnings([file], config.skill)[0]), config.starts)
        if count:
            told = (f"handoff={file}", f"seed={config.seed}")
            rows.append(Starts(f"arrives, {scenario}", told, count))
    return rows


def measured(config: Config, name: str, weights: Path, starts: Starts) -> dict[str, Any]:
    """Return the summary of a candidate, whose missing episodes are run."""
    out = config.out.resolve() / f"{config.skill}_{name}_{starts.name.replace(', ', '_')}"
    words = [
        f"skill={config.skill}", f"weights={weights}", f"episodes={starts.count}", f"out={out}",
        f"workers={config.workers}", *starts.words,
    ]  # fmt: skip
    if evaluation.run(words):
        raise UserError(f"{out}/episodes.jsonl has errors ('extra'); remove {out} to try again.")
    return read_json(out / "summary.json")


def table(rows: dict[str, dict[str, int]], starts: Sequence[Starts]) -> str:
    """Return Markdown: successes of every candidate at every kind of starts, and those that decide.

    Args:
        rows: candidate -> name of starts -> successes.
        starts: the columns.
    """
    total = sum(s.count for s in starts if not s.known)
    cells = ["candidate", *(f"{s.name}, of {s.count}" for s in starts), f"{SPLIT}, of {total}"]
    lines = [cells, ["---"] * len(cells)]
    for name, won in rows.items():
        whole = score(won, starts)
        low, high = wilson(whole, total)
        told = f"**{whole}**, {whole / total:.1%} ({100 * low:.1f} to {100 * high:.1f})"
        lines.append([name, *(str(won[s.name]) for s in starts), told])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def score(won: dict[str, int], starts: Sequence[Starts]) -> int:
    """Return the successes that decide."""
    return sum(won[s.name] for s in starts if not s.known)


def main(words: list[str]) -> None:
    """Measure what is missing, print the table and who is chosen."""
    config = parse_or_help(Config, words, __doc__)
    found = candidates_of(config)
    config.out.mkdir(parents=True, exist_ok=True)
    starts = [*own_starts(config), *arrivals(config)]
    rows = {
        name: {s.name: int(measured(config, name, path, s)["successes"]) for s in starts}
        for name, path in found.items()
    }
    print(table(rows, starts))
    best = max(rows, key=lambda name: score(rows[name], starts))
    print(f"most in apartments that nothing was learned from: {best}")


if __name__ == "__main__":
    sys.exit(run_main(main))
