"""Observations by their names in habitat-lab, as functions of a :class:`~skills.tasks.state.View`.

All are float32 of shape (n, size). Pictures are not here: the engine renders them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from skills.tasks.scan import FAR_REACH, RAYS, REACH
from skills.tasks.state import NEIGHBOURS, RELIEF, View
from skills.tasks.tolerances import ARRIVED, AT_REST, FACING, JOINT_AT, RELEASED_AT
from tpsrl.geometry.arrays import Array, norm, to_base, to_frame, wrap, yaw_of
from tpsrl.robot import fetch

DEPTH, WAY = "head_depth", "way"
COLOUR = {"head_rgb": "head", "third_rgb": "third_person"}
"""Colour picture -> camera of the engine that takes it."""
PICTURES = (DEPTH, *COLOUR)


class Sensor(NamedTuple):
    """Attributes: ``size``, number of values; ``read``, the function of a view."""

    size: int
    read: Callable[[View], Array]


SENSORS: dict[str, Sensor] = {}
"""Name -> sensor (facts: docs/sensors.md)."""


def sensor(size: int, *aliases: str) -> Callable[[Callable[[View], Array]], Any]:
    """Make a function a sensor of its own name, and of further ones.

    Args:
        size: values it returns a world.
        aliases: other names.
    """

    def enter(read: Callable[[View], Array]) -> Callable[[View], Array]:
        for name in (read.__name__, *aliases):
            SENSORS[name] = Sensor(size, read)
        return read

    return enter


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
    return _fine(view, obj_start_sensor(view), RELEASED_AT)


@sensor(4)
def obj_goal_fine(view: View) -> Array:
    """``obj_goal_sensor`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return _fine(view, obj_goal_sensor(view), RELEASED_AT)


@sensor(4)
def marker_fine(view: View) -> Array:
    """``marker_rel_pos`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return _fine(view, marker_rel_pos(view), RELEASED_AT)


@sensor(4)
def resting_fine(view: View) -> Array:
    """``relative_resting_position`` by tanh: over 0.1 m, its length beyond 0.15 m over 0.05 m."""
    return _fine(view, relative_resting_position(view), AT_REST)


def _fine(view: View, sensed: Array, within: float) -> Array:
    xp = view.xp
    near = (norm(xp, sensed) - within) / 0.05
    return xp.tanh(xp.concat([sensed / 0.1, near[:, None]], axis=-1))


def _gap(view: View, way: Array) -> Array:
    xp = view.xp
    near = xp.tanh((norm(xp, way) - RELEASED_AT) / 0.05)
    return xp.concat([_finely(view, way), near[:, None]], axis=-1)


def _finely(view: View, way: Array) -> Array:
    """Return (n, 3): tanh of a vector of the world's, in the base frame, over 0.1 m."""
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    ahead, left = _turned(xp, yaw, way[:, 0], way[:, 1])
    return xp.tanh(xp.stack([ahead, left, way[:, 2]], axis=-1) / 0.1)


