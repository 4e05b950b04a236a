"""Pick and Place as they are shown to a learner: a control law instead of a sequence.

The scripted skills of the chain drive, stop, raise the arm, stop, drive on. What follows a stop
depends on the plan, which a policy cannot see, and so it learns to stop for ever. Here the
action is a function of where base and arm are against the plan; the robot comes to the object
straight from where it is if it can, and raises its arm on the way. Such a teacher can also follow
a learner: it goes on from wherever that has brought the robot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator

import numpy as np

from skills.interface import Skill, SkillName
from skills.scripted import make_skill
from skills.scripted.approach import Approach
from skills.scripted.endings import home, release
from skills.scripted.laws import LAWS
from skills.scripted.paths import drive_to
from skills.scripted.pick import REST_REACHED, Pick
from skills.scripted.place import Place
from skills.scripted.postures import PAN, rest_posture
from skills.scripted.program import Actions, GiveUpError, arm_action, still
from skills.scripted.reach import Reach, TipTarget, free_space, plan_reach
from skills.scripted.standing import STANDING
from skills.scripted.targets import episode_target, pick_target, place_goal, place_target
from skills.scripted.view import View, look, turn, unit, wrap
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_STANDOFFS = (0.3, 0.2, 0.1, 0.0)
_FAR_STANDOFFS = (0.6, 0.5, 0.4, 0.3)
"""Where the arm is raised: near, and what is tried where that touches something, m."""
_OFFSET = 0.15
"""The tip reaches this far to the right of the base's axis at most radii, m."""
_STRAY_COST = 200.0
"""Control steps that a radian of direction against the straight way costs."""
_MARGIN = 0.015
"""The way in must also be free this far to the left and right, m."""
_GATE_STEPS = 12.0
"""The base closes in over the last steps of raising the arm."""
_ALIGNED = 0.3
"""A robot turned this little from its way drives and raises its arm, rad."""
_RAISE_WITHIN = 1.2
_PURSUIT = 0.3
"""The base heads for a point this far beyond its place at contact, m."""
_STRAIGHT = 0.25
_LATERAL = 0.08
"""A robot this near to the line through its place at contact is on it, m."""
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
_PATIENCE = 6
_LED_STEPS = 20
"""A robot that did something else in this many steps is led by a learner: plan anew."""
_FOLLOWED = 0.03
"""A base that is no farther from where its action should have brought it followed, m and rad."""
_ATTEMPTS, _MOST_PLANS = 4, 30


def make_teacher(name: SkillName, standing: bool = False) -> Skill:
    """Return the scripted skill that demonstrates; that of the chain where there is no other.

    Args:
        name: of the skill.
        standing: the base stands still (``actions=restricted``). Open and Close have no law of
            their own for that.
    """
    if name == "rearrange_easy":
        from skills.scripted.whole_task import TeachRearrange  # which puts those below together

        return TeachRearrange()
    own: dict[SkillName, type[Skill]] = {"pick": TeachPick, "place": TeachPlace}
    teachers: dict[SkillName, type[Skill]] = {"navigate": Approach, **LAWS, **own}
    teachers |= STANDING if standing else {}
    return teachers[name]() if name in teachers else make_skill(name)


def straight_azimuth(view: View, xy: np.ndarray) -> float:
    """Return the cup's direction if the robot turns to a (2,) point and drives straight, rad."""
    gap = xy - view.base[:2]
    distance = max(float(np.hypot(*gap)), 0.4)
    return float(np.arctan2(gap[1], gap[0]) + np.arcsin(_OFFSET / distance)) + PAN


def teaching_target(view: View, target: TipTarget) -> TipTarget:
    """Return the target with directions counted from the straight way."""
    return dataclasses.replace(target, azimuth=straight_azimuth(view, target.xy))


class _Course:
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


class _Place:
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

    def __init__(self, course: _Course, view: View) -> None:
        kinematics = arm_kinematics()
        ahead = (course.contact[:2] - view.base[:2]) @ turn(view.base[2]) - kinematics.pan_axis
        self.go = float(np.hypot(*ahead)) - course.radius
        pan = float(np.clip(np.arctan2(ahead[1], ahead[0]), -1.2, 0.8))
        self.pre, self.contact = course.reach.pre.copy(), course.reach.contact.copy()
        self.pre[0] = self.contact[0] = pan
        self.steps = float(np.abs(self.pre - view.target).max()) / ARM_DELTA
        base = course.reach.base
        gap = base[:2] + _PURSUIT * unit(base[2]) - view.base[:2]
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


