"""Control laws of Pick and Place: the action is a function of the present state.

A plan in stages cannot be imitated by a policy that does not see it. A law has no stages. Each step
it compares where the base, the arm and the object are with one fixed point, so it can begin
anywhere, follow a learner wherever that goes, and say at each step what it would do (DAgger,
Ross et al. 2011). The laws for the kinds of places are in :mod:`skills.superseded.laws.above` and
:mod:`skills.superseded.laws.cabinet`.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.motion.moves import GiveUpError, still
from skills.motion.view import RobotView, look
from skills.programs.targets import episode_target, place_goal
from skills.tasks.places import place_of
from skills.tasks.tolerances import AT_REST as REST_REACHED
from tpsrl.sim.door import Simulator

REST_WITHIN = 0.05
"""The cup comes so near to its resting position, m. A pupil stops a little short of where its
teacher goes; it succeeds all the same, since 0.15 m would do."""


def reach_point(sim: Simulator, env_id: int, call: SkillCall, name: SkillName) -> np.ndarray:
    """Return (3,), m: where the object is that Pick is about, or belongs that Place is about.

    Raises:
        GiveUpError: the call names no target of the episode.
    """
    if name == "place":
        return place_goal(sim, env_id, call)
    return look(sim, env_id).objects[episode_target(sim, env_id, call).object_index].copy()


class ReachLaw(Skill):
    """Pick or Place (``name`` says which) as a function of the present state.

    What :meth:`reset` notes stays as it is while the object is not pushed about, so that a law
    which is begun anew says the same as one which has run all along.

    Attributes:
        object_index: of the object to pick or to place.
        point: (3,) where it lay when the law began (Pick), or where it belongs (Place), m.
        place: (4,) what carries that point, see :func:`skills.tasks.places.place_of`.
    """

    privileged = True

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`.

        Raises:
            GiveUpError: the call names no target of the episode.
        """
        self._reason = ""
        self.object_index = episode_target(sim, env_id, call).object_index
        self.point = reach_point(sim, env_id, call, self.name)
        self.place = place_of(sim, env_id, self.point)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        view = look(sim, env_id)
        action = still(view)
        if self._reason:
            return action
        try:
            self.law(view, action)
        except GiveUpError as error:
            self._reason = str(error)
        return np.clip(action, -1.0, 1.0)

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        view = look(sim, env_id)
        grasped = view.held_object == self.object_index
        reached = grasped if self.name == "pick" else not view.holding
        done = reached and view.rest_distance < REST_REACHED
        return SkillStatus(done=done, failed=bool(self._reason), reason=self._reason)

    @abstractmethod
    def law(self, view: RobotView, action: np.ndarray) -> None:
        """Fill in the (10,) action, which on entry moves nothing and keeps what is held.

        Args:
            view: the present state.
            action: see ``Simulator.step``; it is clipped to [-1, 1] afterwards.

        Raises:
            GiveUpError: nothing can be done from here.
        """
