"""Pick and Place in a cabinet (the fridge) as control laws, shown to a learner.

The robot comes straight at the target through the cabinet's front, with the arm raised outside. The
action is a function of the arm's posture and of where the target is from the robot, which a policy
senses, and of which way the front faces.
"""

from __future__ import annotations

import numpy as np

from skills.interface import SkillCall, SkillName
from skills.motion.moves import GiveUpError, arm_action, drive_action
from skills.motion.postures import arm_steps, rest_posture
from skills.motion.view import RobotView
from skills.superseded.laws.reach_law import REST_WITHIN, ReachLaw
from tpsrl.geometry.rotations import to_base, unit, wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_ROOF, _WRIST = 1.175, 0.385
"""The wrist must stay below the first of these heights, under the roof; it is the second behind the
cup, m."""
_PITCHES = np.radians([30.0, 45.0])
"""Between these the cup points down as steeply as the roof allows."""
_RADII = np.arange(1.03, 0.81, -0.01)
"""Cups reach as far as they can, m: such postures are near to rest, so that the slow
arm has little to do."""
_HIGHEST = 0.945
"""A tall object is touched no higher than this, where the wrist has room below the roof, m."""
_GRASP_ABOVE = 0.005
"""A lower one this far above its middle, m."""
_FRONT, _BEHIND = 0.7, 0.5
"""The robot comes from within these angles to the two sides of the front, rad: on one side stands
the open door."""
_STAND, _WELL_WITHIN = 1.5, 0.1
"""A robot outside them first drives to the first before the target, m, the second within them,
rad: at their edge it would fall back outside at once."""
_GATE, _GATE_STEPS = 0.4, 12.0
"""The cup stays this far before the target, m, while the arm needs so many steps or more, and comes
nearer in proportion as it needs fewer: nothing switches when it has arrived."""
_INSIDE = 0.36
"""A cup nearer to the target than this is inside, m."""
_UNREADY = 18.0
"""Inside, a robot whose arm needs more steps than this backs out, one whose arm needs fewer comes
on the faster the fewer: a pupil would stop between whole and not at all."""
_BACK = 0.4
"""Speed of backing out, of the largest: the arm lags, and what it holds is not to swing."""
_AIMED, _ASKEW = 0.06, 0.35
"""A robot turned away by less than the first comes on; one turned by more than the second backs
out, for a cup that is inside would hit the walls when it turned, rad."""
_PAN = 0.6
"""The shoulder turns to targets this far aside, rad; the base does the rest, outside."""
_RISE = 0.03
"""The cup comes in and leaves this much higher than it grasps, m, over what lies before."""
_FAST, _SLOW, _NEAR = 0.035, 0.012, 0.06
"""How far the base goes in a step inside, the second nearer to the target than the third, m: what
is pushed before contact ends it falls over."""
_PRESS = 0.06
"""The cup goes on this far beyond the planned contact, m: an object may be thinner there."""
_GRIP_BEFORE = 0.05
"""It grips from this far before the contact on, m, so that it takes no neighbour."""
_DROP, _LET_GO = 0.03, 0.02
"""What is held is let go this far above its goal, and no farther before it, m."""
_CLEAR = 0.25
"""The cup is so far out before the arm goes to rest, m."""
_AWAY = 0.5
"""The robot drives out until the cup would be so far before the target, m: the arm then comes to
rest before the shelves."""
_LEAVE_WITHIN, _LEAVE_LEAST = 1.2, 0.2
"""Inside, the robot drives out the faster the fewer steps the arm still has to rise, from the first
times ``_GATE_STEPS`` on; at the second of its speed at least, since the arm may be held up."""