def _turned(xp: Any, yaw: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return how far a vector of the world's goes ahead and to the left of a base."""
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    return cos * x + sin * y, cos * y - sin * x


@sensor(3)
def target_size(view: View) -> Array:
    """Half the size of the target, m."""
    return view.goal.target_size


@sensor(4 * NEIGHBOURS)
def neighbours(view: View) -> Array:
    """Other objects near the point that the skill is about: where they are, and how large.

    From the end effector along the axes of the base, m, then the largest half of their sizes, m;
    zeros where there are fewer.
    """
    xp, state, goal = view.xp, view.state, view.goal
    pos = state.object_pos[goal.rows[:, None], goal.entries["neighbours"]]
    gap = pos - state.ee_pos[:, None]
    ahead, left = _turned(xp, state.base_pose[:, 2:], gap[..., 0], gap[..., 1])
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
    return xp.concat([_finely(view, way), xp.tanh(left / 0.05)[:, None]], axis=-1)


@sensor(RELIEF)
def relief(view: View) -> Array:
    """Furniture around the point that the skill is about, see :func:`skills.tasks.around.relief`.

    Its axes are those of the place (:func:`obj_start_place`, :func:`obj_goal_place`).
    """
    return view.goal.relief


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


@sensor(1)
def contact_force(view: View) -> Array:
    """Largest contact force on the robot: tanh of it over 200 N."""
    return view.xp.tanh(view.state.force / 200.0)[:, None]


@sensor(2)
def base_pace(view: View) -> Array:
    """How far the base came ahead and turned to the left in the last step.

    tanh of both, each over the longest motion of a step.
    """
    xp, pose, past = view.xp, view.state.base_pose, view.require_before()
    gone = pose[:, :2] - past[:, :2]
    ahead, _ = _turned(xp, past[:, 2], gone[:, 0], gone[:, 1])
    turned = wrap(xp, pose[:, 2] - past[:, 2]) / fetch.BASE_DELTA_ANGULAR
    return xp.tanh(xp.stack([ahead / fetch.BASE_DELTA_LINEAR, turned], axis=-1))


@sensor(1)
def elapsed(view: View) -> Array:
    """Steps since the skill began: tanh of them over 200.

    Where nothing moves, time does: a policy without memory needs no other reason to do otherwise.
    """
    steps = view.xp.astype(view.require_steps(), view.state.force.dtype)
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
    nearness = 1.0 - view.require_scan() / reach
    return view.xp.where(nearness > 0.0, nearness, 0.0)


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
    xp, course, yaw = view.xp, view.require_course(), view.state.base_pose[:, 2]
    turn = xp.atan2(course[:, 2], course[:, 1]) - yaw
    return xp.stack([course[:, 0], xp.cos(turn), xp.sin(turn)], axis=-1)


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
    past, looked = view.heading_from(view.require_before())
    nearer = (past - distance) / fetch.BASE_DELTA_LINEAR
    turned = wrap(xp, bearing - looked) / fetch.BASE_DELTA_ANGULAR
    return xp.tanh(xp.stack([nearer, turned], axis=-1))


@sensor(2)
def obj_start_gps_compass(view: View) -> Array:
    """Where the target lay when the skill began, as :func:`goal_to_agent_gps_compass`."""
    return _polar(view, view.goal.object_start)


@sensor(2)
def obj_goal_gps_compass(view: View) -> Array:
    """Where the target is wanted, as :func:`goal_to_agent_gps_compass`."""
    return _polar(view, view.goal.position)


@sensor(3)
def marker_rel_pos(view: View) -> Array:
    """Handle in the end effector's frame, m."""
    return to_frame(view.xp, view.state.ee_pos, view.state.ee_quat, view.marker_pos)


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
    return _finely(view, view.marker_pos - view.state.ee_pos)


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


@sensor(2)
def gps(view: View) -> Array:
    """Base position in the frame of the base at the start, m."""
    return to_base(view.xp, view.goal.start_pose, view.state.base_pose)[:, :2]


@sensor(1)
def compass(view: View) -> Array:
    """Base heading against the start, rad, left positive."""
    turn = view.state.base_pose[:, 2] - view.goal.start_pose[:, 2]
    return wrap(view.xp, turn)[:, None]


def _place(view: View, place: Array) -> Array:
    xp, yaw = view.xp, view.state.base_pose[:, 2]
    ahead, left = _turned(xp, yaw, place[:, 0], place[:, 1])
    return xp.concat([xp.stack([ahead, left], axis=-1), place[:, 2:]], axis=-1)


def _polar(view: View, point: Array) -> Array:
    xp, local = view.xp, to_base(view.xp, view.state.base_pose, point)
    bearing = xp.atan2(local[:, 1], local[:, 0])
    return xp.stack([norm(xp, local[:, :2]), -bearing], axis=-1)


def observe(view: View, sensors: Sequence[str]) -> dict[str, Array]:
    """Return the named observations, each (n, size) float32; pictures are left out."""
    xp, read = view.xp, [name for name in sensors if name not in PICTURES]
    return {name: xp.astype(SENSORS[name].read(view), xp.float32) for name in read}
