"""How Pick and Place end wherever a learner has left the arm."""

from __future__ import annotations

from skills.motion.moves import Actions, arm_action, still
from skills.motion.postures import rest_posture
from skills.motion.view import look
from skills.tasks.tolerances import AT_REST as REST_REACHED
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_PATIENCE = 6
_BACK_STEPS = 12
"""How long a robot whose arm was left somewhere backs off before it stands, control steps."""


def release(sim: Simulator, env_id: int) -> Actions:
    """Let go of what is held and wait until it is free."""
    free = 0
    for _ in range(_PATIENCE):
        view = look(sim, env_id)
        free += not view.holding
        if free > 3:
            return
        action = still(view)
        action[ACTION_GRIP] = -1.0
        yield action


def home(sim: Simulator, env_id: int) -> Actions:
    """Bring the arm to rest without knowing how it came where it is: back off first."""
    for step in range(120):
        view = look(sim, env_id)
        if view.rest_distance < REST_REACHED - 0.02:
            return
        action = still(view)
        action[ACTION_ARM] = arm_action(view, rest_posture(view.target))
        action[ACTION_BASE] = (-0.4 if step < _BACK_STEPS else 0.0), 0.0
        yield action
