"""Carries out the goals in words of ``benchmarks/goals.yaml``: how many end in success.

  python -m benchmarks.words episodes=30 out=DIR

Goal k is given in the k-th episode that it was written for; the same command continues what was
interrupted.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.names import run_main
from eval.runner import evaluate, read_run, report_errors
from eval.spec import EvaluationSpec, evaluation_spec
from eval.table import print_summary
from planner.chain.errand import Errand
from planner.words import errand_for
from tpsrl.episodes.shipped import load_shipped
from tpsrl.jobs.processes import all_cores
from ver_trainer.options import option, parse_or_help

GOALS = Path(__file__).with_name("goals.yaml")


@dataclass
class WordsConfig:
    """Keys of ``python -m benchmarks.words``."""

    episodes: int = option(30, "goals to carry out, spread over the list", min=1, max=40)
    agent: str = option("scripted", "whose skills")
    executor: str = option("replan", "hab or replan")
    workers: int = option(all_cores(), "processes", min=1)
    seed: int = option(0, "of the robot's start poses", min=0)
    out: Path = option(Path("outputs/words"), "result folder")


def chosen(count: int) -> list[Errand]:
    """Return the first ``count`` goals, taken evenly from the whole list, in their episodes."""
    written: list[dict[str, Any]] = yaml.safe_load(GOALS.read_text())
    picked = [written[k * len(written) // count] for k in range(count)]
    found = []
    for entry in picked:
        episode = load_shipped(entry["scenario"])[entry["episode"]]
        errand = errand_for(episode, entry["goal"])
        assert isinstance(errand, Errand)
        # One stage for all: the goals have no others in common.
        stages = {"goal on the way": errand.goals[0], "goal": errand.goals[-1]}
        found.append(dataclasses.replace(errand, stages=stages))
    return found


def specification(config: WordsConfig, errands: Sequence[Errand]) -> EvaluationSpec:
    """Return what to run; the errands bring their own goals."""
    goals = [errand.words for errand in errands]
    return evaluation_spec(
        scenario="tidy_house",
        agent=config.agent,
        executor=config.executor,
        seed=config.seed,
        config={"goals": goals},
    )


def main(words: Sequence[str]) -> int:
    """Run the goals; print the summary, and each goal with how it ended."""
    config = parse_or_help(WordsConfig, words, __doc__)
    errands = chosen(config.episodes)
    summary = evaluate(specification(config, errands), errands, config.out, config.workers)
    print_summary(summary)
    _, records = read_run(config.out)
    for index, errand in enumerate(errands):
        failure = records[index].failure
        ending = f"{failure['skill']}: {failure['cause']}" if failure else "success"
        print(f"{ending:32} {errand.scenario:18} {errand.words}")
    return report_errors(summary, config.out)


if __name__ == "__main__":
    sys.exit(run_main(main))