def come(course: _Course, view: View) -> np.ndarray:
    """Return the (10,) action that comes nearer and raises the arm to pre-contact."""
    at, action = _Place(course, view), still(view)
    aligned = abs(at.turn) < _ALIGNED
    left = at.go - course.back
    if aligned and left < _RAISE_WITHIN:
        action[ACTION_ARM] = arm_action(view, at.pre)
    gate = course.gate * min(at.steps / _GATE_STEPS, 1.0)
    ahead = np.clip((left - gate) / BASE_DELTA_LINEAR, -0.6, 1.0) * aligned
    action[ACTION_BASE] = ahead, np.clip(at.turn / BASE_DELTA_ANGULAR, -1.0, 1.0)
    return action


def reach_in(course: _Course, view: View, grasp: bool, before: float = 0.0) -> np.ndarray:
    """Return the (10,) action that goes on along the approach.

    Args:
        course: the plan.
        view: the state.
        grasp: grip near the contact and go on beyond it.
        before: part of the way at which the last step aimed.
    """
    at = _Place(course, view)
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


def aim(course: _Course, at: _Place, grasp: bool, before: float) -> float:
    """Return the part of the approach that the next step aims at."""
    end = 1.0 + (_BEYOND / course.length if grasp else 0.0)
    left = (1.0 - at.part) * course.length
    step = (_NEAR_STEP if left < _SLOW_BEFORE else _FAR_STEP) / course.length
    reached = float(np.clip(before, at.part, at.part + _LEAD / course.length))
    return float(np.clip(reached + min(step, course.most), 0.0, end))


def leave(course: _Course, view: View) -> np.ndarray:
    """Return the (10,) action that lifts the cup off, then brings it to rest."""
    at, action = _Place(course, view), still(view)
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


def reaching(course: _Course, view: View, already: bool = False) -> bool:
    """Return whether the cup is on its way in, so that :func:`reach_in` goes on.

    Args:
        course: the plan.
        view: the state.
        already: it was so a step ago.
    """
    at = _Place(course, view)
    if at.steps < 3.0 and abs(at.go - course.back) < 0.03:
        return True
    near = at.part > 0.0 and at.off < _BESIDE and at.behind < 0.05 and abs(at.turn) < _ALIGNED
    return near or (already and at.part > -0.3 and at.off < _LOST and at.behind < 0.15)


def _to_world(base: np.ndarray, point: np.ndarray) -> np.ndarray:
    return np.append(base[:2] + turn(base[2]) @ point[:2], point[2])


class _Teaching:
    """What both teachers do until contact."""

    def _plan(
        self, sim: Simulator, env_id: int, target: TipTarget, banned: list[Reach], ignore: int
    ) -> _Course:
        view, best = look(sim, env_id), None
        for standoffs in (_STANDOFFS, _FAR_STANDOFFS):
            reach = plan_reach(
                sim,
                env_id,
                view,
                teaching_target(view, target),
                banned=banned,
                ignore=ignore,
                standoffs=standoffs,
                stray_weight=_STRAY_COST,
                margin=_MARGIN,
            )
            if best is None or reach.touches < best.touches:
                best = reach
            if best.touches == 0:
                break
        assert best is not None
        return _Course(best)

    def _arrive(self, sim: Simulator, env_id: int, course: _Course) -> Actions:
        """Drive around what is in the way, if anything is."""
        view, base = look(sim, env_id), course.reach.base
        navigation = free_space(sim, env_id)
        along, beside = (base[:2] - view.base[:2]) @ turn(base[2])
        if abs(beside) < _LATERAL and along > -0.1:
            return
        seen = np.linalg.norm(navigation.clamp_motion(view.base[:2], base[:2]) - base[:2]) < 1e-6
        if not seen or along < _PURSUIT or abs(beside) > _STRAIGHT * (along + _PURSUIT):
            led = _Led()
            for action in drive_to(sim, env_id, navigation, course.reach.raise_at, near=0.05):
                if led.astray(look(sim, env_id)):
                    return
                led.expect(look(sim, env_id), action)
                yield action

    def _contact(
        self, sim: Simulator, env_id: int, course: _Course, grasp: bool
    ) -> Generator[np.ndarray, None, bool]:
        """Come and reach in until something is held (grasp) or the way has ended.

        Returns:
            The way has ended; ``False`` where the robot is elsewhere and the plan void.
        """
        waited = stuck = 0
        end = 1.0 + (_BEYOND / course.length if grasp else 0.0)
        last, inside, part, led = None, False, 0.0, _Led()
        for _ in range(250):
            view = look(sim, env_id)
            if grasp == view.holding:
                return True
            inside, at = reaching(course, view, inside), _Place(course, view)
            bent = np.abs(view.qpos - view.target).max() > 0.12
            waited = waited + 1 if inside and (at.part > end - 0.03 or bent) else 0
            if waited > (_PATIENCE if grasp else 2):
                return True
            action = reach_in(course, view, grasp, part) if inside else come(course, view)
            part = aim(course, at, grasp, part) if inside else 0.0
            still_there = last is not None and np.abs(view.base - last).max() < 1e-5
            stuck = stuck + 1 if still_there and np.abs(action[ACTION_BASE]).max() > 0.3 else 0
            last = view.base
            if stuck > _PATIENCE or (led.astray(view) and not inside):
                return False
            led.expect(view, action)
            yield action
        return False