class _Position:
    """Where the robot is against a point in a cabinet.

    Args:
        view: its state.
        point: (3,) m.
        inward: direction into the cabinet, rad.
        risen: the cup is wanted ``_RISE`` above the point also where it is at it.
        ahead: how far ahead of the cup that is which is to come to the point, m.

    Attributes:
        view, point, inward: as given.
        go: how far the base has to go until the cup is at the point, m, the arm in ``posture``.
        bearing: of the point from the robot's heading, rad, left positive.
        aside: direction in which the robot would come against straight in, rad, left positive.
        posture: (7,) that reaches the point's height, turned to it, rad.
        steps: control steps until the arm is in it.

    Raises:
        GiveUpError: the point is too high or too low.
    """

    def __init__(
        self, view: RobotView, point: np.ndarray, inward: float, risen: bool, ahead: float = 0.0
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
        self.posture[0] = np.clip(self.bearing, -_PAN, _PAN)
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


class _InCabinet(ReachLaw):
    """What both laws share: come, and leave."""

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`ReachLaw.reset`."""
        super().reset(sim, env_id, call, seed)
        self._inward = float(np.arctan2(-self.place[1], -self.place[0]))

    def _come(self, at: _Position, action: np.ndarray, press: float) -> None:
        """Come to the point, the arm raised before the front."""
        inside, sideways = at.go < _INSIDE, not -_FRONT <= at.aside <= _BEHIND
        action[ACTION_ARM] = arm_action(at.view, at.posture)
        if inside and (sideways or abs(at.bearing) > _ASKEW):
            action[ACTION_BASE] = -_BACK, 0.0
        elif sideways:
            direction = at.inward + float(
                np.clip(at.aside, _WELL_WITHIN - _FRONT, _BEHIND - _WELL_WITHIN)
            )
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

    def _leave(self, at: _Position, action: np.ndarray) -> None:
        """Rise, drive straight out, bring the arm to rest outside."""
        out = at.go > _CLEAR
        posture = rest_posture(at.posture, REST_WITHIN) if out else at.posture
        action[ACTION_ARM] = arm_action(at.view, posture)
        risen = 1.0 if out else np.clip(_LEAVE_WITHIN - at.steps / _GATE_STEPS, _LEAVE_LEAST, 1.0)
        back = np.clip((_AWAY - at.go) / BASE_DELTA_LINEAR, 0.0, _BACK) * risen
        action[ACTION_BASE] = -back, 0.0


class PickInCabinet(_InCabinet):
    """Pick out of a cabinet."""

    name: SkillName = "pick"

    def law(self, view: RobotView, action: np.ndarray) -> None:
        """See :meth:`ReachLaw.law`."""
        held = view.held_object == self.object_index
        height = min(self.point[2] + _GRASP_ABOVE, _HIGHEST)
        at = _Position(view, np.append(self.point[:2], height), self._inward, held)
        if held:
            self._leave(at, action)
            return
        self._come(at, action, _PRESS)
        near = at.go < _GRIP_BEFORE and at.steps < _GATE_STEPS
        action[ACTION_GRIP] = 1.0 if near else -1.0


class PlaceInCabinet(_InCabinet):
    """Place into a cabinet."""

    name: SkillName = "place"

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`ReachLaw.reset`."""
        super().reset(sim, env_id, call, seed)
        self._ahead = self._below = 0.0  # once it is let go, how it hung at the last

    def law(self, view: RobotView, action: np.ndarray) -> None:
        """See :meth:`ReachLaw.law`."""
        holds = view.held_object == self.object_index
        if holds:  # it hangs before the cup and below it
            offset = view.tip_rotation.T @ (view.objects[self.object_index] - view.tip)
            self._ahead, self._below = _hangs(offset, float(self.point[2]) + _DROP)
        point = self.point + [0.0, 0.0, _DROP + self._below]
        at = _Position(view, point, self._inward, not holds, self._ahead)
        if not holds:
            self._leave(at, action)
            return
        if at.go < _LET_GO and at.steps < _GATE_STEPS:
            action[ACTION_GRIP] = -1.0
            return
        self._come(at, action, 0.0)


def _hangs(offset: np.ndarray, height: float) -> tuple[float, float]:
    """Return how far ahead of the cup and below it what is held will be, m.

    Args:
        offset: (3,) of its centre in the cup's frame, m.
        height: at which its centre is wanted, m.
    """
    pitch, ahead, below = 0.6, 0.0, 0.0
    for _ in range(3):  # the pitch depends on how it hangs, and the other way round
        ahead = float(np.cos(pitch) * offset[0] + np.sin(pitch) * offset[2])
        below = float(np.sin(pitch) * offset[0] - np.cos(pitch) * offset[2])
        pitch = _pitch(height + below)
    return ahead, below
