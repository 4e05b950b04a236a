"""Where the object of Pick and Place is and is wanted, and what stands around that point."""

from __future__ import annotations

import math

from skills.tasks.sensors.fine import fine, finely, turned
from skills.tasks.sensors.registry import sensor
from skills.tasks.state import BEARINGS, NEIGHBOURS, RELIEF, View
from skills.tasks.tolerances import RELEASED_AT
from tpsrl.geometry.arrays import Array, norm, to_base, to_frame, to_world

_SIDES = 8
"""Directions in which :func:`rim` tells how far the surface reaches."""


@sensor(3)
def obj_start_sensor(view: View) -> Array:
    """Where the target lay when the skill began, in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.goal.object_start)


@sensor(3)
def obj_goal_sensor(view: View) -> Array:
    """Where the target is wanted, in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.goal.position)


@sensor(3)
def obj_start_in_base(view: View) -> Array:
    """Where the target lay when the skill began, in the base frame, m.

    It follows from ``obj_start_sensor`` and ``joint``; so no policy has to learn kinematics.
    """
    return to_base(view.xp, view.state.base_pose, view.goal.object_start)


@sensor(3)
def obj_goal_in_base(view: View) -> Array:
    """Where the target is wanted, in the base frame, m, see :func:`obj_start_in_base`."""
    return to_base(view.xp, view.state.base_pose, view.goal.position)


@sensor(2)
def obj_start_gps_compass(view: View) -> Array:
    """Where the target lay when the skill began, as :func:`goal_to_agent_gps_compass`."""
    return _polar(view, view.goal.object_start)


@sensor(2)
def obj_goal_gps_compass(view: View) -> Array:
    """Where the target is wanted, as :func:`goal_to_agent_gps_compass`."""
    return _polar(view, view.goal.position)


@sensor(4)
def obj_start_place(view: View) -> Array:
    """What carried the target when the skill began, as a plan and a map of the furniture know it.

    Cosine and sine of the direction in which that furniture faces, in the base frame; 1 if it is a
    cabinet with a roof (a fridge); 1 if it is a drawer.
    """
    return _place(view, view.goal.start_place)


@sensor(4)
def obj_goal_place(view: View) -> Array:
    """What will carry the target where it is wanted, see :func:`obj_start_place`."""
    return _place(view, view.goal.goal_place)


@sensor(3)
def obj_now_sensor(view: View) -> Array:
    """Where the target is, in the end effector's frame, m; the simulator knows."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.object_pos)


@sensor(4)
def obj_start_gap(view: View) -> Array:
    """How far the end effector is from the target, finely where it is near.

    tanh of the way from one to the other, in the base frame, over 0.1 m, and of the distance beyond
    0.15 m over 0.05 m.
    """
    return _gap(view, view.object_pos - view.state.ee_pos)


@sensor(4)
def obj_goal_gap(view: View) -> Array:
    """How far the target is from where it is wanted, see :func:`obj_start_gap`."""
    return _gap(view, view.goal.position - view.object_pos)


@sensor(4)
def obj_start_fine(view: View) -> Array:
    """``obj_start_sensor`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return fine(view, obj_start_sensor(view), RELEASED_AT)


@sensor(4)
def obj_goal_fine(view: View) -> Array:
    """``obj_goal_sensor`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return fine(view, obj_goal_sensor(view), RELEASED_AT)


@sensor(3)
def target_size(view: View) -> Array:
    """Half the size of the target, m."""
    return view.goal.target_size


@sensor(9)
def target_box(view: View) -> Array:
    """Half the target's length, width and height, each as a vector in the base frame, m.

    Who carries it knows from that how it hangs, and who lets it go, whether it will stand.
    """
    xp, state, size = view.xp, view.state, view.goal.target_size
    quat, rows = view.goal.of(state.object_quat, "target"), []
    for axis in range(3):
        along = [size[:, k] * (k == axis) for k in range(3)]
        way = to_world(xp, quat, xp.stack(along, axis=-1))
        ahead, left = turned(xp, state.base_pose[:, 2], way[:, 0], way[:, 1])
        rows += [ahead, left, way[:, 2]]
    return xp.stack(rows, axis=-1)


