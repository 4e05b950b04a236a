"""Reset the arm, wait, navigate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skills.motion.moves import Actions, GiveUpError, move, still
from skills.motion.paths import drive_to
from skills.motion.reach import plan_reach
from skills.motion.view import look
from skills.programs.handles import plan_handle
from skills.programs.program import ScriptedSkill
from skills.programs.targets import episode_target, pick_target, place_goal, place_target
from skills.tasks.goals import front_point
from skills.tasks.outlines import free_space
from skills.tasks.tolerances import ARRIVED
from tpsrl.geometry.rotations import wrap
from tpsrl.robot.fetch import RESET_ARM_TARGET
from tpsrl.sim.door import Simulator


class ResetArm(ScriptedSkill):
    """Moves the arm to ``RESET_ARM_TARGET``; the base stands, what is held stays held."""

    name = "reset_arm"

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        yield from move(sim, env_id, arm=RESET_ARM_TARGET)


class Wait(ScriptedSkill):
    """Does nothing for ``call.steps`` steps."""

    name = "wait"

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        for _ in range(self.call.steps or 0):
            yield still(look(sim, env_id))


class Navigate(ScriptedSkill):
    """Drives to a pose from which the next manipulation works, facing what it is about.

    Any such pose will do (a region goal): the manipulation itself is planned and its standoff
    pose is driven to. Where that plan fails, it stops at a free point near the target.
    """

    name = "navigate"

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        navigation = free_space(sim, env_id)
        goal = self._goal_pose(sim, env_id)
        yield from drive_to(sim, env_id, navigation, goal)

    def missing(self, sim: Simulator, env_id: int) -> str:
        """See :meth:`ScriptedSkill.missing`."""
        gap = self._point(sim, env_id)[:2] - look(sim, env_id).base[:2]
        if np.hypot(*gap) >= ARRIVED:
            return "too far from the target"
        return ""

    def _goal_pose(self, sim: Simulator, env_id: int) -> np.ndarray:
        view = look(sim, env_id)
        # The arm is reset between skills, so the manipulation starts from there.
        low = (view.qpos, RESET_ARM_TARGET)
        view = replace(view, target=RESET_ARM_TARGET, qpos=RESET_ARM_TARGET)
        try:
            if self.call.place == "front":
                return self._near(sim, env_id)
            if self.call.place == "receptacle":
                return plan_handle(sim, env_id, view, self._joint(sim), low).standoff
            target = episode_target(sim, env_id, self.call)
            if view.held_object == target.object_index:
                goal = place_goal(sim, env_id, self.call)
                tip = place_target(sim, env_id, view, target, goal)
            elif self.call.place == "goal":
                return self._near(sim, env_id)
            else:
                tip = pick_target(sim, env_id, view, target)
            return plan_reach(
                sim,
                env_id,
                view,
                tip,
                drive_weight=0.2,
                crowd_weight=12.0,
                low=low,
                ignore=target.object_index,
            ).standoff
        except GiveUpError:
            return self._near(sim, env_id)

    def _near(self, sim: Simulator, env_id: int) -> np.ndarray:
        """Return the free pose nearest to one metre from the target, facing it.

        Raises:
            GiveUpError: no free point lies near the target.
        """
        navigation = free_space(sim, env_id)
        point = self._point(sim, env_id)[:2]
        field = navigation.distance_field(look(sim, env_id).base[None, :2])
        angles = np.arange(0.0, 2 * np.pi, np.pi / 18)
        radii = np.arange(0.5, 1.45, 0.1)
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        spots = (point + radii[:, None, None] * ring).reshape(-1, 2)
        usable = navigation.is_navigable(spots) & np.isfinite(field.distance(spots))
        if not usable.any():
            raise GiveUpError("no free place near the target")
        spots = spots[usable]
        off = np.abs(np.linalg.norm(spots - point, axis=1) - 1.0)
        best = spots[int(np.argmin(off + 0.05 * field.distance(spots)))]
        gap = point - best
        return np.append(best, wrap(float(np.arctan2(gap[1], gap[0]))))

    def _joint(self, sim: Simulator) -> int:
        if self.call.joint not in sim.joint_names:
            raise GiveUpError(f"no furniture joint '{self.call.joint}'")
        return sim.joint_names.index(self.call.joint)

    def _point(self, sim: Simulator, env_id: int) -> np.ndarray:
        """Return the (3,) point that the call is about."""
        view = look(sim, env_id)
        if self.call.place == "front":
            return front_point(sim, env_id, sim.joint_names[self._joint(sim)])
        if self.call.place == "receptacle":
            joint = self._joint(sim)
            if joint not in sim.marker_joints:
                raise GiveUpError(f"'{self.call.joint}' has no handle")
            return view.markers[sim.marker_joints.index(joint)]
        target = episode_target(sim, env_id, self.call)
        if self.call.place == "goal" or view.held_object == target.object_index:
            return place_goal(sim, env_id, self.call)
        return view.objects[target.object_index]
