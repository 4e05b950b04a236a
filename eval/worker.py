"""A worker process: builds a simulator and an agent once, then runs the episodes it is sent.

Imports stay light: torch is loaded only if the agent's factory loads it.
"""

from __future__ import annotations

import dataclasses
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from eval.episode import EpisodeRecord, blame, run_episode
from eval.spec import EvaluationSpec
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.jobs.processes import follow_parent


@dataclass(frozen=True)
class Job:
    """One episode to run.

    Attributes:
        index: position of the episode in its set.
        episode: what to load.
        fingerprint: hash of its content.
        seed: seed of simulator and agent.
    """

    index: int
    episode: Episode
    fingerprint: str
    seed: int

    def empty_record(self) -> EpisodeRecord:
        """Return a record that says which episode this is, and nothing of what happened."""
        return EpisodeRecord(
            index=self.index,
            episode_id=self.episode.episode_id,
            fingerprint=self.fingerprint,
            scenario=self.episode.scenario,
            layout=self.episode.layout,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Ready:
    """The worker has its simulator and agent.

    Attributes:
        engine: the fields of ``EngineInfo``.
        agent: the agent's name.
    """

    engine: dict[str, Any]
    agent: str


@dataclass(frozen=True)
class Fatal:
    """The run cannot go on: one sentence for the user, or a traceback."""

    message: str
    is_user_error: bool


def worker_main(connection: Connection, spec: EvaluationSpec) -> None:
    """Serve jobs from ``connection`` until it says ``None`` or the parent is gone."""
    follow_parent()
    simulator = None
    try:
        simulator = spec.simulator.build()
        agent = spec.agent.build()
        connection.send(Ready(dataclasses.asdict(simulator.info), agent.name))
        while (job := connection.recv()) is not None:
            connection.send(_run(simulator, agent, spec, job))
    except (EOFError, BrokenPipeError):
        pass
    except UserError as error:
        connection.send(Fatal(str(error), True))
    except Exception:
        connection.send(Fatal(traceback.format_exc(), False))
    finally:
        if simulator is not None:
            simulator.close()


def _run(simulator: Any, agent: Any, spec: EvaluationSpec, job: Job) -> EpisodeRecord:
    record = job.empty_record()
    try:
        task = spec.task.build(job.episode)
        return run_episode(simulator, agent, task, record, job.episode, spec.max_steps)
    except UserError as error:
        raise UserError(f"episode {job.index} ({job.episode.episode_id}): {error}") from error
    except Exception:
        # A fault in one episode must not cost the others of a long run; it is counted and shown.
        record = job.empty_record()
        record.end = "error"
        record.extra = {"traceback": traceback.format_exc()}
        record.failure = blame(record)
        return record
