"""What a program yields: single actions and whole moves of arm and base, one world at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from skills.motion.postures import arm_steps
from skills.motion.view import RobotView, look
from tpsrl.geometry.rotations import unit, wrap
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_DIM, ACTION_GRIP, Simulator

Actions = Iterator[np.ndarray]

_ARM_REACHED = 0.03
"""A joint this near to its goal has arrived, rad: the arm lags its targets a little."""
_ARM_PATIENCE = 12
"""Steps to wait for an arm that is held up by contact after its targets have arrived."""
_BASE_PATIENCE = 10
_NEARLY = 0.02
"""A robot this near to its goal does not turn to it any more, it only drives along, m."""
_POSITION_REACHED, _YAW_REACHED = 2e-3, 2e-3


class GiveUpError(Exception):
    """Raised inside a program when the skill cannot succeed; the message is the reason."""


def still(view: RobotView) -> np.ndarray:
    """Return the action that moves nothing and keeps what is held."""
    action = np.zeros(ACTION_DIM)
    action[ACTION_GRIP] = 1.0 if view.holding else -1.0
    return action


def arm_action(view: RobotView, goal: np.ndarray, speed: float = 1.0) -> np.ndarray:
    """Return (7,) arm action that takes the motor targets straight towards ``goal``.

    The last joint turns the cup about itself. It turns without end and may have been wound up, so
    it does not hold up the others.
    """
    delta = goal - view.target
    steps = max(arm_steps(view.target, goal) / speed, 1.0)
    action = delta / steps / ARM_DELTA
    action[-1] = np.clip(action[-1], -speed, speed)
    return action


def drive_action(
    base: np.ndarray, goal: np.ndarray, speed: float = 1.0, reverse: bool | None = None
) -> np.ndarray:
    """Return (2,) base action towards a pose: turn to it, drive straight, turn at the end.

    Args:
        base: (3,) present pose.
        goal: (3,) wanted pose.
        speed: largest forward action.
        reverse: drive backwards; ``None`` chooses the smaller turn.
    """
    gap = goal[:2] - base[:2]
    distance = float(np.hypot(gap[0], gap[1]))
    along = float(gap @ unit(base[2]))
    if distance < _NEARLY and abs(along) > _POSITION_REACHED:
        return np.array([along / BASE_DELTA_LINEAR, 0.0])
    if distance < _NEARLY:
        return np.array([0.0, np.clip(wrap(goal[2] - base[2]) / BASE_DELTA_ANGULAR, -1.0, 1.0)])
    error = wrap(np.arctan2(gap[1], gap[0]) - base[2])
    backwards = abs(error) > np.pi / 2 if reverse is None else reverse
    if backwards:
        error = wrap(error + np.pi)
    rotate = np.clip(error / BASE_DELTA_ANGULAR, -1.0, 1.0)
    forward = 0.0
    # The engine moves along the old heading and then turns.
    if abs(error) < 0.5 and distance * abs(np.sin(error)) < 0.02:
        forward = min(distance * np.cos(error) / BASE_DELTA_LINEAR, speed)
    elif abs(error) < 0.02:
        forward = min(distance / BASE_DELTA_LINEAR, speed)
    return np.array([-forward if backwards else forward, rotate])


def at_pose(base: np.ndarray, goal: np.ndarray) -> bool:
    """Return whether a base pose has reached its goal."""
    gap = goal[:2] - base[:2]
    near = np.hypot(*gap) < _NEARLY
    return bool(near and abs(wrap(goal[2] - base[2])) < _YAW_REACHED)


def move(
    sim: Simulator,
    env_id: int,
    *,
    arm: np.ndarray | None = None,
    base: np.ndarray | None = None,
    grip: float | None = None,
    speed: float = 1.0,
    reverse: bool | None = None,
    until: Callable[[RobotView], bool] | None = None,
    insist: bool = True,
    limit: int = 250,
) -> Actions:
    """Move arm and base at the same time until both have arrived.

    Args:
        sim: the simulator.
        env_id: its world.
        arm: (7,) goal posture.
        base: (3,) goal pose, driven to in a straight line.
        grip: grip action; by default what is held is kept and nothing is grasped.
        speed: fraction of the base's largest speed.
        reverse: drive backwards.
        until: ends the motion early.
        insist: give up if the base is blocked; otherwise end there.
        limit: most steps.

    Raises:
        GiveUpError: the base is blocked.
    """
    patience, stuck, last = _ARM_PATIENCE, 0, None
    for _ in range(limit):
        view = look(sim, env_id)
        if until is not None and until(view):
            return
        action = still(view)
        if grip is not None:
            action[ACTION_GRIP] = grip
        arm_there = base_there = True
        if arm is not None:
            action[ACTION_ARM] = arm_action(view, arm)
            sent = bool(np.abs(arm - view.target).max() < 1e-3)
            patience -= sent
            arm_there = sent and (
                bool(np.abs(arm - view.qpos).max() < _ARM_REACHED) or patience < 0
            )
        if base is not None:
            base_there = at_pose(view.base, base)
            if not base_there:
                action[ACTION_BASE] = drive_action(view.base, base, speed, reverse)
            moved = last is None or bool(np.abs(view.base - last).max() > 1e-5)
            stuck = 0 if moved or base_there else stuck + 1
            last = view.base
            if stuck > _BASE_PATIENCE:
                if not insist:
                    return
                raise GiveUpError("base blocked")
        if arm_there and base_there:
            return
        yield action
