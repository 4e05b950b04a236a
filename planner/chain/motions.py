"""Motions of recovery: part of no plan, and scripted whoever's skills the chain calls."""

from __future__ import annotations

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from tpsrl.robot import fetch
from tpsrl.sim.door import ACTION_BASE, ACTION_DIM, ACTION_GRIP, Simulator


class Release(Skill):
    """Lets go of whatever is held, where the robot stands."""

    name: SkillName = "wait"
    privileged = False
    STEPS = 15

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._left = self.STEPS

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """Return the action that opens the gripper and moves nothing."""
        self._left -= 1
        action = np.zeros(ACTION_DIM)
        action[ACTION_GRIP] = -1.0
        return action

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """Done after a number of steps."""
        return SkillStatus(done=self._left <= 0)


class Spin(Skill):
    """Turns by a quarter to a half turn, drawn at random, and drives ahead a little.

    Navigation2's recovery ("spin", "back up"): a policy that pushes against furniture and stands
    still sees the same in every step and goes on doing the same.
    """

    name: SkillName = "wait"
    privileged = False
    AHEAD = 8
    MOST = int(np.pi / fetch.BASE_DELTA_ANGULAR) + AHEAD
    """Most steps that it takes."""

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """Draw by how much and in which direction."""
        rng = np.random.default_rng(seed)
        self._side = float(rng.choice((-1.0, 1.0)))
        half = self.MOST - self.AHEAD
        self._turns = int(rng.integers(half // 2, half + 1))
        self._step = 0
        self._grip = 1.0 if int(sim.state().held_object[env_id]) >= 0 else -1.0

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """Return the action that turns or drives, and keeps what is held."""
        action = np.zeros(ACTION_DIM)
        action[ACTION_GRIP] = self._grip
        turning = self._step < self._turns
        action[ACTION_BASE] = (0.0, self._side) if turning else (0.5, 0.0)  # ahead, to the left
        self._step += 1
        return action

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """Done after a number of steps."""
        return SkillStatus(done=self._step >= self._turns + self.AHEAD)


MOTIONS: dict[str, type[Skill]] = {"release": Release, "spin": Spin}
"""Name of a step's motion -> what moves."""
