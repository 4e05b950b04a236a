"""Runs episodes in worker processes, into a folder that a second run completes."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from eval.episode import GOAL_REFUSED, EpisodeJob, EpisodeRecord, blame, run_episode
from eval.metrics import summarize
from eval.recording import Keeper
from eval.spec import EvaluationSpec
from eval.statistics import wilson
from planner.chain.interface import Agent
from planner.words.door import GoalError
from tpsrl import provenance
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.jobs.folder import EPISODES_FILE, ResultFolder, read_wanted
from tpsrl.jobs.pool import JobPool
from tpsrl.jobs.progress import Tally
from tpsrl.jobs.threads import one_thread
from tpsrl.launch.config import LaunchConfig
from tpsrl.launch.pools import open_pool
from tpsrl.sim.door import Simulator

Record = dict[str, Any]
"""A line of ``episodes.jsonl``: ``index``, ``fingerprint``, ``success``, ``steps`` and more."""


_ORIGIN = ("session", "engine", "versions", "commit", "machine", "date")
"""Keys of a summary that say who ran the episodes."""


class Study(Protocol):
    """What is measured; plain values that can be sent to worker processes.

    Attributes:
        config: what decides the results.
    """

    @property
    def config(self) -> Mapping[str, Any]: ...  # noqa: D102

    def player(self) -> AbstractContextManager[tuple[Callable[[Any], Record], dict[str, Any]]]:
        """Build what all episodes need; return how to run a job, and facts of the engine."""
        ...

    def failed(self, job: Any, end: str, extra: dict[str, Any]) -> Record:
        """Return the record of a job that came to no end of its own."""
        ...

    def summarize(self, records: Sequence[Record]) -> dict[str, Any]:
        """Return the metrics, with ``episodes`` and ``errors``."""
        ...


def measure(
    study: Study,
    jobs: Sequence[Any],
    out: Path,
    workers: int = 1,
    attempts: int = 3,
    timeout: float = 3600.0,
    label: str = "eval",
    launch: LaunchConfig | None = None,
) -> dict[str, Any]:
    """Run the jobs that ``out`` lacks and write its summary.

    Every finished episode is on the disk before the next one is counted, so a killed run loses
    only what was running. Ctrl-C stops the workers, writes the summary of what is there and
    raises ``KeyboardInterrupt``.

    Args:
        study: what is measured.
        jobs: with index 0, 1, ... and the fingerprint of their data; as text, their names.
        out: result folder (``config.json``, ``episodes.jsonl``, ``summary.json``).
        workers: processes.
        attempts: workers that may die over one episode before it counts as a failure.
        timeout: wall-clock seconds for one episode before its worker is taken for hung.
        label: shown beside the progress bar.
        launch: where the workers are; ``None`` for this machine.

    Returns:
        The summary, as written to ``summary.json``.

    Raises:
        UserError: the folder holds another run, cannot be written, or an episode cannot be loaded.
        RuntimeError: workers cannot start.
    """
    with ResultFolder(out, study.config) as folder:
        todo = folder.missing(jobs)
        earlier = folder.earlier_summary()
        if len(todo) == len(jobs) or not earlier.get("episodes"):
            earlier = {}  # it says nothing of where episodes come from
        session = _Session(workers)
        try:
            if todo:
                work = partial(_playing, study)
                pool = open_pool(launch or LaunchConfig(), work, workers, attempts, timeout)
                tally = Tally(label, len(jobs), len(jobs) - len(todo))
                session.run(study, todo, pool, folder, tally)
        finally:
            # Also after Ctrl-C or a full disk: what is there is summed up and marked incomplete.
            records = folder.first(len(jobs))
            summary = {
                "complete": len(records) == len(jobs),
                "wanted_episodes": len(jobs),
                **study.summarize(records),
                "config": dict(study.config),
                **_origin(session, earlier),
            }
            folder.write_summary(summary)
        return summary


def _origin(session: _Session, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return who ran the episodes of a folder, and when: the last session that ran any.

    Args:
        session: of this call.
        earlier: summary of the episodes that were there before; empty if there is none.
    """
    if not session.episodes and "commit" in earlier:
        return {key: earlier[key] for key in (*_ORIGIN, "earlier") if key in earlier}
    found = {
        "session": session.facts(),
        "engine": session.engine or earlier.get("engine", {}),
        "versions": provenance.versions(),
        "commit": provenance.git_commit(),
        "machine": provenance.machine(),
        "date": provenance.now(),
    }
    others: list[dict[str, Any]] = []
    for one in (*earlier.get("earlier", ()), earlier):
        made_by = [[run.get("commit"), run.get("versions")] for run in (found, *others)]
        if "commit" in one and [one["commit"], one.get("versions")] not in made_by:
            others.append({key: one.get(key) for key in ("commit", "date", "versions")})
    return {**found, "earlier": others} if others else found


