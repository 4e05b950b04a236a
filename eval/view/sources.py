"""Where the steps of the page come from: a chain, one skill, or what was recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval.episode import EpisodeRun
from eval.recording import Recording
from eval.spec import EvaluationSpec
from eval.trials import SkillStudy, Trial, scenes_of
from eval.view.senses import Look, Senses
from planner.chain.make import make_agent
from planner.chain.predicates import HabTask
from planner.chain.problems import goal_problem
from skills.envs.single import SkillEnv
from tpsrl.episodes.types import Episode, Target
from tpsrl.errors import UserError
from tpsrl.provide import pick_episode
from tpsrl.sim.door import Simulator
from tpsrl.sim.mujoco.engine import MujocoSimulator

_REST = np.array([1.0, 0.0, 0.0, 0.0])
_DEEP, _RAISE, _HIGHEST = 0.005, 0.02, 0.4
"""How deep an object may be put into others, in what steps it is raised from there, and how far
at most, m: physics throws what reaches deep into something across the apartment."""


class Source(ABC):
    """One episode after another, step by step.

    Attributes:
        recording: of the episode that was begun.
        looks: what the running skill sensed in each of its steps, where that is known.
        title: what is shown.
        ending: how the episode ended, ``""`` while it runs.
        live: there may be more steps than are recorded.
        remark: how its goal in words was understood, or what is not known of the episode and how
            to see it; ``""`` for none.
        count: how many there are, ``None`` where there is no last one.
    """

    recording: Recording
    live = True
    count: int | None = None

    def __init__(self) -> None:
        self.looks: list[Look] = []
        self.title, self.ending, self.index, self.remark = "", "", 0, ""

    @abstractmethod
    def begin(self, index: int) -> None:
        """Begin an episode.

        Raises:
            UserError: there is no such episode.
        """

    @abstractmethod
    def step(self) -> bool:
        """Go on by one control step and record it; return whether there was one."""

    @property
    def sim(self) -> Simulator:
        """The simulator of a live episode.

        Raises:
            UserError: nothing runs.
        """
        raise UserError("this is a recording: what happened in it stays; open a live episode")

    def drag(self, index: int, pos: np.ndarray, quat: np.ndarray = _REST) -> None:
        """Put an object elsewhere, or above what is there: (3,) position and (4,) quaternion.

        Raises:
            UserError: nothing runs, or there is no room.
        """
        sim = self.sim
        assert isinstance(sim, MujocoSimulator)
        if self.ending:
            raise UserError("the episode is over; open another one, or send a goal")
        before = sim.capture()
        if int(sim.state().held_object[0]) == index:
            sim.release()
        for up in np.arange(0.0, _HIGHEST, _RAISE):
            sim.set_object(index, pos + [0.0, 0.0, up], quat)
            if sim.deepest_overlap(0, index) < _DEEP:
                return
        sim.restore(before)
        raise UserError("there is no room for it; it stays where it was")

    def send(self, targets: Sequence[Target]) -> None:
        """Give the agent another goal, from the present on.

        Raises:
            UserError: nobody here plans.
        """
        raise UserError("nobody plans here; watch a scenario, not a skill or a recording")

    def close(self) -> None:  # noqa: B027
        """Free what runs."""


class ChainSource(Source):
    """An agent over the episodes of a scenario, as ``tpsrl eval`` with the same seed runs them.

    Args:
        spec: of the evaluation.
        episodes: in its order.
    """

    def __init__(self, spec: EvaluationSpec, episodes: Sequence[Episode]) -> None:
        super().__init__()
        self.count = len(episodes)
        self._spec, self._episodes = spec, episodes
        self._sim: MujocoSimulator = spec.simulator.build()
        self._agent = spec.agent.build()

    @property
    def sim(self) -> Simulator:
        """See :class:`Source`."""
        return self._sim

    def begin(self, index: int) -> None:
        """See :meth:`Source.begin`."""
        episode, spec = pick_episode(tuple(self._episodes), index), self._spec
        self.index = index
        record = spec.job(self.index, episode).empty_record()
        episode = spec.begin(record, episode)
        task = spec.task.build(episode)
        self._run = EpisodeRun(self._sim, self._agent, task, record, episode, spec.max_steps)
        self.recording = Recording(episode, spec.about)
        self._senses, self.looks, self.ending = Senses(), [], ""
        self.remark = "; ".join(record.extra.get("notes", ()))
        config = spec.config
        self.title = f"{config['scenario']} {self.index}: {config['agent']}, {config['executor']}"
        self._keep()

    def step(self) -> bool:
        """See :meth:`Source.step`."""
        if self.ending:
            return False
        moved = self._run.step()
        if moved:
            self._keep()
        else:
            record = self._run.finish()
            why = record.failure or {}
            failed = f"failed: {why.get('skill')}, {why.get('cause')}"
            self.ending = "success" if record.success else failed
        return moved

    def send(self, targets: Sequence[Target]) -> None:
        """See :meth:`Source.send`; what is in the hand and of no use for the goal is let go."""
        sim, run, options = self._sim, self._run, dict(self._spec.agent.kwargs)
        before = sim.capture()
        if int(sim.state().held_object[0]) not in {target.object_index for target in targets}:
            sim.release()
        sim.set_targets(targets)
        agent = make_agent(**{**options, "scenario": ""}, source=goal_problem)
        episode = sim.episode(0)
        try:
            agent.reset(sim, 0, episode, run.record.seed)
        except UserError:
            sim.restore(before)
            raise
        run.agent, run.task, run.over, run.record.failure = agent, _task_of(episode), False, None
        run.record.end, run.max_steps = "max_steps", run.steps + self._spec.max_steps
        self.recording.hand_over()
        self.recording.episode, self.ending, self.remark = episode, "", ""

    def close(self) -> None:
        """See :meth:`Source.close`."""
        self._sim.close()

    def _keep(self) -> None:
        reward, look = self._senses.look(self._sim, self._run.agent)
        self.looks.append(look)
        self.recording.add(self._sim.state(), self._run.agent.report(), reward)


def _task_of(episode: Episode) -> HabTask:
    return HabTask(goal_problem(episode))


class SkillSource(Source):
    """One skill in its own environment, as ``tpsrl eval skill=...`` runs it.

    Args:
        study: of the evaluation.
        seed: of the first episode.
    """

    def __init__(self, study: SkillStudy, seed: int = 0) -> None:
        super().__init__()
        self._study, self._seed = study, seed
        self._env = SkillEnv(study.skill, **study.env_args)
        self._agent = study.acting(self._env)

    @property
    def sim(self) -> Simulator:
        """See :class:`Source`."""
        return self._env.sim

    def begin(self, index: int) -> None:
        """See :meth:`Source.begin`."""
        self.index, self.ending = max(index, 0), ""
        self._trial = Trial(self._env, self._agent, self._seed + self.index)
        about = {"config": dict(self._study.config), "simulator": scenes_of(self._env)}
        self.recording = Recording(self._env.sim.episode(0), about)
        self.title = f"{self._study.skill} {self.index}: {self._study.agent}"
        self.looks = []
        self._keep(np.nan)

    def step(self) -> bool:
        """See :meth:`Source.step`."""
        if self.ending:
            return False
        self._trial.step()
        if self._trial.over:
            record = self._trial.record()
            self.ending = "success" if record["success"] else f"failed: {record['cause']}"
        self._keep(self._trial.reward)
        return True

    def close(self) -> None:
        """See :meth:`Source.close`."""
        self._env.close()

    def _keep(self, reward: float) -> None:
        seen = self._trial.observation.items()
        self.looks.append({k: np.asarray(v) for k, v in seen if np.ndim(v) == 1})
        self.recording.add(self._env.sim.state(), self._trial.report, reward)


@dataclass(frozen=True)
class Entry:
    """A recorded episode.

    Attributes:
        index: in its set.
        text: how it ended.
        success: whether it did well.
        path: of the states.
    """

    index: int
    text: str
    success: bool
    path: Path


class ReplaySource(Source):
    """Recorded episodes.

    Args:
        entries: of them.
    """

    live = False

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self.entries = {entry.index: entry for entry in entries}

    def begin(self, index: int) -> None:
        """See :meth:`Source.begin`."""
        if index not in self.entries:
            later = [other for other in sorted(self.entries) if other > index]
            index = later[0] if later else min(self.entries)
        entry = self.entries[index]
        self.index, self.recording = index, Recording.load(entry.path)
        config = self.recording.about.get("config", {})
        names = [config.get(key) for key in ("scenario", "skill", "agent", "executor")]
        self.title = f"{' '.join(str(n) for n in names if n)}, episode {index}, recorded"
        self.ending = entry.text
        self.remark = "senses are" if config.get("skill") else "reward and senses are"
        how = "'Start' on the page 'Change' runs the episode again with them"
        self.remark += f" not recorded; {how}"

    def step(self) -> bool:
        """See :meth:`Source.step`: all there is is recorded."""
        return False


def scenes_in(recording: Recording) -> dict[str, Any] | None:
    """Return the scenes in which a recording was made, fields of ``Scenes``; ``None``: ours."""
    scenes: dict[str, Any] | None = recording.about.get("simulator", {}).get("scenes")
    return scenes
