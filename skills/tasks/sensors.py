"""Observations by their names in habitat-lab, as functions of a :class:`~skills.tasks.state.View`.

All are float32 of shape (n, size). Depth is not here: the engine renders it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skills.tasks.scan import FAR_REACH, FAR_SCAN, RAYS, REACH, SCAN
from skills.tasks.state import View
from tpsrl.geometry.arrays import Array, norm, to_base, to_frame, wrap

DEPTH, MOTION = "head_depth", "base_motion"

SIZES = {
    "joint": 7,
    "is_holding": 1,
    "ee_pos": 3,
    "relative_resting_position": 3,
    "obj_start_sensor": 3,
    "obj_goal_sensor": 3,
    "goal_to_agent_gps_compass": 2,
    "goal_gap": 2,
    MOTION: 2,
    "obj_start_gps_compass": 2,
    "obj_goal_gps_compass": 2,
    "obj_start_in_base": 3,
    "obj_goal_in_base": 3,
    "obj_start_place": 4,
    "obj_goal_place": 4,
    SCAN: RAYS,
    FAR_SCAN: RAYS,
    "marker_rel_pos": 3,
    "marker_start_sensor": 3,
    "marker_pose": 5,
    "marker_start_pose": 3,
    "marker_js": 1,
    "marker_js_gap": 1,
    "pointgoal_with_gps_compass": 2,
    "gps": 2,
    "compass": 1,
}
"""Sensor -> number of values (facts: docs/skill_environments.md)."""


def joint(view: View) -> Array:
    """Arm joint positions, rad."""
    return view.state.arm_qpos


def is_holding(view: View) -> Array:
    """1 where an object or a handle is held."""
    return view.holds[:, None]


def ee_pos(view: View) -> Array:
    """End effector in the base frame, m."""
    return view.ee


def relative_resting_position(view: View) -> Array:
    """Resting position less end effector, base frame, m."""
    return view.resting


def obj_start_sensor(view: View) -> Array:
    """Where the target lay when the skill began, in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.goal.object_start)


def obj_goal_sensor(view: View) -> Array:
    """Where the target is wanted, in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.goal.position)


def obj_start_in_base(view: View) -> Array:
    """Where the target lay when the skill began, in the base frame, m.

    It follows from ``obj_start_sensor`` and ``joint``; so no policy has to learn kinematics.
    """
    return to_base(view.xp, view.state.base_pose, view.goal.object_start)


def obj_goal_in_base(view: View) -> Array:
    """Where the target is wanted, in the base frame, m, see :func:`obj_start_in_base`."""
    return to_base(view.xp, view.state.base_pose, view.goal.position)


def obj_start_place(view: View) -> Array:
    """What carried the target when the skill began, as a plan and a map of the furniture know it.

    Cosine and sine of the direction in which that furniture faces, in the base frame; 1 if it is a
    cabinet with a roof (a fridge); 1 if it is a drawer.
    """
    return _place(view, view.goal.start_place)


def obj_goal_place(view: View) -> Array:
    """What will carry the target where it is wanted, see :func:`obj_start_place`."""
    return _place(view, view.goal.goal_place)


def base_scan(view: View) -> Array:
    """Ranges to the furniture around the base, see :func:`skills.tasks.scan.base_scan`.

    Nearness from 0, nothing within reach, to 1: what is near matters.
    """
    return _nearness(view, REACH)


def base_scan_far(view: View) -> Array:
    """The same ranges up to 6 m, where :func:`base_scan` ends at 2 m, as nearness."""
    return _nearness(view, FAR_REACH)


def _nearness(view: View, reach: float) -> Array:
    nearness = 1.0 - view.require_scan() / reach
    return view.xp.where(nearness > 0.0, nearness, 0.0)


def goal_to_agent_gps_compass(view: View) -> Array:
    """Goal in the base frame: distance, m, and bearing, rad, right positive."""
    distance, bearing = view.heading
    return view.xp.stack([distance, -bearing], axis=-1)


def goal_gap(view: View) -> Array:
    """How far the base is from where Navigate succeeds, finely where it is near.

    tanh of the distance beyond 1.5 m over 0.25 m, and of the bearing beyond 15 degrees over 0.1
    rad: beside a range of eight metres the last centimetres would not be seen.
    """
    xp, (distance, bearing) = view.xp, view.heading
    near, facing = (distance - 1.5) / 0.25, (xp.abs(bearing) - 0.261799) / 0.1
    return xp.tanh(xp.stack([near, facing], axis=-1))


def base_motion(view: View) -> Array:
    """How the base moved in the last step, ahead and leftward, as a part of the largest motion."""
    return view.require_motion()


def obj_start_gps_compass(view: View) -> Array:
    """Where the target lay when the skill began, as :func:`goal_to_agent_gps_compass`."""
    return _polar(view, view.goal.object_start)


def obj_goal_gps_compass(view: View) -> Array:
    """Where the target is wanted, as :func:`goal_to_agent_gps_compass`."""
    return _polar(view, view.goal.position)


def marker_rel_pos(view: View) -> Array:
    """Handle in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.marker_pos)


