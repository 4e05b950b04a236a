"""Open and Close as they are shown to a learner: control laws instead of plans.

The scripted skills of the chain search for a plan, which a policy cannot see. Here the action is a
function of where the robot, the handle and the joint are at that moment, so that a policy without
memory can imitate it, and it can say at every step what it would do where a learner has got to.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.motion.moves import GiveUpError, arm_action, drive_action
from skills.motion.postures import rest_posture
from skills.motion.view import RobotView, look
from skills.tasks.outlines import handle_index
from skills.tasks.places import link_pose
from tpsrl.geometry.rotations import turn, unit, wrap
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_DIM, ACTION_GRIP, Simulator

_REST_REACHED = 0.13
_MOST_PAN = 0.9
_GATE, _GATE_STEPS = 0.15, 12.0
"""The base stays this far off, m, until the arm needs no more than so many steps."""
_GRIP_WITHIN, _GRIP_STEPS, _ALIGNED = 0.10, 8.0, 0.2
"""The cup is on this near to the handle, m, with so few steps of the arm left, and turned, rad."""
_PRESS = 0.06
"""The base goes on this far where the cup should have met something, m."""
_CLOSE, _STEER, _ASKEW = 0.2, 2.0, 0.6
"""Farther off than this, m, the base steers to where the target is ahead, rad per m; turned by more
than that, rad, it leaves the arm as it is, which may be caught by what stands beside."""
_RETREAT = 0.2
_TOO_NEAR, _STANDS = 0.35, (1.05, 0.95, 0.85)
"""A base so much too near to a handle, m, drives round to one of these distances from it."""
_ARRIVED = 0.05
"""A base this near to a place before a door stands there, m."""
_BENT = 0.08
"""A joint this far from its target is held up by something, rad."""
_SHUT = 0.03
"""A joint below this is shut, m or rad."""


class Scene:
    """The handle and its joint as seen from the robot.

    Attributes:
        view: the robot.
        q: joint position, m or rad.
        front: (2,) direction in which the front faces.
        handle: (3,) m.
        hinge: (2,) of a door.
        navigation: free space of the closed furniture.
    """

    def __init__(self, sim: Simulator, env_id: int, joint: int) -> None:
        self.view: RobotView = look(sim, env_id)
        pos, rotation = link_pose(sim, env_id, joint)
        self.q = float(self.view.joints[joint])
        self.front = rotation[:2, 0]
        self.handle = self.view.markers[handle_index(sim, joint)]
        self.hinge = pos[:2]
        self.navigation = sim.scene(env_id).navigation


class Stance:
    """Where the base is against a heading and a target, and the posture that reaches the target.

    Args:
        view: the robot.
        target: (3,) where the cup is wanted, m.
        heading: of the base, rad.
        radius, pitch: of the posture, see :meth:`ArmKinematics.planar`.
    """

    def __init__(
        self, view: RobotView, target: np.ndarray, heading: float, radius: float, pitch: float
    ) -> None:
        kinematics = arm_kinematics()
        gap = target[:2] - view.base[:2]
        ahead, left = float(gap @ unit(heading)), float(gap @ unit(heading + np.pi / 2))
        pan = float(np.clip(np.arcsin(np.clip(left / radius, -1.0, 1.0)), -_MOST_PAN, _MOST_PAN))
        posture = kinematics.planar(pan, radius, float(target[2]), pitch)
        if posture is None:
            raise GiveUpError("handle out of reach")
        self.posture: np.ndarray = posture
        self.left = left
        self.turn = wrap(heading - view.base[2])
        self.go = ahead - float(kinematics.pan_axis[0]) - radius * np.cos(pan)
        self.steps = float(np.abs(posture - view.target).max()) / ARM_DELTA


class _Law(Skill):
    """Skill whose action depends on the present state alone."""

    privileged = True
    joint_default = ""
    radius, pitch = 0.8, np.radians(75.0)
    wide, side, retreat = 0.4, 0.0, 0.5
    drawn_radius, drawn_pitch = 0.62, np.radians(85.0)

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        name = call.joint or self.joint_default
        if name not in sim.joint_names:
            raise ValueError(f"no furniture joint '{name}'.")
        self._joint = sim.joint_names.index(name)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        scene = Scene(sim, env_id, self._joint)
        action = np.zeros(ACTION_DIM)
        action[ACTION_GRIP] = -1.0
        if scene.view.held_object >= 0:
            return action
        self.law(scene, action)
        return np.clip(action, -1.0, 1.0)

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        scene = Scene(sim, env_id, self._joint)
        view = scene.view
        rested = view.rest_distance < _REST_REACHED and not view.holding
        return SkillStatus(done=rested and self.there(scene))

    @abstractmethod
    def law(self, scene: Scene, action: np.ndarray) -> None:
        """Fill in the (10,) action."""

    @abstractmethod
    def there(self, scene: Scene) -> bool:
        """Return whether the joint is where it is wanted."""

    def stance(
        self, scene: Scene, target: np.ndarray, heading: float, drawn: float = 0.0
    ) -> Stance:
        """Return how the robot stands to a cup position, the arm drawn in by a part of its way."""
        radius = self.radius + drawn * (self.drawn_radius - self.radius)
        pitch = self.pitch + drawn * (self.drawn_pitch - self.pitch)
        return Stance(scene.view, target, heading, radius, pitch)

    def rest(self, scene: Scene, action: np.ndarray) -> None:
        """Bring the arm to rest."""
        work = arm_kinematics().planar(0.0, self.radius, float(scene.handle[2]), self.pitch)
        assert work is not None
        action[ACTION_ARM] = arm_action(scene.view, rest_posture(work))


def _come(
    scene: Scene,
    stance: Stance,
    action: np.ndarray,
    speed: float,
    press: float,
    careful: bool,
    gate: float = _GATE,
    side: float = 0.0,
) -> None:
    """Come to where the cup meets its target, the arm first."""
    near = stance.go < _CLOSE
    steer = np.clip(_STEER * (stance.left - side), -0.5, 0.5) * np.clip(
        stance.go / _CLOSE - 0.5, 0.0, 1.0
    )
    error = stance.turn + steer
    if near or abs(error) < _ASKEW:
        action[ACTION_ARM] = arm_action(scene.view, stance.posture)
    off = gate * min(stance.steps / _GATE_STEPS, 1.0)
    ahead = (stance.go - off + press * (off < 0.02)) / BASE_DELTA_LINEAR
    ahead = np.clip(ahead, -0.6, speed if near else 1.0) * (abs(error) < _ALIGNED)
    if careful and near and np.abs(scene.view.qpos - scene.view.target).max() > _BENT:
        ahead = -0.5
    action[ACTION_BASE] = ahead, error / BASE_DELTA_ANGULAR


def _round(
    scene: Scene,
    stance: Stance,
    heading: float,
    wide: float,
    action: np.ndarray,
    side: float = 0.0,
) -> bool:
    """Drive to a place before the front if the handle is too far to the side or too near."""
    if abs(stance.left - side) < wide and stance.go > -_TOO_NEAR:
        return False
    action[ACTION_ARM] = arm_action(scene.view, stance.posture)
    aside = scene.handle[:2] - side * unit(heading + np.pi / 2)
    places = [aside - off * unit(heading) for off in _STANDS]
    free = [place for place in places if scene.navigation.is_navigable(place)]
    pose = np.append((free or places)[0], heading)
    action[ACTION_BASE] = drive_action(scene.view.base, pose)
    return True


def _at_handle(scene: Scene, stance: Stance) -> bool:
    near = float(np.linalg.norm(scene.view.tip - scene.handle)) < _GRIP_WITHIN
    return near and stance.steps < _GRIP_STEPS and abs(stance.turn) < _ALIGNED


def _hold_arm(scene: Scene, posture: np.ndarray) -> np.ndarray:
    return np.clip((posture - scene.view.target) / ARM_DELTA, -1.0, 1.0)


def _grasp_or_leave(
    law: TeachOpenCab | TeachOpenFridge,
    scene: Scene,
    stance: Stance,
    heading: float,
    action: np.ndarray,
) -> None:
    """Come to the handle and take it; once it is where it belongs, leave."""
    if law.there(scene):
        _leave(law, scene, stance, action)
    elif not _round(scene, stance, heading, law.wide, action, law.side):
        _come(scene, stance, action, law.speed, _PRESS, careful=True, side=law.side)
        action[ACTION_GRIP] = 1.0 if _at_handle(scene, stance) else -1.0


class TeachOpenCab(_Law):
    """Opens a drawer: the cup to the handle, straight back, let go, rest."""

    name = "open_cab"
    joint_default = "kitchen_counter/drawer3"
    speed, pull, stride = 0.3, 0.35, 0.06
    goal, enough = 0.46, 0.412

    def there(self, scene: Scene) -> bool:
        """See :meth:`_Law.there`."""
        return scene.q > 0.403

    def law(self, scene: Scene, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        heading = float(np.arctan2(-scene.front[1], -scene.front[0]))
        drawn = float(np.clip(scene.q / self.goal, 0.0, 1.0))
        stance = self.stance(scene, scene.handle, heading, drawn)
        if scene.view.held_marker >= 0:
            ahead = min(drawn + self.stride, 1.05)
            pulled = self.stance(scene, scene.handle, heading, min(ahead, 1.0))
            action[ACTION_GRIP] = 1.0 if scene.q < self.enough else -1.0
            action[ACTION_ARM] = _hold_arm(scene, pulled.posture)
            back = (pulled.go - (ahead - drawn) * self.goal) / BASE_DELTA_LINEAR
            action[ACTION_BASE] = (
                np.clip(back, -self.pull, self.pull),
                0.3 * stance.turn / BASE_DELTA_ANGULAR,
            )
        else:
            _grasp_or_leave(self, scene, stance, heading, action)


class TeachCloseCab(_Law):
    """Closes a drawer: the cup against the handle, straight ahead, back, rest."""

    name = "close_cab"
    joint_default = "kitchen_counter/drawer3"
    radius, pitch = 0.75, np.radians(76.0)
    speed, below, gate, retreat = 0.25, 0.05, 0.08, 0.3

    def there(self, scene: Scene) -> bool:
        """See :meth:`_Law.there`."""
        return abs(scene.q) < _SHUT

    def law(self, scene: Scene, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        heading = float(np.arctan2(-scene.front[1], -scene.front[0]))
        stance = self.stance(scene, scene.handle - [0.0, 0.0, self.below], heading)
        if self.there(scene):
            _leave(self, scene, stance, action)
        elif not _round(scene, stance, heading, self.wide, action):
            _come(scene, stance, action, self.speed, _PRESS, careful=False, gate=self.gate)


class TeachOpenFridge(_Law):
    """Opens a door: back along the chord of the handle's arc, the shoulder pan follows the rest."""

    name = "open_fridge"
    joint_default = "fridge/top_door"
    radius, wide, side = 0.7, 0.25, -0.3
    drawn_radius, drawn_pitch = 0.64, np.radians(80.0)
    speed, pull, stride = 0.3, 0.5, 0.1
    goal, enough, bend, turning = 1.42, 1.2, 0.9, 0.5

    def there(self, scene: Scene) -> bool:
        """See :meth:`_Law.there`."""
        return scene.q > 1.175

    def law(self, scene: Scene, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        shut = float(np.arctan2(-scene.front[1], -scene.front[0])) - scene.q
        heading = wrap(shut + self.bend + self.turning * max(scene.q, 0.0))
        drawn = float(np.clip(scene.q / self.goal, 0.0, 1.0))
        stance = self.stance(scene, scene.handle, heading, drawn)
        if scene.view.held_marker >= 0:
            action[ACTION_GRIP] = 1.0 if scene.q < self.enough else -1.0
            stride = float(np.clip(0.5 * (self.goal - scene.q), 0.0, self.stride))
            arm = scene.handle[:2] - scene.hinge
            point = np.append(scene.hinge + turn(stride) @ arm, scene.handle[2])
            led = self.stance(scene, point, heading, drawn)
            action[ACTION_ARM] = _hold_arm(scene, led.posture)
            back = np.clip(led.go / BASE_DELTA_LINEAR, -self.pull, self.pull)
            action[ACTION_BASE] = back, led.turn / BASE_DELTA_ANGULAR
        else:
            _grasp_or_leave(self, scene, stance, heading, action)


class TeachCloseFridge(_Law):
    """Closes a door: round its edge, the cup to its outside, push.

    Points are given in the door's frame: along it from the hinge, and out of its front, m.
    """

    name = "close_fridge"
    joint_default = "fridge/top_door"
    radius = 0.7
    stands = ((1.45, 0.3), (1.3, 0.3), (1.3, 0.45), (1.2, 0.2), (1.3, 0.0), (1.35, -0.15))
    along, step = 0.6, 0.035
    touch, wrong_way, wide_open = (0.55, 0.15), 2.4, 1.6

    def there(self, scene: Scene) -> bool:
        """See :meth:`_Law.there`."""
        return abs(scene.q) < _SHUT

    def law(self, scene: Scene, action: np.ndarray) -> None:
        """See :meth:`_Law.law`."""
        view = scene.view
        axes = np.array([[scene.front[1], -scene.front[0]], scene.front])
        cup, base = axes @ (view.tip[:2] - scene.hinge), axes @ (view.base[:2] - scene.hinge)
        facing = axes @ unit(view.base[2])
        if self.there(scene):
            self.rest(scene, action)
            action[ACTION_BASE] = -0.4 * (np.linalg.norm(view.tip - scene.handle) < 0.4), 0.0
            return
        ahead = facing[0] < -0.5 or (facing[1] < -0.2 and base[1] > 0.0)
        aside = axes @ (scene.hinge + np.array(self.touch) @ axes - view.base[:2])
        aimed = base[1] > -0.3 and float(facing @ aside) > 0.97 * float(np.linalg.norm(aside))
        pushes = ahead and cup[1] > 0.04 and cup[0] < 1.05
        if pushes or aimed:
            posture = arm_kinematics().planar(0.0, self.radius, float(scene.handle[2]), self.pitch)
            assert posture is not None
            action[ACTION_ARM] = arm_action(view, posture)
        else:  # a stretched arm is caught by walls and by the door on the way round
            self.rest(scene, action)
        if pushes:
            wish = np.array([np.clip(self.along - cup[0], -0.03, 0.03), -self.step])
            action[ACTION_BASE] = _move_cup(view, wish @ axes)
        else:
            self._go_round(scene, axes, facing, action)

    def _go_round(
        self, scene: Scene, axes: np.ndarray, facing: np.ndarray, action: np.ndarray
    ) -> None:
        """Drive past the door's edge and turn to its outside.

        The turn is over the side that the robot came from: on the other one walls are near.
        """
        stand = self._stand(scene, axes)
        place = scene.hinge + stand @ axes
        aside = np.array(self.touch) - stand
        heading = float(np.arctan2(*(aside @ axes)[::-1]))
        pose, back = np.append(place, heading), True if scene.q > self.wide_open else None
        action[ACTION_BASE] = drive_action(scene.view.base, pose, reverse=back)
        if np.linalg.norm(scene.view.base[:2] - place) < _ARRIVED:
            angle = float(np.arctan2(facing[1], facing[0]))
            left = wrap(float(np.arctan2(aside[1], aside[0])) - angle)
            if 0.0 < angle < self.wrong_way or (angle <= 0.0 and left > 0.3):
                left = -1.0
            action[ACTION_BASE] = 0.0, left / BASE_DELTA_ANGULAR

    def _stand(self, scene: Scene, axes: np.ndarray) -> np.ndarray:
        for place in self.stands:
            if scene.navigation.is_navigable(scene.hinge + np.array(place) @ axes):
                return np.array(place)
        return np.array(self.stands[0])


def _move_cup(view: RobotView, wish: np.ndarray) -> np.ndarray:
    """Return the (2,) base action that moves the cup by a (2,) step in the world, the arm fixed."""
    local = turn(-view.base[2]) @ wish
    at = turn(-view.base[2]) @ (view.tip[:2] - view.base[:2])
    spin = local[1] / max(float(at[0]), 0.3)
    ahead = local[0] + spin * at[1]
    both = np.array([ahead / BASE_DELTA_LINEAR, spin / BASE_DELTA_ANGULAR])
    return both / max(float(np.abs(both).max()), 1.0)


def _leave(law: _Law, scene: Scene, stance: Stance, action: np.ndarray) -> None:
    """Back away from what stands open, then bring the arm to rest."""
    law.rest(scene, action)
    action[ACTION_BASE] = (
        np.clip((stance.go - _RETREAT) / BASE_DELTA_LINEAR, -law.retreat, 0.0),
        0.0,
    )


LAWS: dict[SkillName, type[Skill]] = {
    "open_cab": TeachOpenCab,
    "close_cab": TeachCloseCab,
    "open_fridge": TeachOpenFridge,
    "close_fridge": TeachCloseFridge,
}
