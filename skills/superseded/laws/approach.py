"""Navigate for imitation: every action follows from the present state alone.

The scripted skill that serves the chain plans the manipulation that comes next and drives to the
pose which that plan wants. A policy cannot see that plan, so two demonstrations from the same place
differ for no reason that it knows. This one drives to the nearest free point that is near enough
to the target, turns to face it, and stops.
"""

from __future__ import annotations

import numpy as np

from skills.interface import SkillCall, SkillStatus
from skills.motion.moves import Actions, still
from skills.motion.view import RobotView, look
from skills.programs.basic import Navigate
from skills.superseded.laws.steering import field_around, pursue, soft_turn
from skills.tasks.outlines import free_space
from tpsrl.geometry.rotations import wrap
from tpsrl.robot.fetch import BASE_DELTA_LINEAR
from tpsrl.sim.door import ACTION_BASE, Simulator

_NEAR = 1.0
"""The robot comes this near to the target where there is free space, m."""
_BEYOND = 0.1
"""Where there is none, it comes this much less near than the nearest free point, m."""
_SLACK = 0.03
_FACING = np.radians(5.0)
_LOOKAHEAD = 0.5
_MARGIN = 0.12
"""A learner that drives along an obstacle touches it, and does not see what it touches, m."""


class Approach(Navigate):
    """Drives to the nearest place within about a metre of the target, faces it, and is done.

    Its actions and its end are functions of the present state, so it can follow a learner and say
    at each step what it would do (DAgger, Ross et al. 2011).
    """

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        super().reset(sim, env_id, call, seed)
        self._reason = ""
        self._target = self._point(sim, env_id)[:2].copy()
        navigation = free_space(sim, env_id)
        least = float(np.linalg.norm(navigation.snap(self._target) - self._target))
        self._radius = max(_NEAR, least + _BEYOND)
        self._field = field_around(sim, env_id, navigation, self._target, self._radius, _MARGIN)

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """Yield the action that the present state asks for, for ever."""
        while True:
            view = look(sim, env_id)
            action = still(view)
            action[ACTION_BASE] = self._base(view)
            yield action

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        if self._reason:
            return SkillStatus(failed=True, reason=self._reason)
        distance, bearing = self._heading(look(sim, env_id))
        near = distance <= self._radius + _SLACK
        return SkillStatus(done=near and abs(bearing) < _FACING)

    def _heading(self, view: RobotView) -> tuple[float, float]:
        """Return distance and bearing of the target, m and rad, left positive."""
        gap = self._target - view.base[:2]
        return float(np.hypot(*gap)), wrap(float(np.arctan2(gap[1], gap[0])) - view.base[2])

    def _base(self, view: RobotView) -> np.ndarray:
        """Return the (2,) base action.

        Raises:
            GiveUpError: the target cannot be approached from here.
        """
        distance, bearing = self._heading(view)
        if distance <= self._radius:
            return np.array([0.0, soft_turn(bearing)])
        error, eager = pursue(self._field, view.base, _LOOKAHEAD)
        reach = min((distance - self._radius + _SLACK) / BASE_DELTA_LINEAR, 1.0)
        return np.array([eager * max(reach, 0.2), soft_turn(error)])
