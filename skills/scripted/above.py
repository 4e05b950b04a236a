"""Pick and Place on open surfaces and in drawers as control laws, shown to a learner.

The robot drives to where its arm reaches over the target, and the cup comes down on it. The base
heeds the furniture and the arm the target: what the arm does is a function of where the target is
in the base frame, which a policy sees, and of nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.scripted.paths import ComfortField
from skills.scripted.pick import REST_REACHED
from skills.scripted.postures import arm_steps
from skills.scripted.program import GiveUpError, still
from skills.scripted.reach import free_space
from skills.scripted.targets import episode_target, place_goal
from skills.scripted.view import View, look, to_base, wrap
from skills.tasks.places import kind_of, place_of, support_height
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_STAND, _DEEPER = 0.74, 0.06
"""The base comes this near to the target, m, or this much less near than the nearest free point."""
_FARTHEST = 0.95
_PITCHES = np.radians(np.arange(88.0, 28.0, -2.0))
_SHORTEST, _LONGEST = 0.5, 1.0
"""Radii at which the cup is used, m."""
_RISE, _DRAWER_RISE = 0.14, 0.24
"""The cup comes this high above the target and goes down where it is over it, m."""
_HIGHEST = 1.06
"""But no higher than this, m."""
_OVER, _AROUND, _DRAWER_AROUND = 0.05, 0.10, 0.06
"""It is over it this near, and comes down on the last centimetres of the second, m."""
_WAIT = 0.3
"""A cup that is low keeps so much farther off: edges would catch it, m."""
_SLOW_STEPS = 5.0
_PRESS = 0.03
"""The cup goes for a point this far below the middle of what it grasps: a bowl is hollow, m."""
_GRIP_WITHIN = 0.04
_RAISE_WITHIN, _AHEAD = 0.9, 0.6
"""The arm comes out when the base has so far to go, m, and the target is so far from ahead, rad."""
_LOOKAHEAD, _MARGIN = 0.4, 0.05
_TURN_ONLY, _FULL_SPEED = 0.7, 0.25
_DROP = 0.03
_LET_GO = 0.04
_REST = np.array([-0.42, -1.2, 0.4, 0.83, 0.3, 2.0, 0.0])
"""One resting posture for all: the nearest one changes on the way, where a pupil would stop."""
_PAN = 0.8


@lru_cache(maxsize=200_000)
def _over(radius: int, height: int) -> tuple[float, ...] | None:
    """Return the steepest posture at a radius and a height, given in steps of 5 mm."""
    kinematics = arm_kinematics()
    for pitch in _PITCHES:
        found = kinematics.planar(0.0, 0.005 * radius, 0.005 * height, float(pitch))
        if found is not None:
            return tuple(found)
    return None


def posture_over(radius: float, height: float) -> np.ndarray:
    """Return the (7,) posture that brings the cup to a radius and height as steeply as it can.

    Raises:
        GiveUpError: it is out of reach.
    """
    step = round(float(np.clip(radius, _SHORTEST, _LONGEST)) / 0.005)
    for shift in range(0, 80, 2):  # a cup that cannot be there comes as near as it can
        for sign in (1, -1):
            found = _over(step + sign * shift, round(height / 0.005))
            if found is not None:
                return np.array(found)
    raise GiveUpError("out of reach")


class _Law(Skill):
    privileged = True

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._reason = ""
        self._target = episode_target(sim, env_id, call)
        self._where = self.where(sim, env_id, call)
        drawer = kind_of(place_of(sim, env_id, self._where)) == "drawer"
        self._rise = _DRAWER_RISE if drawer else _RISE
        self._around = _DRAWER_AROUND if drawer else _AROUND
        navigation, here = free_space(sim, env_id), look(sim, env_id).base[:2]
        xy = self._where[:2]
        least = float(np.linalg.norm(navigation.snap(xy) - xy))
        self._radius = max(_STAND, least + _DEEPER)
        if self._radius > _FARTHEST:
            self._reason = "out of reach of the nearest free point"
            return
        poses = np.array(list(sim.scene(env_id).furniture_pose.values())).reshape(-1, 3)
        points = np.concatenate([poses[:, :2], here[None]])
        extent = np.array([points.min(axis=0) - 0.5, points.max(axis=0) + 0.5])
        self._field = ComfortField(navigation, xy, here, extent, self._radius, _MARGIN)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        view = look(sim, env_id)
        action = still(view)
        if self._reason:
            return action
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

    def _come(self, view: View, action: np.ndarray, point: np.ndarray) -> float:
        """Drive up and bring the cup over a (3,) point and down; return how far it is, m."""
        kinematics = arm_kinematics()
        local = to_base(view.base, point)
        flat = local[:2] - kinematics.pan_axis
        radius, bearing = float(np.hypot(*flat)), float(np.arctan2(flat[1], flat[0]))
        cup = kinematics.forward(view.target).pos
        low = cup[2] < min(local[2] + self._rise - 0.08, _HIGHEST - 0.05)
        action[ACTION_BASE] = self._drive(view, bearing, _WAIT * low)
        off = float(np.linalg.norm(cup[:2] - local[:2]))
        lift = self._rise * float(np.clip((off - _OVER) / self._around, 0.0, 1.0))
        if radius < self._radius + _RAISE_WITHIN and abs(bearing) < _AHEAD:
            height = min(local[2] + lift, max(_HIGHEST, local[2]))
            posture = posture_over(min(radius, self._radius + 0.05), height)
            posture[0] = np.clip(bearing, -_PAN, _PAN)
            posture[-1] = view.target[-1]
            action[ACTION_ARM] = _towards(view, posture)
        return float(np.linalg.norm(cup - local))

    def _drive(self, view: View, bearing: float, wait: float) -> np.ndarray:
        """Return the (2,) base action, ``wait`` m farther off while the cup is low."""
        distance = float(np.linalg.norm(self._where[:2] - view.base[:2]))
        left = distance - self._radius
        if 0.0 < left < wait:
            return np.array([0.0, np.clip(bearing / (1.5 * BASE_DELTA_ANGULAR), -1.0, 1.0)])
        if left <= 0.0:
            back = np.clip((left + 0.08) / BASE_DELTA_LINEAR, -0.3, 0.0)
            return np.array([back, np.clip(bearing / (1.5 * BASE_DELTA_ANGULAR), -1.0, 1.0)])
        ahead = self._field.lookahead(view.base[:2], _LOOKAHEAD)
        if ahead is None:
            raise GiveUpError("no path to the target")
        gap = ahead - view.base[:2]
        error = wrap(float(np.arctan2(gap[1], gap[0])) - view.base[2])
        eager = np.clip((_TURN_ONLY - abs(error)) / (_TURN_ONLY - _FULL_SPEED), 0.0, 1.0)
        speed = min((left + 0.02) / BASE_DELTA_LINEAR, 1.0) * eager
        return np.array([speed, np.clip(error / (1.5 * BASE_DELTA_ANGULAR), -1.0, 1.0)])

    def _leave(self, view: View, action: np.ndarray) -> None:
        """Rise, then bring the arm to rest."""
        kinematics = arm_kinematics()
        cup = kinematics.forward(view.target).pos
        flat = cup[:2] - kinematics.pan_axis
        height = min(self._where[2] + self._rise, _HIGHEST)
        away = np.linalg.norm(self._where[:2] - view.base[:2]) - self._radius
        action[ACTION_BASE] = -0.1 * (away < 0.2), 0.0
        if height - cup[2] > 0.05:
            posture = posture_over(float(np.hypot(*flat)), height)
            posture[0], posture[-1] = view.target[0], view.target[-1]
        else:
            posture = _REST
        action[ACTION_ARM] = _towards(view, posture)


def _towards(view: View, posture: np.ndarray) -> np.ndarray:
    """Return (7,) arm action to a posture, slower over the last steps.

    At full speed to the end its sign would change with every small error of a pupil, whose mean of
    both is to stand still.
    """
    steps = max(arm_steps(view.target, posture), _SLOW_STEPS)
    action = (posture - view.target) / steps / ARM_DELTA
    action[-1] = np.clip(action[-1], -1.0, 1.0)
    return action


class PickFromAbove(_Law):
    """Pick from an open surface or a drawer."""

    name: SkillName = "pick"

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        super().reset(sim, env_id, call, seed)
        half = self._where[2] - support_height(sim, env_id, self._where)
        self._half = float(np.clip(half, 0.01, 0.12))

    def where(self, sim: Simulator, env_id: int, call: SkillCall) -> np.ndarray:
        """See :meth:`_Law.where`."""
        return look(sim, env_id).objects[self._target.object_index].copy()

    def law(self, view: View, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        if view.held_object == self._target.object_index:
            self._leave(view, action)
            return
        point = self._where - [0.0, 0.0, _PRESS]
        far = self._come(view, action, point)
        action[ACTION_GRIP] = 1.0 if far < _GRIP_WITHIN + _PRESS + self._half else -1.0

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        view = look(sim, env_id)
        held = view.held_object == self._target.object_index
        done = held and view.rest_distance < REST_REACHED
        return SkillStatus(done=done, failed=bool(self._reason), reason=self._reason)


class PlaceFromAbove(_Law):
    """Place on an open surface or in a drawer."""

    name: SkillName = "place"

    def where(self, sim: Simulator, env_id: int, call: SkillCall) -> np.ndarray:
        """See :meth:`_Law.where`."""
        return place_goal(sim, env_id, call)

    def law(self, view: View, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        index = self._target.object_index
        if view.held_object != index:
            self._leave(view, action)
            return
        hangs = view.objects[index] - view.tip  # as it hangs now
        point = self._where - hangs + [0.0, 0.0, _DROP]
        far = self._come(view, action, point)
        near = np.linalg.norm(view.objects[index] - self._where) < 0.12
        if far < _LET_GO and near:
            action[:] = 0.0
            action[ACTION_GRIP] = -1.0

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        view = look(sim, env_id)
        done = not view.holding and view.rest_distance < REST_REACHED
        return SkillStatus(done=done, failed=bool(self._reason), reason=self._reason)