class _Led:
    """Notices a base that does not do what the teacher says, because a learner acts."""

    def __init__(self) -> None:
        self._wanted: np.ndarray | None = None
        self._count = 0

    def expect(self, view: View, action: np.ndarray) -> None:
        """Note where an action should bring the base."""
        ahead, turning = action[ACTION_BASE]
        step = ahead * BASE_DELTA_LINEAR * unit(view.base[2])
        self._wanted = view.base + np.append(step, turning * BASE_DELTA_ANGULAR)

    def astray(self, view: View) -> bool:
        """Return whether the base has been elsewhere several times."""
        if self._wanted is not None:
            gap = view.base - self._wanted
            gap[2] = wrap(gap[2])
            self._count += bool(np.abs(gap).max() > _FOLLOWED)
        return self._count >= _LED_STEPS


class TeachPick(Pick, _Teaching):
    """Pick as a control law."""

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        target = episode_target(sim, env_id, self.call)
        wanted, banned = target.object_index, list[Reach]()
        course = None
        if look(sim, env_id).held_object == wanted:
            yield from home(sim, env_id)
            return
        for _ in range(_MOST_PLANS):
            view = look(sim, env_id)
            if view.held_object == wanted or len(banned) >= _ATTEMPTS:
                break
            tip = pick_target(sim, env_id, view, target)
            course = self._plan(sim, env_id, tip, banned, wanted)
            yield from self._arrive(sim, env_id, course)
            ended = yield from self._contact(sim, env_id, course, grasp=True)
            if ended and look(sim, env_id).held_object != wanted:
                banned.append(course.reach)
                yield from _lift(sim, env_id, course)
        if course is None or look(sim, env_id).held_object != wanted:
            raise GiveUpError("no grasp")
        yield from _to_rest(sim, env_id, course)


class TeachPlace(Place, _Teaching):
    """Place as a control law."""

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        target = episode_target(sim, env_id, self.call)
        goal, banned = place_goal(sim, env_id, self.call), list[Reach]()
        course = None
        if not look(sim, env_id).holding:
            yield from home(sim, env_id)
            return
        for _ in range(_MOST_PLANS):
            view = look(sim, env_id)
            if view.held_object != target.object_index:
                break
            tip = place_target(sim, env_id, view, target, goal)
            course = self._plan(sim, env_id, tip, banned, target.object_index)
            yield from self._arrive(sim, env_id, course)
            if (yield from self._contact(sim, env_id, course, grasp=False)):
                yield from release(sim, env_id)
        if course is None or look(sim, env_id).holding:
            raise GiveUpError("object not released")
        yield from _to_rest(sim, env_id, course)


def _lift(sim: Simulator, env_id: int, course: _Course) -> Actions:
    for _ in range(40):
        view = look(sim, env_id)
        at, action = _Place(course, view), still(view)
        if at.steps < 2.0:
            return
        action[ACTION_ARM] = arm_action(view, at.pre)
        gap = (at.go - course.back) / BASE_DELTA_LINEAR
        action[ACTION_BASE] = np.clip(gap, -0.4, 0.4), 0.0
        action[ACTION_GRIP] = -1.0
        yield action


def _to_rest(sim: Simulator, env_id: int, course: _Course) -> Actions:
    for _ in range(200):
        view = look(sim, env_id)
        if view.rest_distance < REST_REACHED - 0.02:
            return
        yield leave(course, view)
