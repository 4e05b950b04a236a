"""Pick: stand before the object, touch it with the cup, lift it, bring it to rest."""

from __future__ import annotations

import numpy as np

from skills.motion.moves import Actions, GiveUpError, move, still
from skills.motion.paths import drive_to
from skills.motion.postures import rest_posture
from skills.motion.reach import Reach, plan_reach
from skills.motion.view import RobotView, look
from skills.programs.program import ScriptedSkill, Tried
from skills.programs.targets import enclosed, episode_target, pick_target
from skills.tasks.outlines import free_space
from skills.tasks.tolerances import AT_REST
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_ATTEMPTS = 3
_FAR_STEP, _NEAR_STEP = 0.012, 0.005
"""How far the cup moves a step on its way in: in free air and next to the object, m."""
_BEYOND = 0.06
"""How far the cup goes on beyond the planned contact, m."""
_SLOW_BEFORE = 0.05
"""The cup slows down this far before the planned contact, m."""
_GRIP_BEFORE = 0.08
"""The cup grips from this far before the planned contact on, so that it takes no neighbour, m."""
_DRIVE_EARLY = 8
"""The base starts this many steps before the raised arm has arrived."""


class Pick(ScriptedSkill):
    """Grasps ``call.target``'s object and holds it at rest."""

    name = "pick"

    def __init__(self) -> None:
        self._tried = Tried()

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        target = episode_target(sim, env_id, self.call)
        wanted = target.object_index
        banned = self._tried.at(sim, env_id, self.call)
        for _ in range(_ATTEMPTS):
            view = look(sim, env_id)
            if view.held_object == wanted:
                break
            tip = pick_target(sim, env_id, view, target)
            reach = plan_reach(sim, env_id, view, tip, banned=banned, ignore=wanted)
            if reach.touches > 1 and enclosed(sim, env_id, view.objects[wanted]):
                raise GiveUpError("approach blocked")
            banned.append(reach)
            yield from go_before(sim, env_id, reach)
            yield from move_in(sim, env_id, reach, grasp=True)
            got = look(sim, env_id).held_object
            yield from back_out(sim, env_id, reach, grip=1.0 if got == wanted else -1.0)
        view = look(sim, env_id)
        if view.held_object != wanted:
            raise GiveUpError("no grasp")
        banned.clear()
        yield from move(sim, env_id, arm=rest_posture(view.target))

    def missing(self, sim: Simulator, env_id: int) -> str:
        """See :meth:`ScriptedSkill.missing`."""
        view = look(sim, env_id)
        if view.held_object != episode_target(sim, env_id, self.call).object_index:
            return "object not held"
        return "arm not at rest" if view.rest_distance >= AT_REST else ""


def go_before(sim: Simulator, env_id: int, reach: Reach) -> Actions:
    """Drive to where the arm is raised, raise the arm, drive to where the approach begins."""
    navigation = free_space(sim, env_id)
    yield from drive_to(sim, env_id, navigation, reach.raise_at, near=0.05)
    early = _DRIVE_EARLY * ARM_DELTA
    yield from move(
        sim,
        env_id,
        arm=reach.pre,
        until=lambda view: bool(np.abs(view.target - reach.pre).max() < early),
    )
    yield from move(sim, env_id, arm=reach.pre, base=reach.pre_base, speed=0.6)


def move_in(sim: Simulator, env_id: int, reach: Reach, *, grasp: bool) -> Actions:
    """Move base and arm together along the approach.

    Args:
        sim: the simulator.
        env_id: its world.
        reach: the plan.
        grasp: grip, and end when anything is held; go on a little beyond the planned contact.
    """
    length = max(_tip_travel(reach), 1e-3)
    arm_most = ARM_DELTA / max(float(np.abs(reach.contact - reach.pre).max()), 1e-9)
    part, end = 0.0, 1.0 + (_BEYOND / length if grasp else 0.0)
    stalled = 0
    while part < end:
        view = look(sim, env_id)
        if grasp and view.held_object >= 0:
            return
        near = grasp and (1.0 - part) * length < _SLOW_BEFORE
        part = min(part + min((_NEAR_STEP if near else _FAR_STEP) / length, arm_most), end)
        base, arm = reach.at(part)
        stalled = stalled + 1 if np.abs(view.qpos - view.target).max() > 0.12 else 0
        if stalled > 5:
            return
        grip = 1.0 if not grasp or (1.0 - part) * length < _GRIP_BEFORE else -1.0
        yield _towards(view, base, arm, grip)
    for _ in range(6):
        view = look(sim, env_id)
        if grasp and view.held_object >= 0:
            return
        action = still(view)
        action[ACTION_GRIP] = 1.0
        yield action


def back_out(sim: Simulator, env_id: int, reach: Reach, grip: float) -> Actions:
    """Move back along the approach and on to where the arm was raised.

    The arm comes to rest on the way if that lifts the cup, so that nothing is swept off.
    """
    if look(sim, env_id).held_marker >= 0 or grip < 0:
        for _ in range(2):
            action = still(look(sim, env_id))
            action[ACTION_GRIP] = -1.0
            yield action
    view = look(sim, env_id)
    ahead = reach.base - reach.pre_base
    span = float(np.linalg.norm(ahead[:2]))
    gone = float(np.linalg.norm(view.base[:2] - reach.pre_base[:2]))
    steps = float(np.abs(view.target - reach.pre).max()) / ARM_DELTA
    speed = 1.0
    if span > 1e-3 and gone > 1e-3:
        speed = max(gone / max(steps, 1.0) / BASE_DELTA_LINEAR, 0.2)
    yield from move(
        sim,
        env_id,
        arm=reach.pre,
        base=reach.pre_base,
        speed=speed,
        grip=grip,
        reverse=True,
        insist=False,
    )
    rest = rest_posture(reach.pre)
    kinematics = arm_kinematics()
    rises = kinematics.forward(rest).pos[2] > kinematics.forward(reach.pre).pos[2] - 0.03
    yield from move(
        sim,
        env_id,
        arm=rest if rises else reach.pre,
        base=reach.raise_at,
        grip=grip,
        reverse=True,
        speed=0.6,
        insist=False,
    )


def _towards(view: RobotView, base: np.ndarray, arm: np.ndarray, grip: float) -> np.ndarray:
    """Return the action that brings arm targets and base (along its heading) to a pose."""
    action = np.zeros(10)
    action[ACTION_ARM] = (arm - view.target) / ARM_DELTA
    here = view.base
    heading = np.array([np.cos(here[2]), np.sin(here[2])])
    action[ACTION_BASE] = np.array([(base[:2] - here[:2]) @ heading / BASE_DELTA_LINEAR, 0.0])
    action[ACTION_GRIP] = grip
    return np.clip(action, -1.0, 1.0)


def _tip_travel(reach: Reach) -> float:
    """Return how far the cup moves from pre-contact to contact, m."""
    kinematics = arm_kinematics()
    gap = kinematics.forward(reach.contact).pos - kinematics.forward(reach.pre).pos
    gap[0] += float(np.linalg.norm(reach.base[:2] - reach.pre_base[:2]))
    return float(np.linalg.norm(gap))
