"""What a data set shows of one control step, and the agent that notes it while it acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from eval.dataset.words import MOTION_WORDS, call_words, task_words
from planner.chain.interface import Agent, AgentReport
from skills.book import BOOK, chained, make_task, row_of
from skills.interface import HELPERS, Skill, SkillCall, WatchedSkill
from skills.tasks.sensors import PICTURES, SENSORS, observe
from skills.tasks.state import GoalRow, View, stack_goals
from tpsrl.episodes.types import Episode
from tpsrl.sim.door import Simulator

STATE = ("joint", "is_holding", "ee_pos", "relative_resting_position", "gps", "compass")
"""Sensors of ``observation.state``; the last two measure from where the episode began."""
_BESIDE = ("obj_start_in_base", "obj_goal_in_base", "marker_pose", "marker_js")
ACTIONS = (*(f"arm.{k}" for k in range(7)), "grip", "base.forward", "base.turn")
"""Names of the entries of ``action``, see ``Simulator.step``."""
HELPER = "helper"
"""Skill of the steps in which the chain folds the arm, waits, lets go or turns around."""


def goal_sensors() -> tuple[str, ...]:
    """Return the sensors of ``observation.environment_state``: what the running skill is about.

    Those are what the contract shows to any skill of a plan, beside pictures and ``STATE``, and
    some that follow from it and spare a policy the kinematics.
    """
    named = [name for skill in chained() for name in row_of(skill).task.sensors]
    shown = [name for name in (*named, *_BESIDE) if name not in (*PICTURES, *STATE)]
    return tuple(dict.fromkeys(shown))


def goal_sensors_of(skill: str) -> tuple[str, ...]:
    """Return those that mean something while a skill runs; the others are 0 then."""
    row = BOOK[skill]
    return tuple(name for name in goal_sensors() if name in (*row.task.sensors, *row.state))


def names_of(sensors: tuple[str, ...]) -> list[str]:
    """Return a name for every value of some sensors, e.g. ``joint.0``."""
    return [
        f"{s}.{k}" if SENSORS[s].size > 1 else s for s in sensors for k in range(SENSORS[s].size)
    ]


class Sink(Protocol):
    """Takes the frames of an episode."""

    def add(self, frame: dict[str, Any]) -> None:
        """Take the next frame; see :meth:`NotingAgent.act` for what it holds."""


class NotingAgent:
    """An agent whose every step is noted before it is taken.

    Actions are rounded to float32 and clipped, so that what a data set holds is what was done.

    Args:
        agent: who acts.
        pixels: of the square colour pictures.
    """

    def __init__(self, agent: Agent, pixels: int) -> None:
        self.name, self._agent, self._pixels = agent.name, agent, pixels
        self.sink: Sink | None = None
        self._call: SkillCall | None = None
        self._goal: GoalRow | None = None
        self._words = ""
        wrap = getattr(agent, "wrap_skills", None)
        if wrap is not None:
            wrap(lambda make: lambda name: _Noted(make(name), self._begin))

    def reset(self, sim: Simulator, env_id: int, episode: Episode, seed: int) -> None:
        """See :meth:`Agent.reset`."""
        self._call = self._goal = None
        self._words = task_words(episode)  # until a skill says what it does
        self._pose = np.asarray(sim.state().base_pose)[env_id].copy()
        self._agent.reset(sim, env_id, episode, seed)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray | None:
        """Return the next action and give what was seen before it to ``sink``.

        A frame holds ``observation.state`` and ``observation.environment_state`` (float32),
        ``action`` (10,) float32, ``skill``, ``subtask``, and the pictures ``third_person``,
        ``head`` (H, W, 3) uint8 and ``head_depth`` (h, w) uint8, 255 = 10 m.
        """
        action = self._agent.act(sim, env_id)
        if action is None:
            return None
        done = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0).astype(np.float32)
        if self.sink is not None:
            self._notice_motion()
            self.sink.add(self._frame(sim, env_id, done))
        return done.astype(np.float64)

    def report(self) -> AgentReport:
        """See :meth:`Agent.report`."""
        return self._agent.report()

    def _begin(self, sim: Simulator, env_id: int, call: SkillCall) -> None:
        self._call = call
        self._words = call_words(sim, env_id, call)
        self._goal = None
        if call.skill not in HELPERS:
            self._goal = make_task(call.skill).goal_for(sim, env_id, call)

    def _notice_motion(self) -> None:
        """The chain recovers by itself, with no skill that anybody could have wrapped."""
        skills = self._agent.report().skills
        if skills and skills[-1].skill in MOTION_WORDS:
            self._call = self._goal = None
            self._words = MOTION_WORDS[skills[-1].skill]

    def _frame(self, sim: Simulator, env_id: int, action: np.ndarray) -> dict[str, Any]:
        state = sim.state()
        skill = HELPER if self._goal is None or self._call is None else self._call.skill
        from_start = dataclasses.replace(self._goal or GoalRow(), start_pose=self._pose)
        seen = observe(View(state, stack_goals([from_start], state.base_pose)), STATE)
        about = {} if skill == HELPER else self._about(sim, skill)
        goal = [about.get(s, np.zeros((1, SENSORS[s].size))) for s in goal_sensors()]
        quick: dict[str, Any] = {"draft": True, "shadows": False}
        quick.update(width=self._pixels, height=self._pixels)
        return {
            "observation.state": np.concatenate([seen[s][env_id] for s in STATE]),
            "observation.environment_state": np.concatenate([g[0] for g in goal]).astype(
                np.float32
            ),
            "action": action,
            "skill": skill,
            "subtask": self._words,
            "third_person": sim.render("third_person", env_id, **quick),
            "head": sim.render("head", env_id, **quick),
            "head_depth": (np.asarray(sim.depth())[env_id, ..., 0] * 255 + 0.5).astype(np.uint8),
        }

    def _about(self, sim: Simulator, skill: str) -> dict[str, np.ndarray]:
        assert self._goal is not None
        state = sim.state()
        return observe(
            View(state, stack_goals([self._goal], state.base_pose)), goal_sensors_of(skill)
        )


class _Noted(WatchedSkill):
    """A skill that says when it begins."""

    def __init__(self, skill: Skill, begin: Callable[[Simulator, int, SkillCall], None]) -> None:
        super().__init__(skill)
        self._begin = begin

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._begin(sim, env_id, call)
        super().reset(sim, env_id, call, seed)
