"""Pick and Place on open surfaces and in drawers as control laws, shown to a learner.

The robot drives to where its arm reaches over the target, and the cup comes down on it. The base
heeds the furniture and the arm the target: what the arm does is a function of its posture and of
where the target is in the base frame, which a policy senses; only how far it stretches before the
base has arrived depends on where furniture lets the base stand.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from skills.interface import SkillCall, SkillName
from skills.motion.moves import GiveUpError
from skills.motion.postures import arm_steps
from skills.motion.view import RobotView
from skills.superseded.laws.reach_law import ReachLaw
from skills.superseded.laws.steering import field_around, pursue, soft_turn
from skills.tasks.outlines import free_space
from skills.tasks.places import kind_of, support_height
from tpsrl.geometry.rotations import to_base
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_STAND, _DEEPER, _FARTHEST = 0.74, 0.06, 0.95
"""The base comes as near to the target as the first, m: there the arm reaches down steeply. Where
furniture keeps it off, it goes for the second beyond the nearest free point, so that free points
enough count as near; farther than the third the arm does not reach and the law gives up."""
_PITCHES = np.radians(np.arange(88.0, 28.0, -2.0))
"""The steepest that is possible is taken: it passes over what stands around the target."""
_GRID = 0.005
"""Radii and heights of postures are rounded to this, m, so that few are ever solved for."""
_SHORTEST, _LONGEST = 0.5, 1.0
"""Radii at which the cup is used, m."""
_SHIFTS = range(0, 80, 2)
"""Where no posture reaches a radius, these many roundings to either side are tried."""
_RISE, _DRAWER_RISE = 0.14, 0.24
"""The cup comes this high above the target, over its neighbours or a drawer's walls, m."""
_HIGHEST = 1.06
"""But no higher than this, m: higher up the arm cannot point the cup down as steeply."""
_OVER, _AROUND, _DRAWER_AROUND = 0.05, 0.10, 0.06
"""Nearer than the first, seen from above, the cup is over the target, m. It sinks in proportion
over the next so many metres: a switch between across and down would stop a pupil. In a drawer they
are fewer, for its walls are near."""
_LOW_BY, _LOW_ROOM = 0.08, 0.05
"""A cup this much below its rise, or below ``_HIGHEST``, is low, m."""
_WAIT = 0.3
"""While the cup is low the base keeps so much farther off: the cup would catch on edges, m."""
_SLOW_STEPS = 5.0
"""The arm slows down over its last steps, so many at full speed."""
_PRESS = 0.03
"""The cup goes for a point this far below the middle of what it grasps, m: a bowl is hollow, and
contact with its rim or bottom ends the way anyhow."""
_GRIP_WITHIN = 0.04
"""It grips this near to what it grasps, m, and no sooner, so that it takes no neighbour."""
_RAISE_WITHIN, _AHEAD = 0.9, 0.6
"""The arm comes out when the base has so far to go, m, and the target is so far from ahead, rad:
it sweeps nothing on the way and is up on arrival."""
_STRETCH = 0.05
"""The arm reaches this much beyond the radius that the base goes for, m, until the base is there:
an arm that stretched for a far target would have to come back."""
_PAN = 0.8
"""The shoulder turns to targets this far aside, rad; the base does the rest."""
_LOOKAHEAD, _MARGIN = 0.4, 0.05
"""Of driving, see :func:`pursue` and :class:`LawField`, m."""
_SLACK = 0.02
"""The base aims this much nearer than it must, m, or it would creep up for ever."""
_TOO_NEAR, _BACK = 0.08, 0.3
"""A base so much nearer than it would stand backs off, m, at most this fast: in between it stands,
so that a pupil that comes in a little too far has nothing to correct."""
_DROP = 0.03
"""What is held is let go this far above its goal, m: lower, it would be pressed onto it."""
_LET_GO, _NEAR_GOAL = 0.04, 0.12
"""The cup lets go this near to where it should, m, if what it holds is so near to its goal, m."""
_REST = np.array([-0.42, -1.2, 0.4, 0.83, 0.3, 2.0, 0.0])
"""One resting posture for all, rad: the nearest changes on the way, where a pupil would stop."""
_LIFTED = 0.05
"""A cup no farther than this below its rise has left the target and goes to rest, m."""
_NOT_AWAY, _CREEP = 0.2, 0.1
"""A base this little farther off than it stood backs away at the second while the arm leaves, m:
the elbow then clears the edge."""


@lru_cache(maxsize=200_000)
def _steepest(radius: int, height: int) -> tuple[float, ...] | None:
    """Return the steepest posture at a radius and a height, given in steps of ``_GRID``."""
    kinematics = arm_kinematics()
    for pitch in _PITCHES:
        found = kinematics.planar(0.0, _GRID * radius, _GRID * height, float(pitch))
        if found is not None:
            return tuple(found)
    return None


def posture_over(radius: float, height: float) -> np.ndarray:
    """Return the (7,) posture, rad, that points the cup down as steeply as it can at a place.

    Where the arm does not reach, that at the nearest radius where it does.

    Args:
        radius: of the cup from the shoulder's axis, m; taken to be 0.5 to 1.0.
        height: of the cup above the floor, m.

    Raises:
        GiveUpError: it is out of reach.
    """
    step = round(float(np.clip(radius, _SHORTEST, _LONGEST)) / _GRID)
    for shift in _SHIFTS:
        for sign in (1, -1):
            found = _steepest(step + sign * shift, round(height / _GRID))
            if found is not None:
                return np.array(found)
    raise GiveUpError("out of reach")