@sensor(4 * NEIGHBOURS)
def neighbours(view: View) -> Array:
    """Other objects near the point that the skill is about: where they are, and how large.

    From the end effector along the axes of the base, m, then the largest half of their sizes, m;
    zeros where there are fewer.
    """
    xp, state, goal = view.xp, view.state, view.goal
    pos = state.object_pos[goal.rows[:, None], goal.entries["neighbours"]]
    gap = pos - state.ee_pos[:, None]
    ahead, left = turned(xp, state.base_pose[:, 2:], gap[..., 0], gap[..., 1])
    known = (goal.neighbours >= 0)[..., None]
    rows = xp.stack([ahead, left, gap[..., 2]], axis=-1)
    rows = xp.concat([xp.where(known, rows, 0.0), goal.neighbour_size[..., None]], axis=-1)
    return xp.reshape(rows, (rows.shape[0], -1))


@sensor(4)
def neighbour_gap(view: View) -> Array:
    """How far the end effector is from the nearest of :func:`neighbours`, finely where it is near.

    tanh of the way to it along the axes of the base, over 0.1 m, and of the distance beyond its
    size over 0.05 m; (0, 0, 0, 1) where there is none.
    """
    xp, goal = view.xp, view.goal
    pos = view.state.object_pos[goal.rows[:, None], goal.entries["neighbours"]]
    ways = pos - view.state.ee_pos[:, None]
    beyond = xp.sqrt(xp.sum(ways * ways, axis=-1)) - goal.neighbour_size
    beyond = xp.where(goal.neighbours >= 0, beyond, float("inf"))
    nearest = xp.argmin(beyond, axis=1)
    left = beyond[goal.rows, nearest]
    known = left < float("inf")
    way = xp.where(known[:, None], ways[goal.rows, nearest], 0.0)
    return xp.concat([finely(view, way), xp.tanh(left / 0.05)[:, None]], axis=-1)


@sensor(RELIEF)
def relief(view: View) -> Array:
    """Furniture around the point that the skill is about, see :func:`skills.tasks.around.relief`.

    Its axes are those of the place (:func:`obj_start_place`, :func:`obj_goal_place`).
    """
    return view.goal.relief


@sensor(_SIDES)
def rim(view: View) -> Array:
    """How far the surface below the point that the skill is about reaches, m, at most 0.24 m.

    In eight directions, from that in which the base faces anticlockwise, see
    :func:`skills.tasks.around.rim`.
    """
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    first = xp.astype(xp.round(yaw * (BEARINGS / (2 * math.pi))), xp.int64)
    sides = [(first + k * (BEARINGS // _SIDES)) % BEARINGS for k in range(_SIDES)]
    return view.goal.rim[view.goal.rows[:, None], xp.stack(sides, axis=-1)]


@sensor(4)
def container(view: View) -> Array:
    """What the point lies in: position of its joint, m or rad, and its link in the base frame, m.

    Zeros where it lies in no drawer or cabinet.
    """
    xp, goal, state = view.xp, view.goal, view.state
    inside = (goal.container >= 0)[:, None]
    link = goal.of(state.link_pos, "container")
    where = to_base(xp, state.base_pose, link)
    row = xp.concat([goal.of(state.joint_pos, "container")[:, None], where], axis=-1)
    return xp.where(inside, row, 0.0)


def _gap(view: View, way: Array) -> Array:
    xp = view.xp
    near = xp.tanh((norm(xp, way) - RELEASED_AT) / 0.05)
    return xp.concat([finely(view, way), near[:, None]], axis=-1)


def _place(view: View, place: Array) -> Array:
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    ahead, left = turned(xp, yaw, place[:, 0], place[:, 1])
    return xp.concat([xp.stack([ahead, left], axis=-1), place[:, 2:]], axis=-1)


def _polar(view: View, point: Array) -> Array:
    xp, local = view.xp, to_base(view.xp, view.state.base_pose, point)
    bearing = xp.atan2(local[:, 1], local[:, 0])
    return xp.stack([norm(xp, local[:, :2]), -bearing], axis=-1)
