"""A planned reach as something that states can be compared with, and the law that follows it.

A course is a plan; where base and arm are against it decides the action, so that the robot can be
anywhere on it, also where a learner has brought it.
"""

from __future__ import annotations

import numpy as np

from skills.motion.moves import arm_action, still
from skills.motion.postures import rest_posture
from skills.motion.reach import Reach
from skills.motion.view import RobotView
from tpsrl.geometry.rotations import turn, unit, wrap
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP

_GATE_STEPS = 12.0
"""The base closes in over the last steps of raising the arm."""
_ALIGNED = 0.3
"""A robot turned this little from its way drives and raises its arm, rad."""
_RAISE_WITHIN = 1.2
PURSUIT = 0.3
"""The base heads for a point this far beyond its place at contact, m."""
_FAR_STEP, _NEAR_STEP, _SLOW_BEFORE = 0.012, 0.006, 0.04
_BEYOND, _GRIP_BEFORE = 0.06, 0.05
_CLEAR = 0.95
"""Part of the approach after which what is held may go to rest."""
_LEAD = 0.03
"""The aim may be this far ahead of the commanded cup, m."""
_BESIDE, _LOST = 0.04, 0.15
"""The arm is on its way in if it is no farther beside it; and it is lost if it is farther, rad."""
_BENDS = 0.1
"""Joints that move no farther than this on the way in do not tell how far the arm is, rad."""