class _FromAbove(ReachLaw):
    """What both laws share: come over the point and down on it, and leave."""

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`ReachLaw.reset`."""
        super().reset(sim, env_id, call, seed)
        drawer = kind_of(self.place) == "drawer"
        self._rise = _DRAWER_RISE if drawer else _RISE
        self._around = _DRAWER_AROUND if drawer else _AROUND
        navigation, xy = free_space(sim, env_id), self.point[:2]
        least = float(np.linalg.norm(navigation.snap(xy) - xy))
        self._radius = max(_STAND, least + _DEEPER)
        if self._radius > _FARTHEST:
            self._reason = "out of reach of the nearest free point"
            return
        self._field = field_around(sim, env_id, navigation, xy, self._radius, _MARGIN)

    def _come(self, view: RobotView, action: np.ndarray, point: np.ndarray) -> float:
        """Drive up and bring the cup over a (3,) point, m, and down; return how far it is, m."""
        kinematics = arm_kinematics()
        local = to_base(view.base, point)
        flat = local[:2] - kinematics.pan_axis
        radius, bearing = float(np.hypot(*flat)), float(np.arctan2(flat[1], flat[0]))
        cup = kinematics.forward(view.target).pos
        low = cup[2] < min(local[2] + self._rise - _LOW_BY, _HIGHEST - _LOW_ROOM)
        action[ACTION_BASE] = self._drive(view, bearing, _WAIT if low else 0.0)
        off = float(np.linalg.norm(cup[:2] - local[:2]))
        lift = self._rise * float(np.clip((off - _OVER) / self._around, 0.0, 1.0))
        if radius < self._radius + _RAISE_WITHIN and abs(bearing) < _AHEAD:
            height = min(local[2] + lift, max(_HIGHEST, local[2]))
            posture = posture_over(min(radius, self._radius + _STRETCH), height)
            posture[0] = np.clip(bearing, -_PAN, _PAN)
            posture[-1] = view.target[-1]  # turns the cup about itself
            action[ACTION_ARM] = _towards(view, posture)
        return float(np.linalg.norm(cup - local))

    def _drive(self, view: RobotView, bearing: float, wait: float) -> np.ndarray:
        """Return the (2,) base action.

        Args:
            view: the state.
            bearing: of the target from the shoulder, rad, left positive.
            wait: the base keeps this much farther off, m.

        Raises:
            GiveUpError: no way leads to the target.
        """
        left = float(np.linalg.norm(self.point[:2] - view.base[:2])) - self._radius
        if left <= 0.0:
            back = np.clip((left + _TOO_NEAR) / BASE_DELTA_LINEAR, -_BACK, 0.0)
            return np.array([back, soft_turn(bearing)])
        if left < wait:
            return np.array([0.0, soft_turn(bearing)])
        error, eager = pursue(self._field, view.base, _LOOKAHEAD)
        speed = min((left + _SLACK) / BASE_DELTA_LINEAR, 1.0) * eager
        return np.array([speed, soft_turn(error)])

    def _leave(self, view: RobotView, action: np.ndarray) -> None:
        """Rise, then bring the arm to rest."""
        kinematics = arm_kinematics()
        cup = kinematics.forward(view.target).pos
        flat = cup[:2] - kinematics.pan_axis
        height = min(self.point[2] + self._rise, _HIGHEST)
        away = np.linalg.norm(self.point[:2] - view.base[:2]) - self._radius
        action[ACTION_BASE] = -_CREEP if away < _NOT_AWAY else 0.0, 0.0
        if height - cup[2] > _LIFTED:
            posture = posture_over(float(np.hypot(*flat)), height)
            posture[0], posture[-1] = view.target[0], view.target[-1]
        else:
            posture = _REST
        action[ACTION_ARM] = _towards(view, posture)


def _towards(view: RobotView, posture: np.ndarray) -> np.ndarray:
    """Return (7,) arm action to a posture, slower over the last steps.

    At full speed to the end its sign would change with every small error of a pupil, whose mean of
    both is to stand still.
    """
    steps = max(arm_steps(view.target, posture), _SLOW_STEPS)
    action = (posture - view.target) / steps / ARM_DELTA
    action[-1] = np.clip(action[-1], -1.0, 1.0)
    return action


class PickFromAbove(_FromAbove):
    """Pick from an open surface or a drawer."""

    name: SkillName = "pick"

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`ReachLaw.reset`."""
        super().reset(sim, env_id, call, seed)
        half = self.point[2] - support_height(sim, env_id, self.point)
        self._half = float(np.clip(half, 0.01, 0.12))

    def law(self, view: RobotView, action: np.ndarray) -> None:
        """See :meth:`ReachLaw.law`."""
        if view.held_object == self.object_index:
            self._leave(view, action)
            return
        far = self._come(view, action, self.point - [0.0, 0.0, _PRESS])
        # The cup meets the top of the object, which is so much above what it goes for.
        action[ACTION_GRIP] = 1.0 if far < _GRIP_WITHIN + _PRESS + self._half else -1.0


class PlaceFromAbove(_FromAbove):
    """Place on an open surface or in a drawer."""

    name: SkillName = "place"

    def law(self, view: RobotView, action: np.ndarray) -> None:
        """See :meth:`ReachLaw.law`."""
        if view.held_object != self.object_index:
            self._leave(view, action)
            return
        held = view.objects[self.object_index]
        hangs = held - view.tip  # it turns with the cup: what counts is how it hangs now
        far = self._come(view, action, self.point - hangs + [0.0, 0.0, _DROP])
        if far < _LET_GO and np.linalg.norm(held - self.point) < _NEAR_GOAL:
            action[:] = 0.0  # nothing moves while the object comes off
            action[ACTION_GRIP] = -1.0
