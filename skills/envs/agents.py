"""Agents that act in a :class:`~skills.envs.single.SkillEnv` with its flat actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from skills.envs.single import SkillEnv
from skills.interface import Skill, SkillName
from skills.tasks.roam import RoamTask
from tpsrl.geometry.rotations import wrap
from tpsrl.robot import fetch
from tpsrl.sim.scene import DistanceField

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
        make: returns the policy of a skill, e.g. ``skills.book.make_skill``.
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
    """PointNav, Flee and Explore with privileged knowledge of free space; stops at the end.

    Args:
        env: environment of one of them.

    Raises:
        ValueError: it is of another skill.
    """

    def __init__(self, env: SkillEnv) -> None:
        super().__init__(env)
        if not isinstance(env.worlds.task, RoamTask):
            raise ValueError(f"nobody knows where to drive in '{env.skill}'; use SkillAgent.")
        self._task = env.worlds.task

    def reset(self, seed: int) -> None:
        """See :meth:`EnvAgent.reset`."""
        self._navigation = self.env.sim.scene(0).navigation
        self._been: list[np.ndarray] = []
        self._actions = self._drive()

    def act(self) -> np.ndarray:
        """See :meth:`EnvAgent.act`."""
        robot = next(self._actions, None)
        stop = np.array([robot is None])
        wanted = np.zeros(10) if robot is None else robot
        return self.env.worlds.task.flat_action(wanted[None], stop)[0]

    def _drive(self) -> Iterator[np.ndarray]:
        while (goal := self._next_point()) is not None:
            field = self._navigation.distance_field(goal[None])
            if np.isfinite(field.distance(self._base()[:2])):
                yield from self._follow(field, goal)
            else:
                yield np.zeros(10)
            # Never twice the same goal: the base may stop just short of the cell.
            self._been.append(goal)

    def _follow(self, field: DistanceField, goal: np.ndarray) -> Iterator[np.ndarray]:
        """Turn towards the path and drive along it until the goal is near."""
        for _ in range(_PATIENCE):
            here = self._base()
            if np.linalg.norm(goal - here[:2]) < _ARRIVED:
                return
            gap = field.descend(here[:2], _LOOKAHEAD) - here[:2]
            error = wrap(np.arctan2(gap[1], gap[0]) - here[2])
            action = np.zeros(10)
            if abs(error) < 0.1:
                action[8] = min(float(np.hypot(*gap)) / fetch.BASE_DELTA_LINEAR, 1.0)
            action[9] = np.clip(error / fetch.BASE_DELTA_ANGULAR, -1.0, 1.0)
            yield action

    def _base(self) -> np.ndarray:
        return np.asarray(self.env.sim.state().base_pose)[0]

    def _next_point(self) -> np.ndarray | None:
        worlds = self.env.worlds
        assert worlds.view is not None and worlds.progress is not None
        return self._task.next_point(worlds.view, worlds.progress, self._navigation, self._been)
