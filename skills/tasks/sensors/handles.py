"""Handle and joint of the drawer or door that is opened or closed."""

from __future__ import annotations

from skills.tasks.sensors.fine import fine, finely
from skills.tasks.sensors.registry import sensor
from skills.tasks.state import View
from skills.tasks.tolerances import JOINT_AT, RELEASED_AT
from tpsrl.geometry.arrays import Array, to_base, to_frame, yaw_of


@sensor(3)
def marker_rel_pos(view: View) -> Array:
    """Handle in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.marker_pos)


@sensor(4)
def marker_fine(view: View) -> Array:
    """``marker_rel_pos`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return fine(view, marker_rel_pos(view), RELEASED_AT)


@sensor(5)
def marker_pose(view: View) -> Array:
    """Handle in the base frame, m; cosine and sine of the direction in which its front faces."""
    xp, state = view.xp, view.state
    yaw = yaw_of(xp, view.goal.of(state.link_quat, "joint")) - state.base_pose[:, 2]
    where = to_base(xp, state.base_pose, view.marker_pos)
    return xp.concat([where, xp.stack([xp.cos(yaw), xp.sin(yaw)], axis=-1)], axis=-1)


@sensor(3)
def marker_gap(view: View) -> Array:
    """Way from the end effector to the handle, in the base frame: tanh of it over 0.1 m."""
    return finely(view, view.marker_pos - view.state.ee_pos)


@sensor(3)
def marker_start_pose(view: View) -> Array:
    """Where the handle was when the skill began, in the base frame, m."""
    return to_base(view.xp, view.state.base_pose, view.goal.position)


@sensor(1)
def marker_js(view: View) -> Array:
    """Position of the furniture joint, m or rad."""
    return view.joint_pos[:, None]


@sensor(1)
def marker_js_gap(view: View) -> Array:
    """How far the furniture joint is from its goal, finely where it is near.

    tanh of the distance over 0.05 m or rad, the contract's threshold: beside a range of two radians
    the last hundredths would not be seen.
    """
    return view.xp.tanh((view.joint_pos - view.goal.joint_goal) / JOINT_AT)[:, None]