def marker_start_sensor(view: View) -> Array:
    """Where the handle was when the skill began, in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.goal.position)


def marker_pose(view: View) -> Array:
    """Handle in the base frame, m; cosine and sine of the direction in which its front faces."""
    xp, state = view.xp, view.state
    w, x, y, z = (view.goal.of(state.link_quat, "joint")[:, i] for i in range(4))
    yaw = xp.atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)) - state.base_pose[:, 2]
    where = to_base(xp, state.base_pose, view.marker_pos)
    return xp.concat([where, xp.stack([xp.cos(yaw), xp.sin(yaw)], axis=-1)], axis=-1)


def marker_start_pose(view: View) -> Array:
    """Where the handle was when the skill began, in the base frame, m."""
    return to_base(view.xp, view.state.base_pose, view.goal.position)


def marker_js(view: View) -> Array:
    """Position of the furniture joint, m or rad."""
    return view.joint_pos[:, None]


def marker_js_gap(view: View) -> Array:
    """How far the furniture joint is from its goal, finely where it is near.

    tanh of the distance over 0.05 m or rad, the contract's threshold: beside a range of two radians
    the last hundredths would not be seen.
    """
    return view.xp.tanh((view.joint_pos - view.goal.joint_goal) / 0.05)[:, None]


def gps(view: View) -> Array:
    """Base position in the frame of the base at the start, m."""
    return to_base(view.xp, view.goal.start_pose, view.state.base_pose)[:, :2]


def compass(view: View) -> Array:
    """Base heading against the start, rad, left positive."""
    turn = view.state.base_pose[:, 2] - view.goal.start_pose[:, 2]
    return wrap(view.xp, turn)[:, None]


_SENSORS: dict[str, Callable[[View], Array]] = {
    "joint": joint,
    "is_holding": is_holding,
    "ee_pos": ee_pos,
    "relative_resting_position": relative_resting_position,
    "obj_start_sensor": obj_start_sensor,
    "obj_goal_sensor": obj_goal_sensor,
    "goal_to_agent_gps_compass": goal_to_agent_gps_compass,
    "goal_gap": goal_gap,
    MOTION: base_motion,
    "obj_start_gps_compass": obj_start_gps_compass,
    "obj_goal_gps_compass": obj_goal_gps_compass,
    "obj_start_in_base": obj_start_in_base,
    "obj_goal_in_base": obj_goal_in_base,
    "obj_start_place": obj_start_place,
    "obj_goal_place": obj_goal_place,
    SCAN: base_scan,
    FAR_SCAN: base_scan_far,
    "marker_rel_pos": marker_rel_pos,
    "marker_start_sensor": marker_start_sensor,
    "marker_pose": marker_pose,
    "marker_start_pose": marker_start_pose,
    "marker_js": marker_js,
    "marker_js_gap": marker_js_gap,
    "pointgoal_with_gps_compass": goal_to_agent_gps_compass,
    "gps": gps,
    "compass": compass,
}


def _place(view: View, place: Array) -> Array:
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    ahead = cos * place[:, 0] + sin * place[:, 1]
    left = cos * place[:, 1] - sin * place[:, 0]
    return xp.concat([xp.stack([ahead, left], axis=-1), place[:, 2:]], axis=-1)


def _polar(view: View, point: Array) -> Array:
    xp, local = view.xp, to_base(view.xp, view.state.base_pose, point)
    bearing = xp.atan2(local[:, 1], local[:, 0])
    return xp.stack([norm(xp, local[:, :2]), -bearing], axis=-1)


def observe(view: View, sensors: Sequence[str]) -> dict[str, Array]:
    """Return the named observations, each (n, size) float32; ``head_depth`` is left out."""
    xp = view.xp
    return {k: xp.astype(_SENSORS[k](view), xp.float32) for k in sensors if k != DEPTH}
