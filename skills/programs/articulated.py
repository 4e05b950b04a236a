"""Open and close drawers and the fridge: hold the handle and lead it along its path.

The cup holds a handle by a ball joint, so only its position matters: the arm keeps its height and
reach, the base drives along an arc, and the shoulder pan turns so that the cup stays on the
handle's path. Arc, heading and reach are searched for.
"""

from __future__ import annotations

import numpy as np

from skills.motion.moves import Actions, GiveUpError, move, still
from skills.motion.paths import drive_to
from skills.motion.postures import rest_posture
from skills.motion.view import RobotView, look
from skills.programs.handles import BACK, Lead, plan_lead
from skills.programs.program import ScriptedSkill
from skills.tasks.outlines import free_space, handle_index
from skills.tasks.tolerances import AT_REST, SURELY_CLOSED, SURELY_OPEN
from tpsrl.geometry.rotations import unit, wrap
from tpsrl.robot.fetch import ARM_DELTA, BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE, ACTION_GRIP, Simulator

_PRESS = 0.08
"""A closing motion is planned to go on this far beyond closed, m or rad."""
_SHUT = 0.012
"""A joint below this is shut and need not be pressed any more, m or rad."""
_BEYOND = 0.06
"""If the cup meets nothing where the handle should be, it goes on this far, m."""


class _Articulated(ScriptedSkill):
    """Leads a handle to a joint position, lets go and brings the arm to rest."""

    joint_default = ""
    opens = True
    kind = "drawer"

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        joint = self._joint(sim)
        if self.missing_motion(sim, env_id):
            view = look(sim, env_id)
            lead = plan_lead(sim, env_id, view, joint, self._goal(sim, joint))
            yield from drive_to(sim, env_id, free_space(sim, env_id), lead.standoff, near=0.05)
            yield from move(sim, env_id, arm=lead.pre)
            yield from move(sim, env_id, arm=lead.pre, base=lead.bases[0], speed=0.5)
            yield from self._touch(sim, env_id, lead, joint)
            yield from self._pull(sim, env_id, lead)
            yield from self._let_go(sim, env_id)
        yield from move(sim, env_id, arm=rest_posture(look(sim, env_id).target), grip=-1.0)

    def missing(self, sim: Simulator, env_id: int) -> str:
        """See :meth:`ScriptedSkill.missing`."""
        view = look(sim, env_id)
        if view.holding:
            return "handle not released"
        reason = self.missing_motion(sim, env_id)
        if reason:
            return reason
        return "arm not at rest" if view.rest_distance >= AT_REST else ""

    def missing_motion(self, sim: Simulator, env_id: int) -> str:
        """Say whether the joint still has to move, "" if not."""
        value = float(look(sim, env_id).joints[self._joint(sim)])
        if self.opens:
            return "" if value > SURELY_OPEN[self.kind] else "not open"
        return "" if value < SURELY_CLOSED else "not closed"

    def _joint(self, sim: Simulator) -> int:
        name = self.call.joint or self.joint_default
        if name not in sim.joint_names:
            raise GiveUpError(f"no furniture joint '{name}'")
        return sim.joint_names.index(name)

    def _goal(self, sim: Simulator, joint: int) -> float:
        if not self.opens:
            return -_PRESS
        upper = float(sim.joint_ranges[joint][1])
        return min(1.32, upper) if self.kind == "door" else 0.92 * upper

    def _touch(self, sim: Simulator, env_id: int, lead: Lead, joint: int) -> Actions:
        """Bring the cup to the handle until it holds."""
        wanted = handle_index(sim, joint)
        beyond = lead.posture + _push_ahead(lead.posture)
        for goal in (lead.posture, beyond):
            yield from move(
                sim,
                env_id,
                arm=goal,
                grip=1.0,
                until=lambda v: v.held_marker >= 0 or v.held_object >= 0,
            )
        held = look(sim, env_id).held_marker
        if held != wanted:
            raise GiveUpError("handle not grasped" if held < 0 else "wrong handle grasped")

    def _pull(self, sim: Simulator, env_id: int, lead: Lead) -> Actions:
        """Drive along the planned arc; the pan follows."""
        gaps = np.abs(np.diff(lead.bases[:, :2], axis=0)).max(axis=1) / 0.02
        turns = np.abs(np.diff(lead.pans)) / (0.8 * ARM_DELTA)
        moves = np.abs(np.diff(lead.bases[:, 2])) / (0.4 * BASE_DELTA_ANGULAR)
        time = np.concatenate([[0.0], np.cumsum(np.maximum.reduce([gaps, turns, moves]) + 0.2)])
        for k in range(1, int(np.ceil(time[-1])) + 1):
            view = look(sim, env_id)
            if view.held_marker < 0:
                raise GiveUpError("lost the handle")
            pose = np.array([np.interp(k, time, lead.bases[:, i]) for i in range(3)])
            arm = lead.posture.copy()
            arm[0] = np.interp(k, time, lead.pans)
            yield _track(view, pose, arm)
            if not self.opens and look(sim, env_id).joints[self._joint(sim)] < _SHUT:
                break

    def _let_go(self, sim: Simulator, env_id: int) -> Actions:
        """Release and back away from what sticks out."""
        for _ in range(2):
            action = still(look(sim, env_id))
            action[ACTION_GRIP] = -1.0
            yield action
        view = look(sim, env_id)
        navigation = sim.scene(env_id).navigation
        for back in (BACK, 0.15, 0.08):
            pose = view.base - back * np.append(unit(view.base[2]), 0.0)
            if np.linalg.norm(navigation.clamp_motion(view.base[:2], pose[:2]) - pose[:2]) < 1e-6:
                yield from move(sim, env_id, base=pose, reverse=True, speed=0.4, grip=-1.0)
                return


def _push_ahead(posture: np.ndarray) -> np.ndarray:
    """Return the (7,) change of a posture that moves the cup straight ahead, at its height."""
    kinematics = arm_kinematics()
    tip = kinematics.forward(posture)
    ahead = tip.pos + _BEYOND * np.append(unit(float(posture[0])), 0.0)
    goal = posture
    for _ in range(20):
        goal = kinematics.step(goal, ahead, tip.approach, max_delta=0.05)
    return goal - posture


def _track(view: RobotView, pose: np.ndarray, arm: np.ndarray) -> np.ndarray:
    """Return the action that follows a base pose and posture while holding on."""
    action = np.zeros(10)
    action[ACTION_ARM] = (arm - view.target) / ARM_DELTA
    along = float((pose[:2] - view.base[:2]) @ unit(view.base[2]))
    action[ACTION_BASE] = np.array(
        [along / BASE_DELTA_LINEAR, wrap(pose[2] - view.base[2]) / BASE_DELTA_ANGULAR]
    )
    action[ACTION_GRIP] = 1.0
    return np.clip(action, -1.0, 1.0)


class OpenCab(_Articulated):
    """Opens a drawer of the kitchen counter."""

    name = "open_cab"
    joint_default = "kitchen_counter/drawer3"


class CloseCab(_Articulated):
    """Closes a drawer of the kitchen counter."""

    name = "close_cab"
    joint_default = "kitchen_counter/drawer3"
    opens = False


class OpenFridge(_Articulated):
    """Opens the fridge's upper door."""

    name = "open_fridge"
    joint_default = "fridge/top_door"
    kind = "door"


class CloseFridge(_Articulated):
    """Closes the fridge's upper door."""

    name = "close_fridge"
    joint_default = "fridge/top_door"
    opens = False
    kind = "door"
