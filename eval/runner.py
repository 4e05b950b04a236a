"""Runs an agent over episodes in worker processes, into a folder that a second run completes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.episode import EpisodeRecord
from eval.metrics import summarize
from eval.pool import WorkerPool
from eval.progress import EvaluationProgress
from eval.spec import EvaluationSpec
from eval.store import ResultFolder, fingerprint
from eval.worker import Job
from tpsrl import provenance
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError


def evaluate(
    spec: EvaluationSpec,
    episodes: Sequence[Episode],
    out: Path,
    workers: int = 1,
    attempts: int = 3,
    timeout: float = 3600.0,
    label: str = "eval",
) -> dict[str, Any]:
    """Run the episodes that ``out`` lacks and write its summary.

    Every finished episode is on the disk before the next one is counted, so a killed run loses
    only what was running. Ctrl-C stops the workers, writes the summary of what is there and
    raises ``KeyboardInterrupt``.

    Args:
        spec: simulator, agent, task and config.
        episodes: the set; an episode's index in it decides its seed.
        out: result folder (``config.json``, ``episodes.jsonl``, ``summary.json``).
        workers: processes.
        attempts: workers that may die over one episode before it counts as a failure.
        timeout: wall-clock seconds for one episode before its worker is taken for hung.
        label: shown beside the progress bar.

    Returns:
        The summary, as written to ``summary.json``.

    Raises:
        UserError: the folder holds another run, cannot be written, or an episode cannot be loaded.
        RuntimeError: workers cannot start.
    """
    with ResultFolder(out, spec.config) as folder:
        jobs = [
            Job(index, episode, fingerprint(episode), spec.episode_seed(index))
            for index, episode in enumerate(episodes)
        ]
        _check_same_episodes(folder, jobs)
        todo = [job for job in jobs if job.index not in folder.records]
        session = _Session(spec, folder, len(jobs))
        try:
            if todo:
                session.run(todo, WorkerPool(spec, workers, attempts, timeout), label)
        finally:
            # Also after Ctrl-C or a full disk: what is there is summed up and marked incomplete.
            summary = session.summary(workers)
            folder.write_summary(summary)
        return summary


class _Session:
    """One call of ``evaluate``: what it ran and how fast."""

    def __init__(self, spec: EvaluationSpec, folder: ResultFolder, total: int) -> None:
        self._spec, self._folder, self._total = spec, folder, total
        self._engine: dict[str, Any] = {}
        self._fresh: list[EpisodeRecord] = []
        self._seconds = 0.0
        self._restarts = 0

    def run(self, todo: list[Job], pool: WorkerPool, label: str) -> None:
        start = time.perf_counter()
        wanted = self._wanted()
        successes = sum(record.success for record in wanted)
        progress = EvaluationProgress(self._total, len(wanted), successes, label)
        try:
            with progress, pool:
                for record in pool.run(todo):
                    self._folder.append(record)
                    self._fresh.append(record)
                    progress.update(record.success, record.steps)
        finally:
            self._engine, self._restarts = pool.engine, pool.restarts
            self._seconds = time.perf_counter() - start

    def _wanted(self) -> list[EpisodeRecord]:
        """Records of this run's set; the folder may hold more from a run over more episodes."""
        return [r for index, r in sorted(self._folder.records.items()) if index < self._total]

    def summary(self, workers: int) -> dict[str, Any]:
        """Return metrics, session, versions, config, commit, machine and date."""
        wanted = self._wanted()
        steps = sum(record.steps for record in self._fresh)
        return {
            "complete": len(wanted) == self._total,
            "wanted_episodes": self._total,
            **summarize(wanted, self._spec.seed),
            "session": {
                "episodes": len(self._fresh),
                "seconds": self._seconds,
                "workers": workers,
                "worker_restarts": self._restarts,
                "steps_per_second": steps / self._seconds if self._seconds else None,
            },
            "config": dict(self._spec.config),
            "engine": self._engine or self._earlier_engine(),
            "versions": provenance.versions(),
            "commit": provenance.git_commit(),
            "machine": provenance.machine(),
            "date": provenance.now(),
        }

    def _earlier_engine(self) -> dict[str, Any]:
        return self._folder.earlier_summary().get("engine", {})


def _check_same_episodes(folder: ResultFolder, jobs: Sequence[Job]) -> None:
    for job in jobs:
        record = folder.records.get(job.index)
        if record is not None and record.fingerprint != job.fingerprint:
            raise UserError(
                f"episode {job.index} in {folder.path} is another one than in this data "
                f"('{record.episode_id}' there, '{job.episode.episode_id}' here); choose another "
                "out="
            )
