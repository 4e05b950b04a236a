"""Agents that act in a :class:`~skills.envs.single.SkillEnv` with its flat actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from skills.envs.single import SkillEnv
from skills.interface import Skill, SkillName
from skills.tasks.navigate import PointNavTask
from skills.tasks.roam import ExploreProgress, ExploreTask
from tpsrl.robot import fetch
from tpsrl.sim.door import DistanceField

_ARRIVED, _LOOKAHEAD = 0.05, 0.4
"""A goal nearer than this is reached; how far ahead on the path one steers, m."""
_PATIENCE = 400
"""Steps after which a goal is given up."""


class EnvAgent(ABC):
    """Acts in one environment.

    Args:
        env: an environment, not wrapped.
    """

    def __init__(self, env: SkillEnv) -> None:
        self.env = env

    @abstractmethod
    def reset(self, seed: int) -> None:
        """Begin; call it after ``env.reset``."""

    @abstractmethod
    def act(self) -> np.ndarray:
        """Return the next flat action in [-1, 1]."""


class RandomAgent(EnvAgent):
    """Draws actions uniformly."""

    def reset(self, seed: int) -> None:
        """See :meth:`EnvAgent.reset`."""
        self.env.action_space.seed(seed)

    def act(self) -> np.ndarray:
        """See :meth:`EnvAgent.act`."""
        return self.env.action_space.sample()


class SkillAgent(EnvAgent):
    """Lets a skill policy act, and stops when it says that it has finished or given up.

    Args:
        env: environment of one of the seven skills.
        make: returns the policy of a skill, e.g. ``skills.programs.make_skill``.
    """

    def __init__(self, env: SkillEnv, make: Callable[[SkillName], Skill]) -> None:
        super().__init__(env)
        self._make = make

    def reset(self, seed: int) -> None:
        """See :meth:`EnvAgent.reset`."""
        call = self.env.worlds.origins[0].call
        if call is None:
            raise ValueError(f"'{self.env.skill}' is no part of a plan; use DrivingAgent.")
        self.skill = self._make(call.skill)
        self.skill.reset(self.env.sim, 0, call, seed)

    def act(self) -> np.ndarray:
        """See :meth:`EnvAgent.act`."""
        sim = self.env.sim
        robot = self.skill.act(sim, 0)
        status = self.skill.status(sim, 0)
        stop = np.array([status.done or status.failed])
        return self.env.worlds.task.flat_action(robot[None], stop)[0]


class DrivingAgent(EnvAgent):
    """PointNav, Flee and Explore with privileged knowledge of free space.

    PointNav: the shortest path, then stop. Flee: to the farthest point. Explore: always to the
    nearest cell that has not been visited.
    """

    def reset(self, seed: int) -> None:
        """See :meth:`EnvAgent.reset`."""
        self._navigation = self.env.sim.scene(0).navigation
        self._blocked: list[np.ndarray] = []
        self._actions = self._drive()

    def act(self) -> np.ndarray:
        """See :meth:`EnvAgent.act`."""
        robot = next(self._actions, None)
        stop = np.array([robot is None])
        wanted = np.zeros(10) if robot is None else robot
        return self.env.worlds.task.flat_action(wanted[None], stop)[0]

    def _drive(self) -> Iterator[np.ndarray]:
        while (goal := self._next_goal()) is not None:
            field = self._navigation.distance_field(goal[None])
            if not np.isfinite(field.distance(self._base()[:2])):
                self._blocked.append(goal)
                yield np.zeros(10)
                continue
            yield from self._follow(field, goal)
            # Never twice the same goal: the base may stop just short of the cell.
            self._blocked.append(goal)
            if not isinstance(self.env.worlds.task, ExploreTask):
                return

    def _follow(self, field: DistanceField, goal: np.ndarray) -> Iterator[np.ndarray]:
        """Turn towards the path and drive along it until the goal is near."""
        for _ in range(_PATIENCE):
            here = self._base()
            if np.linalg.norm(goal - here[:2]) < _ARRIVED:
                return
            gap = field.descend(here[:2], _LOOKAHEAD) - here[:2]
            error = (np.arctan2(gap[1], gap[0]) - here[2] + np.pi) % (2 * np.pi) - np.pi
            action = np.zeros(10)
            if abs(error) < 0.1:
                action[8] = min(float(np.hypot(*gap)) / fetch.BASE_DELTA_LINEAR, 1.0)
            action[9] = np.clip(error / fetch.BASE_DELTA_ANGULAR, -1.0, 1.0)
            yield action

    def _base(self) -> np.ndarray:
        return np.asarray(self.env.sim.state().base_pose)[0]

    def _next_goal(self) -> np.ndarray | None:
        worlds = self.env.worlds
        assert worlds.view is not None
        here = self._base()
        if isinstance(worlds.task, PointNavTask):
            return np.asarray(worlds.view.goal.position)[0, :2]
        points = worlds.free_points(0)
        distance = self._navigation.distance_field(here[None, :2]).distance(points)
        if not isinstance(worlds.task, ExploreTask):
            best = int(np.argmax(np.where(np.isfinite(distance), distance, -1.0)))
            return points[best]
        distance = np.where(self._visited(points, worlds.task), np.inf, distance)
        for spot in self._blocked:
            distance[np.linalg.norm(points - spot, axis=1) < 2 * _ARRIVED] = np.inf
        best = int(np.argmin(distance))
        return points[best] if np.isfinite(distance[best]) else None

    def _visited(self, points: np.ndarray, task: ExploreTask) -> np.ndarray:
        worlds = self.env.worlds
        assert worlds.view is not None and isinstance(worlds.progress, ExploreProgress)
        start = np.asarray(worlds.view.goal.start_pose)[0, :2]
        cells = np.round((points - start) / task.cell).astype(int) + task.grid // 2
        cells = np.clip(cells, 0, task.grid - 1)
        return np.asarray(worlds.progress.visited)[0][cells[:, 0], cells[:, 1]]
