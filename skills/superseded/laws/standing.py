"""Pick and Place for a robot whose base stands still (``actions=restricted``), as control laws.

The teachers of :mod:`skills.superseded.laws.teachers` choose where to stand; here the robot stands
where it stands, usually nearer to the target than an arm in one plane can fold. So postures come
from a table in which the rolls swing the elbow out. What is wanted and where the base is fix two
postures, above the target and at it; the action is a function of where the arm is against those
two, so that a policy without memory can imitate it.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from functools import lru_cache

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.motion.moves import GiveUpError, arm_action, still
from skills.motion.postures import arm_steps, rest_posture
from skills.motion.view import RobotView, WhatIf, look, what_if
from skills.programs.targets import DROP_HEIGHT, episode_target, place_goal
from skills.tasks.tolerances import AT_REST as REST_REACHED
from tpsrl.geometry.rotations import to_base
from tpsrl.robot.fetch import ARM_DELTA, ARM_INIT, ARM_LOWER, ARM_UPPER
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_GRIP, Simulator

_UP, _BACK = 0.10, 0.05
"""The arm comes to this far above the target and behind it against its approach, m."""
_LIFTS, _ROLLS = np.linspace(-1.2, 1.3, 14), np.linspace(-1.5, 1.5, 9)
_ELBOWS, _FORE_ROLLS = np.linspace(0.0, 2.2, 12), np.linspace(-1.2, 1.2, 7)
_WRISTS = np.linspace(-0.4, 2.1, 11)
_DOWNWARD = 0.25
"""The cup points down by at least this much of its direction."""
_WITHIN = 0.07
"""Postures of the table this near to what is wanted are refined, m."""
_TRIED, _ASKED = 24, 12
"""How many are refined, and of how many the simulator is asked whether they touch anything."""
_SHALLOW, _LOW = 60.0, 150.0
"""Control steps that a cup which points ahead, and a metre of elbow below the cup, count."""
_OFF = 0.25
"""With the arm so far beside the way down, rad, it first returns to the posture above."""
_STEP = 0.10
"""Part of the way down that the arm aims ahead."""
_GRIP_FROM = 0.35
"""The cup grips from this part of the way down on, so that it takes no neighbour."""
_LIFTED, _BESIDE = 0.3, 0.12
"""Above this part of the way, or so far beside it, rad, the arm goes to rest."""
_RELEASE_FROM = 0.97
_NEAR_GOAL = 0.1
"""What is held is let go no farther from its goal, m."""
_BENT = 0.12
"""A joint this far from its target is held up by something, rad."""
_MOST = 180
"""Steps after which a law that has not grasped, or not let go, gives up: most need 90 in all."""
_STRAYED = 0.03
"""An object that has moved this far is planned for anew, m."""


@lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (k, 7) postures with pan 0, their (k, 3) cups, approaches, and (k,) lowest elbows.

    Cups are given from the pan axis, m; the height of elbow and wrist is counted from the cup.
    """
    kinematics = arm_kinematics()
    links = [kinematics.model.body(name).id for name in ("elbow_flex_link", "wrist_flex_link")]
    axis, rows = np.append(kinematics.pan_axis, 0.0), []
    for joints in itertools.product(_LIFTS, _ROLLS, _ELBOWS, _FORE_ROLLS, _WRISTS):
        qpos = np.array((0.0, *joints, 0.0))
        tip = kinematics.forward(qpos)
        if tip.approach[2] < -_DOWNWARD and 0.25 < tip.pos[2] < 1.3 and tip.pos[0] > 0.25:
            low = kinematics.data.xpos[links, 2].min() - tip.pos[2]
            rows.append((qpos, tip.pos - axis, tip.approach, low))
    postures, cups, ways, lows = (np.array(column) for column in zip(*rows, strict=True))
    return postures, cups, ways, lows


class Reaching:
    """Two postures: above a point and at it.

    Attributes:
        above, at, rest: (7,) rad; the last is one of the resting postures.
        cost: estimated control steps of the whole skill.
    """

    def __init__(self, above: np.ndarray, at: np.ndarray, extra: float) -> None:
        self.above, self.at = above, at
        self.rest = rest_posture(2.0 * above - at)
        self.cost = arm_steps(ARM_INIT, above) + 2 * arm_steps(above, at) + extra
        self.cost += arm_steps(above, self.rest)
        self._way = at - above

    def part(self, target: np.ndarray) -> tuple[float, float]:
        """Return how far motor targets are on the way down, 0 to 1, and how far beside it, rad."""
        gone = target - self.above
        part = float(np.clip(gone @ self._way / (self._way @ self._way), 0.0, 1.0))
        return part, float(np.abs(gone - part * self._way).max())

    def down(self, target: np.ndarray) -> np.ndarray:
        """Return the (7,) posture to aim at on the way down."""
        part, off = self.part(target)
        near = 1.0 - off / _OFF
        return self.above + np.clip((part + _STEP) * min(2 * near, 1.0), 0.0, 1.0) * self._way


