"""What a robot senses of itself, of what touches it and of the furniture around its base."""

from __future__ import annotations

from skills.tasks.scan import FAR_REACH, RAYS, REACH
from skills.tasks.sensors.fine import fine
from skills.tasks.sensors.registry import sensor
from skills.tasks.state import View
from skills.tasks.tolerances import AT_REST
from tpsrl.geometry.arrays import Array, to_base, wrap


@sensor(7)
def joint(view: View) -> Array:
    """Arm joint positions, rad."""
    return view.state.arm_qpos


@sensor(1)
def is_holding(view: View) -> Array:
    """1 where an object or a handle is held."""
    return view.holds[:, None]


@sensor(7)
def arm_strain(view: View) -> Array:
    """How far the arm's motors pull: targets less positions of its joints, tanh over 0.1 rad.

    A target goes on moving while something holds the arm, and has to come back before the arm does.
    """
    return view.xp.tanh((view.state.arm_target - view.state.arm_qpos) / 0.1)


@sensor(3)
def ee_pos(view: View) -> Array:
    """End effector in the base frame, m."""
    return view.ee


@sensor(3)
def relative_resting_position(view: View) -> Array:
    """Resting position less end effector, base frame, m."""
    return view.resting


@sensor(4)
def resting_fine(view: View) -> Array:
    """``relative_resting_position`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return fine(view, relative_resting_position(view), AT_REST)


@sensor(1)
def contact_force(view: View) -> Array:
    """Largest contact force on the robot: tanh of it over 200 N."""
    return view.xp.tanh(view.state.force / 200.0)[:, None]


@sensor(2)
def base_pace(view: View) -> Array:
    """How far the base came ahead and turned to the left in the last step.

    tanh of both, each over the longest motion of a step.
    """
    return view.xp.tanh(view.driven)


@sensor(2)
def base_strain(view: View) -> Array:
    """What the base was told to drive ahead and to turn in the last step, less what it did.

    In lengths of the longest motion: a base at the edge of free space stands still, and whoever
    does not know what it was told cannot tell that from one that waits.
    """
    return view.xp.clip(view.require("told")[:, 1:] - view.driven, -1.0, 1.0)


@sensor(1)
def elapsed(view: View) -> Array:
    """Steps since the skill began: tanh of them over 200.

    Where nothing moves, time does: a policy without memory needs no other reason to do otherwise.
    """
    steps = view.xp.astype(view.require("steps"), view.state.force.dtype)
    return view.xp.tanh(steps / 200.0)[:, None]


@sensor(RAYS)
def base_scan(view: View) -> Array:
    """Ranges to the furniture around the base, see :func:`skills.tasks.scan.base_scan`.

    Nearness from 0, nothing within reach, to 1: what is near matters.
    """
    return _nearness(view, REACH)


@sensor(RAYS)
def base_scan_far(view: View) -> Array:
    """The same ranges up to 6 m, where :func:`base_scan` ends at 2 m, as nearness."""
    return _nearness(view, FAR_REACH)


def _nearness(view: View, reach: float) -> Array:
    nearness = 1.0 - view.require("scan") / reach
    return view.xp.where(nearness > 0.0, nearness, 0.0)


@sensor(2)
def gps(view: View) -> Array:
    """Base position in the frame of the base at the start, m."""
    return to_base(view.xp, view.goal.start_pose, view.state.base_pose)[:, :2]


@sensor(1)
def compass(view: View) -> Array:
    """Base heading against the start, rad, left positive."""
    turn = view.state.base_pose[:, 2] - view.goal.start_pose[:, 2]
    return wrap(view.xp, turn)[:, None]
