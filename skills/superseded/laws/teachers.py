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

from skills.book import make_skill
from skills.interface import Skill, SkillName
from skills.motion.moves import Actions, GiveUpError, arm_action, still
from skills.motion.paths import drive_to
from skills.motion.postures import PAN
from skills.motion.reach import Reach, TipTarget, plan_reach
from skills.motion.view import RobotView, look
from skills.programs.pick import Pick
from skills.programs.place import Place
from skills.programs.targets import episode_target, pick_target, place_goal, place_target
from skills.superseded.laws.approach import Approach
from skills.superseded.laws.by_place import PickByPlace, PlaceByPlace
from skills.superseded.laws.course import (
    PURSUIT,
    Course,
    CoursePosition,
    aim,
    come,
    leave,
    reach_in,
    reaching,
)
from skills.superseded.laws.endings import home, release
from skills.superseded.laws.laws import LAWS
from skills.superseded.laws.standing import STANDING
from skills.tasks.outlines import free_space
from skills.tasks.tolerances import AT_REST as REST_REACHED
from tpsrl.geometry.rotations import turn, unit, wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
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
_STRAIGHT = 0.25
_LATERAL = 0.08
"""A robot this near to the line through its place at contact is on it, m."""
_PATIENCE = 6
_LED_STEPS = 20
"""A robot that did something else in this many steps is led by a learner: plan anew."""
_FOLLOWED = 0.03
"""A base that is no farther from where its action should have brought it followed, m and rad."""
_ATTEMPTS, _MOST_PLANS = 4, 30


TEACHERS = ("law", "plan")
"""Teachers of Pick and Place: a law of the present state, or one that searches for a plan."""


def make_teacher(name: SkillName, standing: bool = False, teacher: str = "law") -> Skill:
    """Return the scripted skill that demonstrates; that of the chain where there is no other.

    Args:
        name: of the skill.
        standing: the base stands still (``actions=restricted``). Open and Close have no law of
            their own for that.
        teacher: one of :data:`TEACHERS`; skills other than Pick and Place have one.

    Raises:
        ValueError: unknown teacher.
    """
    if teacher not in TEACHERS:
        raise ValueError(f"teacher='{teacher}' is unknown; use one of {', '.join(TEACHERS)}.")
    if name == "rearrange_easy":
        from skills.superseded.laws.whole_task import (
            TeachRearrange,  # which puts those below together
        )

        return TeachRearrange()
    own: dict[SkillName, type[Skill]] = {"pick": PickByPlace, "place": PlaceByPlace}
    if teacher == "plan":
        own = {"pick": TeachPick, "place": TeachPlace}
    teachers: dict[SkillName, type[Skill]] = {"navigate": Approach, **LAWS, **own}
    teachers |= STANDING if standing else {}
    return teachers[name]() if name in teachers else make_skill(name)


def straight_azimuth(view: RobotView, xy: np.ndarray) -> float:
    """Return the cup's direction if the robot turns to a (2,) point and drives straight, rad."""
    gap = xy - view.base[:2]
    distance = max(float(np.hypot(*gap)), 0.4)
    return float(np.arctan2(gap[1], gap[0]) + np.arcsin(_OFFSET / distance)) + PAN


def teaching_target(view: RobotView, target: TipTarget) -> TipTarget:
    """Return the target with directions counted from the straight way."""
    return dataclasses.replace(target, azimuth=straight_azimuth(view, target.xy))


class _Teaching:
    """What both teachers do until contact."""

    def _plan(
        self, sim: Simulator, env_id: int, target: TipTarget, banned: list[Reach], ignore: int
    ) -> Course:
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
        return Course(best)

    def _arrive(self, sim: Simulator, env_id: int, course: Course) -> Actions:
        """Drive around what is in the way, if anything is."""
        view, base = look(sim, env_id), course.reach.base
        navigation = free_space(sim, env_id)
        along, beside = (base[:2] - view.base[:2]) @ turn(base[2])
        if abs(beside) < _LATERAL and along > -0.1:
            return
        seen = np.linalg.norm(navigation.clamp_motion(view.base[:2], base[:2]) - base[:2]) < 1e-6
        if not seen or along < PURSUIT or abs(beside) > _STRAIGHT * (along + PURSUIT):
            led = _Led()
            for action in drive_to(sim, env_id, navigation, course.reach.raise_at, near=0.05):
                if led.astray(look(sim, env_id)):
                    return
                led.expect(look(sim, env_id), action)
                yield action

    def _contact(
        self, sim: Simulator, env_id: int, course: Course, grasp: bool
    ) -> Generator[np.ndarray, None, bool]:
        """Come and reach in until something is held (grasp) or the way has ended.

        Returns:
            The way has ended; ``False`` where the robot is elsewhere and the plan void.
        """
        waited = stuck = 0
        end = course.end(grasp)
        last, inside, part, led = None, False, 0.0, _Led()
        for _ in range(250):
            view = look(sim, env_id)
            if grasp == view.holding:
                return True
            inside, at = reaching(course, view, inside), CoursePosition(course, view)
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

    def expect(self, view: RobotView, action: np.ndarray) -> None:
        """Note where an action should bring the base."""
        ahead, turning = action[ACTION_BASE]
        step = ahead * BASE_DELTA_LINEAR * unit(view.base[2])
        self._wanted = view.base + np.append(step, turning * BASE_DELTA_ANGULAR)

    def astray(self, view: RobotView) -> bool:
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


def _lift(sim: Simulator, env_id: int, course: Course) -> Actions:
    for _ in range(40):
        view = look(sim, env_id)
        at, action = CoursePosition(course, view), still(view)
        if at.steps < 2.0:
            return
        action[ACTION_ARM] = arm_action(view, at.pre)
        gap = (at.go - course.back) / BASE_DELTA_LINEAR
        action[ACTION_BASE] = np.clip(gap, -0.4, 0.4), 0.0
        action[ACTION_GRIP] = -1.0
        yield action


def _to_rest(sim: Simulator, env_id: int, course: Course) -> Actions:
    for _ in range(200):
        view = look(sim, env_id)
        if view.rest_distance < REST_REACHED - 0.02:
            return
        yield leave(course, view)