def plan_standing(
    sim: Simulator, env_id: int, point: np.ndarray, carried: np.ndarray, remove: int
) -> Reaching:
    """Find how the arm reaches a point from where the base stands.

    Args:
        sim: the simulator.
        env_id: its world.
        point: (3,) in the base frame, m.
        carried: (3,) what is to be brought there, in the cup's frame, m; 0 for the cup itself.
        remove: index of an object that may be touched, -1 for none.

    Raises:
        GiveUpError: it is out of reach.
    """
    found = []
    for start, extra in _starts(point, float(carried[0])):
        at = _refine(start, point, carried, 0.02)
        if at is None:
            continue
        way = arm_kinematics().forward(at).approach
        away = np.array([0.0, 0.0, _UP]) - _BACK * np.append(way[:2], 0.0)
        above = _refine(at, point + away, carried, 0.04)
        if above is not None:
            found.append(Reaching(above, at, extra))
    if not found:
        raise GiveUpError("out of reach of a standing base")
    found.sort(key=lambda reaching: reaching.cost)
    base = look(sim, env_id).base
    with what_if(sim, env_id) as world:
        if remove >= 0:
            world.remove(remove)
        touches = [_touches(world, base, reaching) for reaching in found[:_ASKED]]
    return found[int(np.argmin(touches))]


def _touches(world: WhatIf, base: np.ndarray, reaching: Reaching) -> int:
    """Count postures on the way that touch something."""
    above, way = reaching.above, reaching.at - reaching.above
    tried = [ARM_INIT + k * (above - ARM_INIT) for k in (0.5, 0.75)]
    tried += [above, above + 0.4 * way, above + 0.7 * way]
    return sum(world.touches(base, qpos) for qpos in tried)


def _starts(point: np.ndarray, carried: float) -> list[tuple[np.ndarray, float]]:
    """Return unlike postures of the table near a point, soonest reached first, and extra costs."""
    postures, cups, ways, lows = _table()
    ends = cups + carried * ways
    flat = point[:2] - arm_kinematics().pan_axis
    off = np.hypot(np.hypot(ends[:, 0], ends[:, 1]) - np.hypot(*flat), ends[:, 2] - point[2])
    pans = np.arctan2(flat[1], flat[0]) - np.arctan2(ends[:, 1], ends[:, 0])
    fits = np.flatnonzero((off < _WITHIN) & (pans > ARM_LOWER[0]) & (pans < ARM_UPPER[0]))
    if not len(fits):
        return []
    wanted = postures[fits].copy()
    wanted[:, 0] = pans[fits]
    extra = _SHALLOW * (1.0 + ways[fits, 2]) + _LOW * np.maximum(0.1 - lows[fits], 0.0)
    cost = np.abs(wanted - ARM_INIT)[:, :6].max(axis=1) / ARM_DELTA + extra
    chosen: list[tuple[np.ndarray, float]] = []
    for k in np.argsort(cost + 100.0 * off[fits]):
        if all(np.abs(wanted[k] - other).max() > 0.35 for other, _ in chosen):
            chosen.append((wanted[k], float(extra[k])))
        if len(chosen) == _TRIED:
            break
    return chosen


def _refine(
    qpos: np.ndarray, point: np.ndarray, carried: np.ndarray, tolerance: float
) -> np.ndarray | None:
    """Bring what is carried to a (3,) point by small steps from a posture; ``None`` if it fails."""
    kinematics = arm_kinematics()
    for _ in range(25):
        tip = kinematics.forward(qpos)
        gap = point - tip.pos - tip.rotation @ carried
        if np.linalg.norm(gap) < 0.25 * tolerance:
            return qpos
        qpos = kinematics.step(qpos, tip.pos + gap, max_delta=0.15)
    return qpos if np.linalg.norm(gap) < tolerance else None


