"""TP-SRL: a task planner that chains skills (Szot et al. 2021, section 5; VER, appendix B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from planner import Atom, Problem
from planner.chain.calls import Step, TpsrlOptions
from planner.chain.errand import Errand, about, problem_of
from planner.chain.executors import Executor, HabExecutor, ReplanExecutor
from planner.chain.grounding import rename
from planner.chain.interface import AgentReport, SkillRecord
from planner.chain.motions import MOTIONS
from planner.chain.predicates import SymbolicWorld
from skills.interface import HELPERS, Skill, SkillCall, SkillName
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.sim.door import Simulator

EXECUTORS: dict[str, type[HabExecutor] | type[ReplanExecutor]] = {
    "hab": HabExecutor,
    "replan": ReplanExecutor,
}
ProblemSource = Callable[[Episode], Problem]


class TpsrlAgent:
    """Plans an episode's scenario and carries the plan out with skills.

    An errand's goals are planned for one after the other, each in the world as it then is.

    Args:
        skills: makes a skill by name; each is made once and reset for every use.
        executor: ``"hab"`` for the benchmark's rules, ``"replan"`` to check effects and plan
            again (:mod:`planner.chain.executors`).
        problem: problem of an episode, by default that of the scenario it names.
        options: time limits and retries.
        name: stored with results.

    Raises:
        UserError: unknown executor.
    """

    def __init__(
        self,
        skills: Callable[[SkillName], Skill],
        executor: Literal["hab", "replan"] = "hab",
        problem: ProblemSource | None = None,
        options: TpsrlOptions | None = None,
        name: str = "tpsrl",
    ) -> None:
        if executor not in EXECUTORS:
            raise UserError(f"unknown executor '{executor}'{nearest(executor, EXECUTORS)}")
        self.name = name
        self.executor = executor
        self._make = skills
        self._source = problem or problem_of
        self._options = options or TpsrlOptions()
        self._skills: dict[SkillName, Skill] = {}
        self._goals: list[tuple[Atom, ...]] = []
        self._executor: Executor | None = None
        self._report = AgentReport()
        self._running: tuple[Step, SkillRecord, Skill] | None = None
        self._seed, self._runs = 0, 0
        self._stopped = False

    def reset(self, sim: Simulator, env_id: int, episode: Episode, seed: int) -> None:
        """Plan for an episode that the simulator has just been reset to.

        Raises:
            UserError: its scenario has no planning problem, does not fit it, or has no plan.
        """
        self._problem = rename(self._source(episode), episode)
        self._report = AgentReport(extra={"executor": self.executor})
        self._running, self._stopped = None, False
        self._seed, self._runs = seed, 0
        self._world = SymbolicWorld(sim, env_id)
        self._goals = list(episode.goals) if isinstance(episode, Errand) else [self._problem.goal]
        self._executor = self._next_executor()

    def act(self, sim: Simulator, env_id: int) -> np.ndarray | None:
        """Return the next (10,) float64 robot action, or ``None`` to call stop.

        Raises:
            UserError: called before :meth:`reset`.
        """
        if self._executor is None:
            raise UserError("the agent was not reset; call reset(sim, env_id, episode, seed) first")
        last = self._ended(sim, env_id)
        while self._running is None and not self._stopped:
            step = self._executor.next(last)
            if step is None and self._executor.finished and self._goals:
                last = None
                if self._go_on():
                    continue
            if step is None:
                self._stopped = True
                break
            self._start(step, sim, env_id)
            last = self._ended(sim, env_id)
        if self._running is None:
            return None
        _, record, skill = self._running
        record.steps += 1
        return skill.act(sim, env_id)

    def wrap_skills(
        self, wrap: Callable[[Callable[[SkillName], Skill]], Callable[[SkillName], Skill]]
    ) -> None:
        """Replace the function that makes skills by ``wrap`` of it; before :meth:`reset`."""
        self._make, self._skills = wrap(self._make), {}

    def report(self) -> AgentReport:
        """Return plan, position in it and every skill run so far; the object stays current."""
        return self._report

    @property
    def running(self) -> tuple[SkillCall, Skill] | None:
        """The skill that runs and what it was asked for, ``None`` between two."""
        return None if self._running is None else (self._running[0].call, self._running[2])

    def _next_executor(self) -> Executor:
        """Return what reaches the next goal; only after the last one the world has to settle."""
        goal, options = self._goals.pop(0), self._options
        problem = about(self._problem, goal)
        if self._goals:
            options = replace(options, final_wait=0, settle_steps=0)
        return EXECUTORS[self.executor](problem, self._world, self._report, options)

    def _go_on(self) -> bool:
        """Turn to the next goal; return whether the world, as it has become, has a plan for it."""
        self._report.plan, self._report.cursor = [], 0
        self._report.why = "there is another goal"
        try:
            self._executor = self._next_executor()
        except UserError:
            self._report.extra["stuck"] = True
            return False
        return True

    def _start(self, step: Step, sim: Simulator, env_id: int) -> None:
        skill = MOTIONS[step.motion]() if step.motion else self._skill(step.call.skill)
        seed = np.random.SeedSequence([self._seed, self._runs]).generate_state(1)[0]
        self._runs += 1
        skill.failed_before = sum(
            past.action == step.text and past.outcome != "success" for past in self._report.skills
        )
        skill.reset(sim, env_id, step.call, int(seed))
        name = step.motion or step.call.skill
        record = SkillRecord(skill=name, action=step.text, optional=step.optional)
        if name not in HELPERS and not step.motion:
            record.policy = "scripted" if skill.privileged else "learned"
        self._report.skills.append(record)
        self._running = (step, record, skill)

    def _ended(self, sim: Simulator, env_id: int) -> tuple[Step, SkillRecord] | None:
        """Return the running step and its record if it has just ended."""
        if self._running is None or self._executor is None:
            return None
        step, record, skill = self._running
        status = skill.status(sim, env_id)
        interruption = self._executor.interrupted(step)
        if status.failed or interruption:
            record.outcome, record.cause = "failure", interruption or status.reason
        elif status.done:
            record.outcome = "done"
        elif record.steps >= step.limit:
            record.outcome, record.cause = "timeout", status.reason
        else:
            return None
        self._running = None
        return step, record

    def _skill(self, name: SkillName) -> Skill:
        if name not in self._skills:
            self._skills[name] = self._make(name)
        return self._skills[name]
