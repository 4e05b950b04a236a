"""One episode: an agent acts in one world, and what happened becomes a record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval.trace import Trace
from planner.chain.interface import Agent, AgentReport, EpisodeMeasure
from planner.chain.motions import MOTIONS
from skills.book import BOOK
from skills.interface import HELPERS
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.sim.door import SimState, Simulator

NO_SKILL = "(none)"
"""Skill name of failures that happened outside of any skill."""
GOAL_REFUSED = "goal_refused"
NOT_PLAYED = (GOAL_REFUSED, "error", "worker_died")
"""Ends of episodes of which nothing was measured."""
"""End of an episode that cannot have the goal in words."""


@dataclass
class EpisodeRecord:
    """Result of one episode, one line of ``episodes.jsonl``.

    Attributes:
        index: position of the episode in its set.
        episode_id: the episode's own name.
        fingerprint: hash of the episode's content.
        scenario: the episode's scenario.
        layout: the episode's layout.
        seed: seed of simulator and agent.
        success: the agent called stop and the scenario's goal held at that moment.
        goal_at_end: the goal held when the episode ended, however it ended.
        end: ``"stop"``, ``"max_steps"``, ``"diverged"``, ``"goal_refused"`` (the episode cannot
            have the goal in words, so it never began), ``"error"`` or ``"worker_died"``.
        stages: stage -> first control step at which its goal held, ``None`` if never.
        ordered_stages: the same, counting a stage only from when all earlier ones were reached.
        steps: control steps.
        states: digest of every state of the world; two runs that did the same have the same.
        distance: driven by the base, m.
        turned: by the base, rad.
        force_max: largest contact force on the robot, N.
        force_sum: accumulated contact force (see docs/metrics.md), N.
        hold_violations: control steps in which the held thing was too far from the suction cup.
        skills: every skill run: skill, action, steps, outcome, cause.
        failure: ``{"skill", "cause"}`` of a failed episode, else ``None``.
        replans: how often the agent planned again.
        seconds: wall-clock time.
        attempts: how many workers tried it.
        extra: further numbers of the agent, or the text of an error or a refusal.
    """

    index: int
    episode_id: str
    fingerprint: str
    scenario: str
    layout: str
    seed: int
    success: bool = False
    goal_at_end: bool = False
    end: str = ""
    stages: dict[str, int | None] = field(default_factory=dict)
    ordered_stages: dict[str, int | None] = field(default_factory=dict)
    steps: int = 0
    states: str = ""
    distance: float = 0.0
    turned: float = 0.0
    force_max: float = 0.0
    force_sum: float = 0.0
    hold_violations: int = 0
    skills: list[dict[str, Any]] = field(default_factory=list)
    failure: dict[str, str] | None = None
    replans: int = 0
    seconds: float = 0.0
    attempts: int = 1
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for ``json.dumps``."""
        return plain(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EpisodeRecord:
        """Read a line of ``episodes.jsonl``.

        Raises:
            UserError: a field is missing or unknown, as in records of a skill.
        """
        try:
            return cls(**values)
        except TypeError as error:
            raise UserError(
                f"record {values.get('index')} is not of an episode of a chain"
                f" ({str(error).partition(' ')[2]}); name results of 'tpsrl eval scenario=...'"
            ) from None


@dataclass(frozen=True)
class EpisodeJob:
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

    def __str__(self) -> str:
        return f"episode {self.index} ({self.episode.episode_id})"

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


def fingerprint(episode: Episode) -> str:
    """Return a short hash of what an episode holds: objects, poses, targets, joints."""
    digest = hashlib.sha256()
    for part in (episode.episode_id, episode.scenario, episode.layout):
        digest.update(part.encode() + b"\0")
    for item in episode.objects:
        digest.update(f"{item.type}|{item.instance}|".encode())
        digest.update(np.round(np.concatenate([item.pos, item.quat]), 6).tobytes())
    for target in episode.targets:
        digest.update(f"{target.object_index}|{target.label}|".encode())
        digest.update(np.round(np.asarray(target.goal_pos, dtype=np.float64), 6).tobytes())
    digest.update(json.dumps(sorted((k, float(v)) for k, v in episode.joints.items())).encode())
    if episode.start is not None:
        digest.update(np.round(np.asarray(episode.start, dtype=np.float64), 6).tobytes())
    return digest.hexdigest()[:16]


@dataclass
class StageClock:
    """When each stage's goal held first, alone and in order."""

    first: dict[str, int | None] = field(default_factory=dict)
    ordered: dict[str, int | None] = field(default_factory=dict)

    def update(self, holds: Mapping[str, bool], step: int) -> None:
        """Note the stages (in the scenario's order) whose goals hold after ``step`` steps."""
        earlier_reached = True
        for name, now in holds.items():
            if self.first.setdefault(name, None) is None and now:
                self.first[name] = step
            if self.ordered.setdefault(name, None) is None and now and earlier_reached:
                self.ordered[name] = step
            earlier_reached = earlier_reached and self.ordered[name] is not None


class Meter:
    """Sums up motion and forces of one world over an episode."""

    def __init__(self, state: SimState, env_id: int) -> None:
        self.env_id = env_id
        self.distance = self.turned = self.force_max = self.force_sum = 0.0
        self.hold_violations = 0
        self._pose = np.asarray(state.base_pose[env_id], dtype=np.float64).copy()

    def update(self, state: SimState) -> None:
        """Add one control step."""
        pose = np.asarray(state.base_pose[self.env_id], dtype=np.float64)
        step = pose - self._pose
        self.distance += float(np.hypot(step[0], step[1]))
        self.turned += abs(math.remainder(float(step[2]), 2 * math.pi))
        self.force_max = max(self.force_max, float(state.force[self.env_id]))
        self.force_sum = float(state.force_sum[self.env_id])
        self.hold_violations += int(state.hold_violation[self.env_id])
        self._pose = pose.copy()


Observer = Callable[[Simulator, Agent, int], None]
"""Called after reset and after every step with the number of steps; videos use it."""


class EpisodeRun:
    """One episode in world 0 that somebody else advances; what happened goes into a record.

    Success is the benchmark's: the agent calls stop and the goal holds at that moment.

    Args:
        sim: simulator whose world 0 is used.
        agent: decides the actions.
        task: measures stages and success on simulator state.
        record: with index, seed and names filled in.
        episode: what to load.
        max_steps: control steps after which the episode fails.
    """

    def __init__(
        self,
        sim: Simulator,
        agent: Agent,
        task: EpisodeMeasure,
        record: EpisodeRecord,
        episode: Episode,
        max_steps: int,
    ) -> None:
        self.sim, self.agent, self.task, self.record = sim, agent, task, record
        self.max_steps, self.steps, self.over = max_steps, 0, False
        self._start = time.perf_counter()
        sim.reset([episode], [record.seed])
        agent.reset(sim, 0, episode, record.seed)
        self._clock, self._meter, self._trace = StageClock(), Meter(sim.state(), 0), Trace()
        self._trace.add(sim.state())
        self._clock.update(task.stages(sim, 0), 0)
        record.end = "max_steps"

    def step(self) -> bool:
        """Let the agent act once; return whether the world has moved on and the episode with it."""
        if self.over or self.steps >= self.max_steps:
            self.over = True
            return False
        action = self.agent.act(self.sim, 0)
        if action is None:
            self.record.end, self.over = "stop", True
            return False
        self.sim.step(np.asarray(action, dtype=np.float64)[None])
        self.steps += 1
        state = self.sim.state()
        self._trace.add(state)
        if bool(state.diverged[0]):
            # The engine has reset this world: nothing of it may be counted from here on.
            self.record.end, self.over = "diverged", True
            return False
        self._meter.update(state)
        self._clock.update(self.task.stages(self.sim, 0), self.steps)
        return True

    def finish(self) -> EpisodeRecord:
        """Fill and return the record."""
        record = self.record
        record.steps, record.states = self.steps, self._trace.digest
        record.goal_at_end = record.end != "diverged" and bool(self.task.success(self.sim, 0))
        record.success = record.end == "stop" and record.goal_at_end
        record.stages, record.ordered_stages = self._clock.first, self._clock.ordered
        for name in ("distance", "turned", "force_max", "force_sum", "hold_violations"):
            setattr(record, name, getattr(self._meter, name))
        _add_report(record, self.agent.report())
        record.seconds = time.perf_counter() - self._start
        return record


def run_episode(
    sim: Simulator,
    agent: Agent,
    task: EpisodeMeasure,
    record: EpisodeRecord,
    episode: Episode,
    max_steps: int,
    observer: Observer | None = None,
) -> EpisodeRecord:
    """Run one episode to its end and return its record; see :class:`EpisodeRun`.

    ``observer`` is called after reset and after each step.
    """
    run = EpisodeRun(sim, agent, task, record, episode, max_steps)
    moved = True
    while moved:
        if observer is not None:
            observer(sim, agent, run.steps)
        moved = run.step()
    return run.finish()


def _add_report(record: EpisodeRecord, report: AgentReport) -> None:
    record.skills = [dataclasses.asdict(skill) for skill in report.skills]
    record.replans = report.replans
    record.extra |= report.extra
    if not record.success:
        record.failure = blame(record)


def blame(record: EpisodeRecord) -> dict[str, str]:
    """Say which skill ended a failed episode, and why.

    The last skill that did not succeed is blamed, but for those of which it does not matter (arm
    resets, detours); if every skill says it succeeded, the last one of a plan is (not the wait
    after it), with what the task saw as the cause. Where the plan was carried out without a look at
    what came of it, manipulations fail in a row: who brings a wrong object to the goal is not to
    blame, who grasped it is. So there the first of the row is blamed.
    """
    last = record.skills[-1] if record.skills else None
    needed = [skill for skill in record.skills if not skill.get("optional")]
    unsuccessful = [skill for skill in needed if skill["outcome"] != "success"]
    if record.end in ("diverged", *NOT_PLAYED):
        return {"skill": last["skill"] if last else NO_SKILL, "cause": record.end}
    if record.end == "max_steps":
        cause = "no_stop" if record.goal_at_end else "max_steps"
        return {"skill": last["skill"] if last else NO_SKILL, "cause": cause}
    if unsuccessful:
        skill = unsuccessful[-1] if record.replans else _first_of_row(needed)
        return {"skill": skill["skill"], "cause": skill["cause"] or skill["outcome"]}
    real = [skill for skill in needed if skill["skill"] not in (*HELPERS, *MOTIONS)]
    blamed = real[-1] if real else last
    return {"skill": blamed["skill"] if blamed else NO_SKILL, "cause": "goal_not_reached"}


def _first_of_row(skills: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the last run that did not succeed, or that of the manipulation which led to it."""
    blamed = None
    for skill in reversed(skills):
        if blamed is None:
            blamed = None if skill["outcome"] == "success" else skill
        elif skill["skill"] in BOOK and BOOK[skill["skill"]].uses_arm:
            if skill["outcome"] == "success":
                break
            blamed = skill
    assert blamed is not None
    return blamed


def plain(value: Any) -> Any:
    """Turn NumPy values into Python's, and numbers that JSON lacks into ``None``."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
