"""What the running skill senses and how its task would reward it, reckoned beside the chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.chain.tpsrl import TpsrlAgent
from skills.book import BOOK, make_task
from skills.envs.distances import DistanceSource, distance_source
from skills.interface import HELPERS, Skill, SkillCall
from skills.learned.skill import LearnedSkill
from skills.tasks.base import Task
from skills.tasks.scan import scan_for
from skills.tasks.sensors import DEPTH, observe
from skills.tasks.state import GoalRow, View, stack_goals
from tpsrl.sim.door import Simulator

Look = dict[str, np.ndarray]
"""Sensor -> what it says now, (k,) float32."""


class Senses:
    """Follows an agent from skill to skill; looks, and changes nothing.

    A learned skill is seen by the sensors of its policy, a scripted one by those of its contract.
    """

    def __init__(self) -> None:
        self._call: SkillCall | None = None
        self._task: Task[Any] | None = None
        self._skill: Skill | None = None
        self._row = GoalRow()
        self._distances: DistanceSource | None = None
        self._progress: Any = None
        self._here: np.ndarray | None = None
        self._steps = 0

    def look(self, sim: Simulator, agent: Any) -> tuple[float, Look]:
        """Return reward of the last step and present observations of the running skill.

        Returns:
            NaN and nothing while no skill of the book runs.
        """
        running = agent.running if isinstance(agent, TpsrlAgent) else None
        if running is None or running[0].skill not in BOOK or running[0].skill in HELPERS:
            self._call = None
            return np.nan, {}
        call, skill = running
        if call is not self._call:
            return 0.0, self._read(self._begin(sim, call, skill))
        assert self._task is not None
        self._steps += 1
        view = self._view(sim)
        self._progress, outcome = self._task.step(view, self._progress, np.zeros(1, dtype=bool))
        return float(outcome.reward[0]), self._read(view)

    def _begin(self, sim: Simulator, call: SkillCall, skill: Skill) -> View:
        task = skill.task if isinstance(skill, LearnedSkill) else make_task(call.skill)
        self._call, self._task, self._skill = call, task, skill
        self._row = task.goal_for(sim, 0, call)
        self._distances = distance_source(task, 1)
        self._distances.begin(sim, 0, self._row)
        self._here, self._steps = np.asarray(sim.state().base_pose), 0
        view = self._view(sim)
        self._progress = task.begin(view)
        return view

    def _view(self, sim: Simulator) -> View:
        assert self._task is not None and self._distances is not None
        state, sensors = sim.state(), self._task.sensors
        pose = np.asarray(state.base_pose)
        far = self._distances.measure(pose)
        scan = scan_for(sensors, sim, pose)
        before, self._here = self._here, pose
        goal = stack_goals([self._row], pose)
        steps = np.full(1, self._steps)
        told, seen = np.zeros((1, 3)), None
        if isinstance(self._skill, LearnedSkill):
            told = self._skill.told
            seen = None if self._skill.seen is None else self._skill.seen.read(pose)
        past = before, steps, told
        return View(state, goal, far.geodesic, None, scan, far.course, *past, seen)

    def _read(self, view: View) -> Look:
        assert self._task is not None
        names = tuple(name for name in self._task.sensors if name != DEPTH)
        return {k: np.asarray(v)[0].astype(np.float32) for k, v in observe(view, names).items()}