class _Standing(Skill):
    """What both laws share: plan at first, and rest at the end."""

    privileged = True

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._call, self._reason, self._steps = call, "", 0
        self._plan: Reaching | None = None
        self._replan(sim, env_id)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        view = look(sim, env_id)
        action = still(view)
        self._steps += 1
        if self._plan is not None:
            self.law(sim, env_id, view, action)
        if self._steps > _MOST and not self.there(sim, env_id, view):
            self._reason = self._reason or "out of time"
        return action

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        view = look(sim, env_id)
        done = view.rest_distance < REST_REACHED and self.there(sim, env_id, view)
        return SkillStatus(done=done, failed=bool(self._reason), reason=self._reason)

    @abstractmethod
    def law(self, sim: Simulator, env_id: int, view: RobotView, action: np.ndarray) -> None:
        """Fill in the (10,) action."""

    @abstractmethod
    def there(self, sim: Simulator, env_id: int, view: RobotView) -> bool:
        """Return whether only rest is missing."""

    @abstractmethod
    def make_plan(self, sim: Simulator, env_id: int, view: RobotView) -> Reaching:
        """Return the two postures; raises GiveUpError."""

    def _replan(self, sim: Simulator, env_id: int) -> None:
        try:
            self._plan = self.make_plan(sim, env_id, look(sim, env_id))
        except GiveUpError as error:
            self._plan, self._reason = None, str(error)

    def _leave(self, view: RobotView, action: np.ndarray) -> None:
        """Lift the cup along the way that it came, then bring it to rest."""
        assert self._plan is not None
        part, off = self._plan.part(view.target)
        lifts = part > _LIFTED and off < _BESIDE
        goal = self._plan.above if lifts else self._plan.rest
        action[ACTION_ARM] = arm_action(view, goal)


class StandingPick(_Standing):
    """Grasps ``call.target``'s object from above, holds it at rest; the base does not move."""

    name: SkillName = "pick"

    def law(self, sim: Simulator, env_id: int, view: RobotView, action: np.ndarray) -> None:
        """See :meth:`_Standing.law`."""
        assert self._plan is not None
        if view.held_object >= 0:
            self._leave(view, action)
            return
        wanted = episode_target(sim, env_id, self._call).object_index
        if np.linalg.norm(view.objects[wanted] - self._planned_for) > _STRAYED:
            self._replan(sim, env_id)
            if self._plan is None:
                return
        part, off = self._plan.part(view.target)
        action[ACTION_ARM] = arm_action(view, self._plan.down(view.target))
        action[ACTION_GRIP] = 1.0 if part > _GRIP_FROM and off < _OFF else -1.0

    def there(self, sim: Simulator, env_id: int, view: RobotView) -> bool:
        """See :meth:`_Standing.there`."""
        return view.held_object == episode_target(sim, env_id, self._call).object_index

    def make_plan(self, sim: Simulator, env_id: int, view: RobotView) -> Reaching:
        """See :meth:`_Standing.make_plan`."""
        wanted = episode_target(sim, env_id, self._call).object_index
        self._planned_for = view.objects[wanted].copy()
        point = to_base(view.base, self._planned_for)
        return plan_standing(sim, env_id, point, np.zeros(3), wanted)


class StandingPlace(_Standing):
    """Sets what is held down at its goal from above; the base does not move."""

    name: SkillName = "place"

    def law(self, sim: Simulator, env_id: int, view: RobotView, action: np.ndarray) -> None:
        """See :meth:`_Standing.law`."""
        assert self._plan is not None
        if view.held_object < 0:
            self._leave(view, action)
            return
        part, off = self._plan.part(view.target)
        index, goal = view.held_object, place_goal(sim, env_id, self._call)
        near = np.linalg.norm(view.objects[index] - goal) < _NEAR_GOAL
        stopped = np.abs(view.qpos - view.target).max() > _BENT
        if near and off < 0.5 * _OFF and (part > _RELEASE_FROM or stopped):
            action[ACTION_GRIP] = -1.0
        else:
            action[ACTION_ARM] = arm_action(view, self._plan.down(view.target))

    def there(self, sim: Simulator, env_id: int, view: RobotView) -> bool:
        """See :meth:`_Standing.there`."""
        return not view.holding

    def make_plan(self, sim: Simulator, env_id: int, view: RobotView) -> Reaching:
        """See :meth:`_Standing.make_plan`.

        Raises:
            GiveUpError: it is out of reach, or the object is not held.
        """
        index = episode_target(sim, env_id, self._call).object_index
        if view.held_object != index:
            raise GiveUpError("object not held")
        carried = view.objects[index] - view.tip
        carried = view.tip_rotation.T @ carried
        goal = place_goal(sim, env_id, self._call) + [0.0, 0.0, DROP_HEIGHT]
        return plan_standing(sim, env_id, to_base(view.base, goal), carried, -1)


STANDING: dict[SkillName, type[Skill]] = {"pick": StandingPick, "place": StandingPlace}
