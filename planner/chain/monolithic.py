"""One policy for the whole task (MonolithicRL of Habitat 2.0, Szot et al. 2021, section 5)."""

from __future__ import annotations

import numpy as np

from planner import Atom
from planner.chain.executors import judge
from planner.chain.interface import AgentReport, SkillRecord
from planner.chain.predicates import SymbolicWorld
from skills.interface import SkillCall
from skills.learned.cards import PolicyFiles
from skills.learned.skill import LearnedSkill
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.sim.door import Simulator

OBJECT_STEPS = 1500
"""Control steps after which the next object's turn comes."""


class MonolithicAgent:
    """Rearranges one object after another with a policy trained in ``tpsrl/RearrangeEasy-v0``.

    There is no plan: the policy sees where the object lies and belongs, and does everything. Its
    stop action, or the end of its time, brings the next object; after the last, stop is called.

    Args:
        policy: of the whole task.
    """

    name = "monolithic"

    def __init__(self, policy: PolicyFiles) -> None:
        self._skill = LearnedSkill.load(policy)
        self._world: SymbolicWorld | None = None
        self._report = AgentReport()
        self._running: SkillRecord | None = None
        self._next = 0
        self._seed = 0

    def reset(self, sim: Simulator, env_id: int, episode: Episode, seed: int) -> None:
        """Begin an episode that the simulator has just been reset to."""
        self._world = SymbolicWorld(sim, env_id)
        labels = [target.label for target in episode.targets]
        self._report = AgentReport(plan=[f"rearrange({label})" for label in labels])
        self._running, self._next, self._seed = None, 0, seed

    def act(self, sim: Simulator, env_id: int) -> np.ndarray | None:
        """Return the next (10,) float64 robot action, or ``None`` to call stop.

        Raises:
            UserError: called before :meth:`reset`.
        """
        if self._world is None:
            raise UserError("the agent was not reset; call reset(sim, env_id, episode, seed) first")
        self._end_if_over(sim, env_id)
        if self._running is None:
            if self._next >= len(self._report.plan):
                self._report.cursor = self._next
                return None
            self._begin(sim, env_id)
        assert self._running is not None
        self._running.steps += 1
        return self._skill.act(sim, env_id)

    def report(self) -> AgentReport:
        """Return every object dealt with so far; the object stays current."""
        return self._report

    def _begin(self, sim: Simulator, env_id: int) -> None:
        call = SkillCall("rearrange_easy", target=self._next)
        self._skill.reset(sim, env_id, call, self._seed + self._next)
        action = self._report.plan[self._next]
        self._running = SkillRecord("rearrange_easy", action, policy="learned")
        self._report.skills.append(self._running)
        self._report.cursor = self._next
        self._next += 1

    def _end_if_over(self, sim: Simulator, env_id: int) -> None:
        record = self._running
        if record is None or self._world is None:
            return
        done = self._skill.status(sim, env_id).done
        if not done and record.steps < OBJECT_STEPS:
            return
        record.outcome = "done" if done else "timeout"
        grounding, index = self._world.grounding, self._next - 1
        at = Atom("object_at", (grounding.label(index), grounding.goal(index)))
        judge(record, (at, Atom("not_holding")), self._world)
        self._running = None
