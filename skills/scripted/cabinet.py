"""Pick and Place in a cabinet (the fridge) as control laws, shown to a learner.

The teachers of :mod:`skills.scripted.teachers` search for a plan among objects that a policy does
not see. Here the robot comes straight at the target through the cabinet's front, the arm raised
outside, and the action is a function of where the robot and the target are at that moment.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.scripted.pick import REST_REACHED
from skills.scripted.postures import arm_steps, rest_posture
from skills.scripted.program import GiveUpError, arm_action, drive_action, still
from skills.scripted.targets import episode_target, place_goal
from skills.scripted.view import View, look, to_base, unit, wrap
from skills.tasks.places import place_of
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_ROOF, _WRIST = 1.175, 0.385
"""The wrist must stay below the first of these heights; it is the second behind the cup, m."""
_PITCHES = np.radians([30.0, 45.0])
_RADII = np.arange(1.03, 0.81, -0.01)
"""Cups reach as steeply and as far as they can: such postures are near to rest."""
_HIGHEST = 0.945
"""A tall object is touched no higher than this, where the wrist has room below the roof, m."""
_FRONT, _BEHIND = 0.7, 0.5
"""The robot comes from within these angles to the two sides of the front, rad: on one side stands
the open door."""
_STAND = 1.5
"""A robot outside them first drives to this far before the target, m."""
_GATE, _GATE_STEPS = 0.4, 12.0
"""The cup stays this far before the target, m, until the arm needs no more than so many steps."""
_INSIDE = 0.36
"""A cup nearer to the target than this is inside, m."""
_UNREADY = 18.0
"""Inside, a robot whose arm needs more steps than this backs out; it never goes by whole or not at
all, since a pupil would stop between the two."""
_BACK = 0.4
"""Speed of backing out."""
_AIMED, _ASKEW = 0.06, 0.35
"""A robot turned away by less than the first comes on, by more than the second does not turn while
the cup is inside, rad."""
_RISE = 0.03
"""The cup comes in and leaves this much higher than it grasps, m."""
_FAST, _SLOW, _NEAR = 0.035, 0.012, 0.06
"""How far the base goes in a step inside, the second nearer to the target than the third, m."""
_PRESS = 0.06
"""The cup goes on this far beyond the planned contact, m."""
_GRIP_BEFORE = 0.05
_DROP, _LET_GO = 0.03, 0.02
"""What is held is let go this far above its goal, and no farther before it, m."""
_CLEAR = 0.25
"""The cup is so far out before the arm goes to rest, m."""
_AWAY = 0.5
"""The robot drives out until the cup would be so far before the target, m."""
_REST_WITHIN = 0.05
"""The cup comes so near to its resting position, m: a pupil that stops a little short succeeds."""


class _At:
    """Where the robot is against a point in a cabinet.

    Attributes:
        view: its state.
        go: how far the base has to go until the cup is at the point, m, the arm in ``posture``.
        bearing: of the point from the robot's heading, rad, left positive.
        aside: direction in which the robot would come against straight in, rad, left positive.
        posture: (7,) that reaches the point's height, turned to it.
        steps: control steps until the arm is in it.
        inward: direction into the cabinet, rad.
        point: (3,) m.
    """

    def __init__(
        self, view: View, point: np.ndarray, inward: float, risen: bool, ahead: float = 0.0
    ) -> None:
        kinematics = arm_kinematics()
        local = to_base(view.base, point)[:2] - kinematics.pan_axis
        distance = float(np.hypot(*local))
        self.view, self.point, self.inward = view, point, inward
        self.bearing = float(np.arctan2(local[1], local[0]))
        gap = point[:2] - view.base[:2]  # counted from the base: turning does not change it
        self.aside = wrap(float(np.arctan2(gap[1], gap[0])) - inward)
        _, radius = _posture(float(point[2]), 0.0)
        self.go = distance - radius - ahead
        part = 1.0 if risen else float(np.clip(self.go / _INSIDE, 0.0, 1.0))
        self.posture, _ = _posture(float(point[2]), part * _RISE)
        self.posture[0] = np.clip(self.bearing, -0.6, 0.6)
        self.posture[-1] = view.target[-1]  # turns the cup about itself
        self.steps = arm_steps(view.target, self.posture)


def _pitch(height: float) -> float:
    """Return how steeply the cup points down so that the wrist stays below the roof, rad."""
    return float(np.arcsin(np.clip((_ROOF - height) / _WRIST, *np.sin(_PITCHES))))


def _posture(height: float, lift: float) -> tuple[np.ndarray, float]:
    """Return the farthest (7,) posture with the cup ``lift`` above a height, and its radius, m."""
    kinematics, pitch = arm_kinematics(), _pitch(height)
    for radius in _RADII:
        rows = [kinematics.planar(0.0, float(radius), height + up, pitch) for up in (0.0, _RISE)]
        if all(row is not None for row in rows):
            found = kinematics.planar(0.0, float(radius), height + lift, pitch)
            assert found is not None
            return found, float(radius)
    raise GiveUpError("out of reach")


class _Law(Skill):
    """What both laws share: come, and leave."""

    privileged = True

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._reason = ""
        self._target = episode_target(sim, env_id, call)
        self._where = self.where(sim, env_id, call)
        self._ahead = self._below = 0.0
        place = place_of(sim, env_id, self._where)
        self._inward = float(np.arctan2(-place[1], -place[0]))

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        view = look(sim, env_id)
        action = still(view)
        try:
            self.law(view, action)
        except GiveUpError as error:
            self._reason = str(error)
        return np.clip(action, -1.0, 1.0)

    @abstractmethod
    def where(self, sim: Simulator, env_id: int, call: SkillCall) -> np.ndarray:
        """Return the (3,) point that the law is about, m."""

    @abstractmethod
    def law(self, view: View, action: np.ndarray) -> None:
        """Fill in the (10,) action."""

    def _come(self, at: _At, action: np.ndarray, press: float) -> None:
        """Come to the point, the arm raised before the front."""
        inside, sideways = at.go < _INSIDE, not -_FRONT <= at.aside <= _BEHIND
        action[ACTION_ARM] = arm_action(at.view, at.posture)
        if inside and (sideways or abs(at.bearing) > _ASKEW):
            action[ACTION_BASE] = -_BACK, 0.0
        elif sideways:
            direction = at.inward + float(np.clip(at.aside, 0.1 - _FRONT, _BEHIND - 0.1))
            place = at.point[:2] - _STAND * unit(direction)
            action[ACTION_BASE] = drive_action(at.view.base, np.append(place, direction))
        elif inside:
            most = _SLOW if at.go < _NEAR else _FAST
            ready = np.clip((_UNREADY - at.steps) / _GATE_STEPS, -1.0, 1.0)
            action[ACTION_BASE] = min(at.go + press, most * ready) / BASE_DELTA_LINEAR, 0.0
        else:
            left = at.go - _GATE * min(at.steps / _GATE_STEPS, 1.0)
            ahead = np.clip(left / BASE_DELTA_LINEAR, -_BACK, 1.0)
            ahead *= abs(at.bearing) < _AIMED or left < 0.0
            action[ACTION_BASE] = ahead, at.bearing / BASE_DELTA_ANGULAR

    def _leave(self, at: _At, action: np.ndarray) -> None:
        """Rise, drive straight out, bring the arm to rest outside."""
        out = at.go > _CLEAR
        posture = rest_posture(at.posture, _REST_WITHIN) if out else at.posture
        action[ACTION_ARM] = arm_action(at.view, posture)
        risen = 1.0 if out else np.clip(1.2 - at.steps / _GATE_STEPS, 0.2, 1.0)
        back = np.clip((_AWAY - at.go) / BASE_DELTA_LINEAR, 0.0, _BACK) * risen
        action[ACTION_BASE] = -back, 0.0


class TeachCabinetPick(_Law):
    """Pick out of a cabinet."""

    name: SkillName = "pick"

    def where(self, sim: Simulator, env_id: int, call: SkillCall) -> np.ndarray:
        """See :meth:`_Law.where`."""
        return look(sim, env_id).objects[self._target.object_index].copy()

    def law(self, view: View, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        held = view.held_object == self._target.object_index
        point = np.append(self._where[:2], min(self._where[2] + 0.005, _HIGHEST))
        at = _At(view, point, self._inward, held)
        if held:
            self._leave(at, action)
            return
        self._come(at, action, _PRESS)
        near = at.go < _GRIP_BEFORE and at.steps < _GATE_STEPS
        action[ACTION_GRIP] = 1.0 if near else -1.0

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        view = look(sim, env_id)
        held = view.held_object == self._target.object_index
        done = held and view.rest_distance < REST_REACHED
        return SkillStatus(done=done, failed=bool(self._reason), reason=self._reason)


class TeachCabinetPlace(_Law):
    """Place into a cabinet."""

    name: SkillName = "place"

    def where(self, sim: Simulator, env_id: int, call: SkillCall) -> np.ndarray:
        """See :meth:`_Law.where`."""
        return place_goal(sim, env_id, call)

    def law(self, view: View, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        index = self._target.object_index
        holds = view.held_object == index
        if holds:  # it hangs before the cup and below it
            offset = view.tip_rotation.T @ (view.objects[index] - view.tip)
            self._ahead, self._below = _hangs(offset, float(self._where[2]) + _DROP)
        point = self._where + [0.0, 0.0, _DROP + self._below]
        at = _At(view, point, self._inward, not holds, self._ahead)
        if not holds:
            self._leave(at, action)
            return
        if at.go < _LET_GO and at.steps < _GATE_STEPS:
            action[ACTION_GRIP] = -1.0
            return
        self._come(at, action, 0.0)

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        view = look(sim, env_id)
        done = not view.holding and view.rest_distance < REST_REACHED
        return SkillStatus(done=done, failed=bool(self._reason), reason=self._reason)


def _hangs(offset: np.ndarray, height: float) -> tuple[float, float]:
    """Return how far ahead of the cup and below it what is held will be, m.

    Args:
        offset: (3,) of its centre in the cup's frame, m.
        height: at which its centre is wanted, m.
    """
    pitch, ahead, below = 0.6, 0.0, 0.0
    for _ in range(3):
        ahead = float(np.cos(pitch) * offset[0] + np.sin(pitch) * offset[2])
        below = float(np.sin(pitch) * offset[0] - np.cos(pitch) * offset[2])
        pitch = _pitch(height + below)
    return ahead, below
