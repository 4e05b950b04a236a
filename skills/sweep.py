"""Trainings of many settings and seeds, in a folder that a second run completes."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skills import training
from tpsrl.errors import UserError
from tpsrl.jobs.folder import ResultFolder
from tpsrl.jobs.pool import JobPool
from tpsrl.jobs.progress import Tally
from tpsrl.launch.config import LAUNCH, LaunchConfig
from tpsrl.launch.ray_tune import SCHEDULERS, Report, run_trials
from tpsrl.launch.start import HERE
from ver_trainer.digests import read_sums
from ver_trainer.options import option
from ver_trainer.reading import parse_json

Record = dict[str, Any]


@dataclass
class SweepConfig:
    """Keys of ``tpsrl sweep``; all others are those of ``tpsrl train``."""

    over: dict[str, Any] = option({}, "values of a key of train: over.seed=[1,2] over.optim.lr=...")
    out: Path = option(Path("runs/sweep"), "folder of all trainings, their records and the table")
    metric: str | None = option(
        None, "what a training is judged by; null: episode/success of skills, else episode/return"
    )
    scheduler: str = option("none", "ends hopeless trainings early, launch=ray", choices=SCHEDULERS)
    workers: int = option(1, "trainings at once; of a Ray cluster, as many as it has", min=1)
    launch: LaunchConfig = field(default_factory=LaunchConfig, metadata=LAUNCH)


@dataclass(frozen=True)
class Trial:
    """One training.

    Attributes:
        index: number of its record.
        fingerprint: hash of its words.
        setting: what is its own.
        words: of ``tpsrl train``.
        out: its run folder.
        metric: what it is judged by.
        total_steps: after which it has finished.
    """

    index: int
    fingerprint: str
    setting: Mapping[str, Any]
    words: tuple[str, ...]
    out: Path
    metric: str
    total_steps: int


def make_trials(config: SweepConfig, words: Sequence[str]) -> list[Trial]:
    """Return a training for every combination of values.

    Raises:
        UserError: nothing to vary, or a setting that ``tpsrl train`` refuses.
    """
    values = dict(_leaves(config.over))
    if not values:
        raise UserError("nothing to vary: give over.KEY=[...], for example over.seed=[1,2,3]")
    found = []
    for index, chosen in enumerate(itertools.product(*values.values())):
        setting = dict(zip(values, chosen, strict=True))
        own = [f"{key}={_word(value)}" for key, value in setting.items()]
        out = config.out.resolve() / f"{index:03d}"
        line = ("log.progress=false", *words, *own)
        keys, train = training.parse([*line, f"out={out}", HERE])
        metric = config.metric or ("episode/success" if keys.skill else "episode/return")
        digest = hashlib.sha256(json.dumps(line).encode()).hexdigest()[:16]
        line = (*line, f"out={out}", HERE)
        found.append(Trial(index, digest, setting, line, out, metric, train.total_steps))
    return found


def _leaves(over: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    for key, value in over.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", list(value) if isinstance(value, list | tuple) else [value]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def sweep(config: SweepConfig, words: Sequence[str], trials: Sequence[Trial]) -> list[Record]:
    """Run the trainings that have no record yet.

    Args:
        config: where and how.
        words: that all trainings share.
        trials: see :func:`make_trials`.

    Returns:
        The records of all that have ended, by index.

    Raises:
        UserError: the folder holds another sweep, or trainings failed.
    """
    described = {"over": config.over, "words": list(words), "scheduler": config.scheduler}
    with ResultFolder(config.out, described) as folder:
        todo = folder.missing(trials)
        with Tally("sweep", len(trials), len(trials) - len(todo), "trainings") as tally:

            def ended(trial: Trial) -> None:
                folder.append(outcome(trial))
                tally.add(1)

            failed = _run(config, todo, ended) if todo else []
        if failed:
            numbers = ", ".join(str(trial.index) for trial in failed)
            raise UserError(
                f"trainings {numbers} of {config.out} failed more than launch.restarts="
                f"{config.launch.restarts} times; the same command tries them again"
            )
        return folder.first(len(trials))


def _run(config: SweepConfig, todo: Sequence[Trial], ended: Callable[[Trial], None]) -> list[Trial]:
    if config.launch.engine == "ray":
        return run_trials(
            config.launch,
            train,
            todo,
            ended,
            out=config.out,
            workers=config.workers,
            scheduler=config.scheduler,
            steps=max(trial.total_steps for trial in todo),
        )
    for trial in todo:  # workers may have no processes that would make what is missing
        training.provide(*training.parse(trial.words))
    attempts = config.launch.restarts + 1
    with JobPool[Trial, None](_training, config.workers, attempts, float("inf")) as pool:
        for trial, _ in pool.results(todo):
            ended(trial)
    return []


@contextlib.contextmanager
def _training() -> Iterator[Callable[[Trial], None]]:
    yield train


def train(trial: Trial, report: Report | None = None) -> None:
    """Run one training to its end, from its checkpoint if it has one."""

    def on_record(record: Mapping[str, Any]) -> None:
        if report is not None and record.get(trial.metric) is not None:
            report(int(record["step"]), float(record[trial.metric]))

    result = training.run(trial.words, on_record)
    if result is not None and result.signal:
        os._exit(128 + result.signal)  # it has no result yet: whoever started it tries again


def outcome(trial: Trial) -> Record:
    """Return the record of a training that has ended: score, steps and digest of its weights."""
    lines = (trial.out / "metrics.jsonl").read_bytes().splitlines()
    records = [parse_json(line, str(trial.out / "metrics.jsonl")) for line in lines]
    scores = [r[trial.metric] for r in records if r.get(trial.metric) is not None]
    steps = max((int(r["step"]) for r in records), default=0)
    newest = sorted((trial.out / "checkpoints").glob("update_" + "[0-9]" * 9))[-1:]
    weights = read_sums(newest[0]).get("weights.safetensors") if newest else None
    return {
        **{"index": trial.index, "fingerprint": trial.fingerprint, "setting": dict(trial.setting)},
        **{"steps": steps, "finished": steps >= trial.total_steps},
        **{"score": scores[-1] if scores else None, "weights": weights},
    }


def table(records: Sequence[Record]) -> list[Record]:
    """Return a row for each setting, the seeds of which are taken together, best first.

    A row holds ``setting``, ``trainings``, ``finished``, ``mean`` and ``deviation`` of the last
    scores (of the sample), ``best`` and the mean ``steps``.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        setting = {key: value for key, value in record["setting"].items() if key != "seed"}
        groups.setdefault(json.dumps(setting), []).append(record)
    rows = []
    for text, members in groups.items():
        scores = [r["score"] for r in members if r["score"] is not None]
        rows.append({
            "setting": json.loads(text),
            "trainings": len(members),
            "finished": sum(r["finished"] for r in members),
            "mean": statistics.fmean(scores) if scores else None,
            "deviation": statistics.stdev(scores) if len(scores) > 1 else None,
            "best": max(scores, default=None),
            "steps": statistics.fmean(r["steps"] for r in members),
        })  # fmt: skip
    return sorted(rows, key=lambda row: float("inf") if row["mean"] is None else -row["mean"])