@dataclass
class _Session:
    """One call of :func:`measure`: what it ran and how fast."""

    workers: int
    engine: dict[str, Any] = field(default_factory=dict)
    episodes: int = 0
    steps: int = 0
    restarts: int = 0
    seconds: float = 0.0

    def run(
        self, study: Study, todo: list[Any], pool: JobPool, folder: ResultFolder, tally: Tally
    ) -> None:
        start = time.perf_counter()
        won = sum(bool(record["success"]) for record in folder.first(tally.total))
        try:
            with tally, pool:
                for done in pool.run(todo):
                    if done.result is None:
                        extra = {"exit_code": done.exit_code, "hung": done.hung}
                        record = study.failed(done.job, "worker_died", extra)
                    else:
                        record, self.engine = done.result
                    record["attempts"] = done.attempts
                    folder.append(record)
                    won += bool(record["success"])
                    self.episodes, self.steps = self.episodes + 1, self.steps + record["steps"]
                    tally.add(1, self._measured(won, tally))
        finally:
            self.restarts, self.seconds = pool.restarts, time.perf_counter() - start

    def _measured(self, won: int, tally: Tally) -> str:
        count = tally.done + 1
        low, high = wilson(won, count)
        return f"success {won / count:.1%} [{100 * low:.0f}, {100 * high:.0f}]"

    def facts(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "seconds": self.seconds,
            "workers": self.workers,
            "worker_restarts": self.restarts,
            "steps_per_second": self.steps / self.seconds if self.seconds else None,
        }


@contextlib.contextmanager
def _playing(study: Study) -> Iterator[Callable[[Any], tuple[Record, dict[str, Any]]]]:
    """Run jobs in a worker process."""
    with one_thread(), study.player() as (play, engine):

        def run(job: Any) -> tuple[Record, dict[str, Any]]:
            try:
                return play(job), engine
            except UserError as error:
                raise UserError(f"{job}: {error}") from error
            except Exception:
                # A fault in one episode must not cost the others; it is counted and shown.
                return study.failed(job, "error", {"traceback": traceback.format_exc()}), engine

        yield run


@dataclass(frozen=True)
class ChainStudy:
    """An agent over whole episodes, see :class:`Study`."""

    spec: EvaluationSpec
    keeper: Keeper

    @property
    def config(self) -> Mapping[str, Any]:
        """See :class:`Study`."""
        return self.spec.config

    @contextlib.contextmanager
    def player(self) -> Iterator[tuple[Callable[[EpisodeJob], Record], dict[str, Any]]]:
        """See :class:`Study`."""
        with contextlib.closing(self.spec.simulator.build()) as sim:
            agent = self.spec.agent.build()

            def play(job: EpisodeJob) -> Record:
                """Play one episode; a goal that is refused is told, not raised."""
                record = job.empty_record()
                try:
                    episode = self.spec.begin(record, job.episode)
                except GoalError as error:
                    return self.failed(job, GOAL_REFUSED, {"refused": str(error)})
                task, steps = self.spec.task.build(episode), self.spec.max_steps
                kept = self.keeper.begin(episode, self.spec.about)

                def observe(sim: Simulator, agent: Agent, step: int) -> None:
                    if kept is not None:
                        kept.add(sim.state(), agent.report())

                done = run_episode(sim, agent, task, record, episode, steps, observe).to_json()
                self.keeper.end(kept, done)
                return done

            yield play, dataclasses.asdict(sim.info)

    def failed(self, job: EpisodeJob, end: str, extra: dict[str, Any]) -> Record:
        """See :class:`Study`."""
        record = job.empty_record()
        record.end, record.extra = end, extra
        record.failure = blame(record)
        return record.to_json()

    def summarize(self, records: Sequence[Record]) -> dict[str, Any]:
        """See :class:`Study`."""
        return summarize([EpisodeRecord.from_json(r) for r in records], self.spec.seed)


def evaluate(
    spec: EvaluationSpec,
    episodes: Sequence[Episode],
    out: Path,
    workers: int = 1,
    attempts: int = 3,
    timeout: float = 3600.0,
    label: str = "eval",
    launch: LaunchConfig | None = None,
    record: str = "none",
) -> dict[str, Any]:
    """Run an agent over the episodes that ``out`` lacks, see :func:`measure`.

    Args:
        spec: simulator, agent, task and config.
        episodes: the set; an episode's index in it decides its seed.
        out: result folder.
        workers: processes.
        attempts: workers that may die over one episode before it counts as a failure.
        timeout: wall-clock seconds for one episode before its worker is taken for hung.
        label: shown beside the progress bar.
        launch: where the workers are; ``None`` for this machine.
        record: whose states are kept in ``out``: ``"failures"``, ``"all"`` or ``"none"``.

    Returns:
        The summary, as written to ``summary.json``.

    Raises:
        UserError: see :func:`measure`; or no episode can have the goal in words.
        RuntimeError: workers cannot start.
    """
    spec.check_goal(episodes)
    jobs = [spec.job(index, episode) for index, episode in enumerate(episodes)]
    study = ChainStudy(spec, Keeper(out.resolve(), record))
    return measure(study, jobs, out, workers, attempts, timeout, label, launch)


def report_errors(summary: Mapping[str, Any], out: Path) -> int:
    """Say how many episodes ended in an error; return the exit code."""
    if summary["errors"]:
        number = len(summary["errors"])
        print(f"{number} episodes ended in an error; see 'extra' in {out / EPISODES_FILE}")
    return int(bool(summary["errors"]))


def read_run(path: Path) -> tuple[dict[str, Any], dict[int, EpisodeRecord]]:
    """Read a finished or running evaluation's config and records without touching it.

    Of a finished one those of the episodes that its summary counts.

    Raises:
        UserError: the folder holds no evaluation of a chain.
    """
    config, records = read_wanted(path)
    try:
        return config, {k: EpisodeRecord.from_json(record) for k, record in records.items()}
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
