"""Base of the scripted skills: a skill is a generator that yields one action a control step."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skills.interface import Skill, SkillCall, SkillStatus
from skills.motion.moves import Actions, GiveUpError, still
from skills.motion.reach import Reach
from skills.motion.view import look
from tpsrl.sim.door import Simulator

_MOST_TRIED = 8


class Tried:
    """Approaches that were tried in vain on one thing earlier in an episode."""

    def __init__(self) -> None:
        self._plans: list[Reach] = []
        self._about: tuple[str, int | None] = ("", None)
        self._step = 0

    def at(self, sim: Simulator, env_id: int, call: SkillCall) -> list[Reach]:
        """Return those of a call, to be added to; none at another thing or in another episode."""
        about = (sim.episode(env_id).episode_id, call.target)
        step = int(sim.state().step_count[env_id])
        if about != self._about or step < self._step or len(self._plans) > _MOST_TRIED:
            self._plans = []
        self._about, self._step = about, step
        return self._plans


class ScriptedSkill(Skill):
    """Runs a program (:meth:`run`) against one world.

    A skill reports done when its program has ended and its effect holds, failed when the program
    gave up or ended without the effect.
    """

    privileged = True

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self.call = call
        self.seed = seed
        self._ended = False
        self._reason = ""
        self._program = self.run(sim, env_id)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        if not self._ended:
            try:
                return next(self._program)
            except StopIteration:
                self._ended = True
            except GiveUpError as error:
                self._ended = True
                self._reason = str(error)
        return still(look(sim, env_id))

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        if self._reason:
            return SkillStatus(failed=True, reason=self._reason)
        if not self._ended:
            return SkillStatus()
        missing = self.missing(sim, env_id)
        return SkillStatus(failed=True, reason=missing) if missing else SkillStatus(done=True)

    @abstractmethod
    def run(self, sim: Simulator, env_id: int) -> Actions:
        """Yield (10,) actions; each is followed by one simulator step."""

    def missing(self, sim: Simulator, env_id: int) -> str:
        """Say what the ended program failed to bring about, "" for nothing."""
        return ""