class Course:
    """A plan as something that states can be compared with."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        kinematics = arm_kinematics()
        contact = kinematics.forward(reach.contact).pos
        pre = kinematics.forward(reach.pre).pos
        self.contact = _to_world(reach.base, contact)
        self.pre = _to_world(reach.pre_base, pre)
        self.radius = float(np.linalg.norm(contact[:2] - kinematics.pan_axis))
        way = self.contact - self.pre
        self.length = max(float(np.linalg.norm(way)), 1e-3)
        self.way = way / self.length
        self.back = float(np.linalg.norm(reach.base[:2] - reach.pre_base[:2]))
        self.gate = float(np.linalg.norm(reach.raise_at[:2] - reach.pre_base[:2]))
        self.most = ARM_DELTA / max(float(np.abs(reach.contact - reach.pre).max()), 1e-9)

    def end(self, grasp: bool) -> float:
        """Return the part of the approach at which it ends; a grasp goes on beyond the contact."""
        return 1.0 + (_BEYOND / self.length if grasp else 0.0)


class CoursePosition:
    """Where a robot is on a course.

    Attributes:
        go: how far the base still has to go ahead until contact, m.
        turn: how far it has to turn, rad.
        pre, contact: (7,) postures, turned to the target from where the base is.
        steps: control steps until the arm is in ``pre``.
        cup: (3,) where the motor targets bring it, in the world, m.
        part: how far the arm is on its way from pre-contact to contact.
        off: how far its joints are beside that way, rad.
        behind: how far the base is from where it belongs at that part, m.
    """

    def __init__(self, course: Course, view: RobotView) -> None:
        kinematics = arm_kinematics()
        ahead = (course.contact[:2] - view.base[:2]) @ turn(view.base[2]) - kinematics.pan_axis
        self.go = float(np.hypot(*ahead)) - course.radius
        pan = float(np.clip(np.arctan2(ahead[1], ahead[0]), -1.2, 0.8))
        self.pre, self.contact = course.reach.pre.copy(), course.reach.contact.copy()
        self.pre[0] = self.contact[0] = pan
        self.steps = float(np.abs(self.pre - view.target).max()) / ARM_DELTA
        base = course.reach.base
        gap = base[:2] + PURSUIT * unit(base[2]) - view.base[:2]
        self.turn = wrap(float(np.arctan2(gap[1], gap[0])) - view.base[2])
        self.cup = _to_world(view.base, kinematics.forward(view.target).pos)
        way = (self.contact - self.pre)[1:]
        gone = (view.target - self.pre)[1:]
        if np.abs(way).max() > _BENDS:
            self.part = float(gone @ way) / float(way @ way)
        else:
            self.part = 1.0 - self.go / max(course.back, 1e-3)
        self.off = float(np.abs(gone - np.clip(self.part, 0.0, 1.2) * way).max())
        self.behind = abs(self.go - course.back * (1.0 - self.part))


def come(course: Course, view: RobotView) -> np.ndarray:
    """Return the (10,) action that comes nearer and raises the arm to pre-contact."""
    at, action = CoursePosition(course, view), still(view)
    aligned = abs(at.turn) < _ALIGNED
    left = at.go - course.back
    if aligned and left < _RAISE_WITHIN:
        action[ACTION_ARM] = arm_action(view, at.pre)
    gate = course.gate * min(at.steps / _GATE_STEPS, 1.0)
    ahead = np.clip((left - gate) / BASE_DELTA_LINEAR, -0.6, 1.0) * aligned
    action[ACTION_BASE] = ahead, np.clip(at.turn / BASE_DELTA_ANGULAR, -1.0, 1.0)
    return action


def reach_in(course: Course, view: RobotView, grasp: bool, before: float = 0.0) -> np.ndarray:
    """Return the (10,) action that goes on along the approach.

    Args:
        course: the plan.
        view: the state.
        grasp: grip near the contact and go on beyond it.
        before: part of the way at which the last step aimed.
    """
    at = CoursePosition(course, view)
    part = aim(course, at, grasp, before)
    action = still(view)
    turning = at.turn if abs(at.turn) > 0.1 else 0.0
    ahead = at.go - course.back * (1.0 - part)
    action[ACTION_BASE] = np.clip(
        [ahead / BASE_DELTA_LINEAR, 0.3 * turning / BASE_DELTA_ANGULAR], -0.5, 0.5
    )
    wanted = at.pre + part * (at.contact - at.pre)
    action[ACTION_ARM] = np.clip((wanted - view.target) / ARM_DELTA, -1.0, 1.0)
    if grasp:
        action[ACTION_GRIP] = 1.0 if (1.0 - at.part) * course.length < _GRIP_BEFORE else -1.0
    return action


def aim(course: Course, at: CoursePosition, grasp: bool, before: float) -> float:
    """Return the part of the approach that the next step aims at."""
    end = course.end(grasp)
    left = (1.0 - at.part) * course.length
    step = (_NEAR_STEP if left < _SLOW_BEFORE else _FAR_STEP) / course.length
    reached = float(np.clip(before, at.part, at.part + _LEAD / course.length))
    return float(np.clip(reached + min(step, course.most), 0.0, end))


def leave(course: Course, view: RobotView) -> np.ndarray:
    """Return the (10,) action that lifts the cup off, then brings it to rest."""
    at, action = CoursePosition(course, view), still(view)
    if np.linalg.norm(at.cup - course.contact) < _CLEAR * course.length:
        action[ACTION_ARM] = arm_action(view, at.pre)
        gap = at.go - course.back
        most = max(abs(gap) / max(at.steps, 1.0) / BASE_DELTA_LINEAR, 0.2)
        action[ACTION_BASE] = np.clip(gap / BASE_DELTA_LINEAR, -most, most), 0.0
        return action
    rest, kinematics = rest_posture(view.target), arm_kinematics()
    rises = kinematics.forward(rest).pos[2] > at.cup[2] - 0.03
    gap = at.go - course.back - course.gate
    if rises or gap > -0.1:
        action[ACTION_ARM] = arm_action(view, rest)
    action[ACTION_BASE] = np.clip(gap / BASE_DELTA_LINEAR, -0.4, 0.0), 0.0
    return action


def reaching(course: Course, view: RobotView, already: bool = False) -> bool:
    """Return whether the cup is on its way in, so that :func:`reach_in` goes on.

    Args:
        course: the plan.
        view: the state.
        already: it was so a step ago.
    """
    at = CoursePosition(course, view)
    if at.steps < 3.0 and abs(at.go - course.back) < 0.03:
        return True
    near = at.part > 0.0 and at.off < _BESIDE and at.behind < 0.05 and abs(at.turn) < _ALIGNED
    return near or (already and at.part > -0.3 and at.off < _LOST and at.behind < 0.15)


def _to_world(base: np.ndarray, point: np.ndarray) -> np.ndarray:
    return np.append(base[:2] + turn(base[2]) @ point[:2], point[2])
