"""Where the base is to go: the goal of Navigate, and the way to it or to within reach."""

from __future__ import annotations

from skills.tasks.sensors.registry import sensor
from skills.tasks.state import View
from skills.tasks.tolerances import ARRIVED, FACING
from tpsrl.geometry.arrays import Array, wrap
from tpsrl.robot import fetch


@sensor(2, "pointgoal_with_gps_compass")
def goal_to_agent_gps_compass(view: View) -> Array:
    """Goal in the base frame: distance, m, and bearing, rad, right positive."""
    distance, bearing = view.heading
    return view.xp.stack([distance, -bearing], axis=-1)


@sensor(3)
def way(view: View) -> Array:
    """How far it is to the goal on a way that keeps clear of furniture, m, and where that way goes.

    Cosine and sine of its direction in the base frame; a map of the apartment knows it.
    """
    return _ahead(view, view.require("course"))


@sensor(3)
def way_gap(view: View) -> Array:
    """How far the base is from standing within reach, and where the way there goes.

    What is left of the way over 0.3 m, at most 1, then that times cosine and sine of the way's
    direction in the base frame: where the base stands within reach, no direction is left.
    """
    course = view.require("course")
    return view.beyond(course)[:, None] * _ahead(view, course, 1.0)


@sensor(3)
def seen_way(view: View) -> Array:
    """``way`` as far as it is known: on a map of what the robot has seen since the skill began.

    The map follows from depth pictures, joints and how the base moved; where nothing was seen yet
    it is free (:class:`tpsrl.robot.occupancy.OccupancyGrid`).
    """
    return _ahead(view, view.require("seen"))


@sensor(3)
def seen_way_gap(view: View) -> Array:
    """``way_gap`` of :func:`seen_way`."""
    seen = view.require("seen")
    return view.beyond(seen)[:, None] * _ahead(view, seen, 1.0)


def _ahead(view: View, course: Array, length: float | None = None) -> Array:
    """Return (n, 3): a course's length, or another, cosine and sine of its way from the base."""
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    turn = xp.atan2(course[:, 2], course[:, 1]) - yaw
    far = course[:, 0] if length is None else xp.full_like(turn, length)
    return xp.stack([far, xp.cos(turn), xp.sin(turn)], axis=-1)


@sensor(2)
def goal_gap(view: View) -> Array:
    """How far the base is from where Navigate succeeds, finely where it is near.

    tanh of the distance beyond 1.5 m over 0.25 m, and of the bearing beyond 15 degrees over 0.1
    rad: beside a range of eight metres the last centimetres would not be seen.
    """
    xp, (distance, bearing) = view.xp, view.heading
    near, facing = (distance - ARRIVED) / 0.25, (xp.abs(bearing) - FACING) / 0.1
    return xp.tanh(xp.stack([near, facing], axis=-1))


@sensor(2)
def goal_pace(view: View) -> Array:
    """How the last step of the base changed distance and bearing of Navigate's goal.

    tanh of the metres that it came nearer and of the radians that its bearing turned to the left,
    each over the longest motion of a step. Both are 0 where the base stood still, whatever it was
    told to do: a camera does not show what stands under its nose.
    """
    xp, (distance, bearing) = view.xp, view.heading
    past, looked = view.heading_from(view.require("before"))
    nearer = (past - distance) / fetch.BASE_DELTA_LINEAR
    turned = wrap(xp, bearing - looked) / fetch.BASE_DELTA_ANGULAR
    return xp.tanh(xp.stack([nearer, turned], axis=-1))
