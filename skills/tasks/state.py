"""Batched state of a task: what is wanted (:class:`Goal`), and how an episode stands (`View`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from tpsrl.geometry.arrays import Array, norm, to_base, wrap
from tpsrl.robot import fetch
from tpsrl.sim.door import SimState

CAUSES = (
    "",
    "success",
    "time",
    "stop",
    "wrong_object",
    "dropped",
    "wrong_release",
    "wrong_grasp",
    "hold_violation",
    "force",
    "diverged",
)
"""Why an episode ended; outcomes hold the index."""
CAUSE = {name: index for index, name in enumerate(CAUSES)}
NEIGHBOURS = 3
"""Most other objects near the point that a skill is about."""
_WITHIN = 0.3
"""With less than this left of its way a base begins to stand within reach, m."""
RELIEF = 10
"""Numbers that say how the furniture around that point stands; see ``skills.tasks.around``."""

BEARINGS = 24
"""Directions in which it was looked how far the surface below that point reaches."""


class _once:  # noqa: N801
    """Property that is computed at the first use and then kept; without functools' lock."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, view: Any, owner: type | None = None) -> Any:
        value = view.__dict__[self.function.__name__] = self.function(view)
        return value


@dataclass(frozen=True)
class Goal:
    """What is wanted in each world; fixed during an episode. Unused fields are 0 or -1.

    A skill that is about several points in turn has the goal of one after the other; "when the
    skill began" is then when it went on to that point, but for ``object_start``, ``start_place``
    and ``start_pose``.

    Attributes:
        target: (n,) int64, index into the episode's objects.
        object_start: (n, 3) float64, where that object lay when the skill began.
        position: (n, 3) float64, where the object or the robot is wanted; for Open and Close where
            the handle was when the skill began.
        joint: (n,) int64, furniture joint.
        joint_goal: (n,) float64, its wanted position, m or rad.
        marker: (n,) int64, handle of that joint.
        start_pose: (n, 3) float64, x, y, yaw of the base when the skill began.
        scale: (n,) float64, what progress is measured against: the geodesic distance to the goal
            at the start (PointNav), to the farthest point (Flee), m; reachable cells (Explore).
        rest: (n, 3) float64, where the end effector rests, in the base frame.
        start_place: (n, 4) float64, what carried that object when the skill began: cosine and sine
            of the direction in which the furniture faces, in the world; 1 if it is a cabinet with
            a roof; 1 if it is a drawer.
        goal_place: (n, 4) float64, what will carry it at ``position``, likewise.
        container: (n,) int64, furniture joint of the drawer or cabinet which the skill reaches
            into; this and what follows only where a sensor shows it.
        target_size: (n, 3) float64, half the size of the target, m.
        neighbours: (n, ``NEIGHBOURS``) int64, other objects near the point that the skill is about.
        neighbour_size: (n, ``NEIGHBOURS``) float64, the largest half of their sizes, m.
        relief: (n, ``RELIEF``) float64, see :func:`skills.tasks.around.relief`.
        rim: (n, ``BEARINGS``) float64, see :func:`skills.tasks.around.rim`, m.
        door: (n, 5) float64, hinge and free edge on the floor of the open door that the skill
            reaches behind when it begins, m, and the heading of its link, rad; zeros where there
            is none, or no way is looked for.
        leg: (n,) int64, how many points a skill that is about several in turn is done with.
    """

    target: Array
    object_start: Array
    position: Array
    joint: Array
    joint_goal: Array
    marker: Array
    start_pose: Array
    scale: Array
    rest: Array
    start_place: Array
    goal_place: Array
    container: Array
    target_size: Array
    neighbours: Array
    neighbour_size: Array
    relief: Array
    rim: Array
    door: Array
    leg: Array

    @_once
    def rows(self) -> Array:
        """(n,) int64 0, 1, ... n - 1."""
        xp = array_namespace(self.target)
        return xp.arange(self.target.shape[0], device=device(self.target))

    @_once
    def entries(self) -> dict[str, Array]:
        """``target``, ``joint``, ... as indices that are never negative."""
        xp = array_namespace(self.target)
        names = ("target", "joint", "marker", "container", "neighbours")
        named = {name: getattr(self, name) for name in names}
        return {name: xp.where(index < 0, 0, index) for name, index in named.items()}

    def of(self, table: Array, name: str) -> Array:
        """Return row ``i``'s own entry of an (n, k, ...) table: that of its target, joint, ..."""
        return table[self.rows, self.entries[name]]


@dataclass(frozen=True)
class GoalRow:
    """The goal of one world, as start states are drawn; see :class:`Goal`.

    Attributes:
        fan: from where the goal can be reached, see :func:`skills.tasks.course.fan_of`; ``None``
            where no way to it is looked for.
        parts: (4, 2) outlines of drawers and doors that stood open when the skill began, around
            which that way leads.
    """

    target: int = -1
    object_start: np.ndarray = field(default_factory=lambda: np.zeros(3))
    position: np.ndarray = field(default_factory=lambda: np.zeros(3))
    joint: int = -1
    joint_goal: float = 0.0
    marker: int = -1
    start_pose: np.ndarray = field(default_factory=lambda: np.zeros(3))
    scale: float = 0.0
    rest: np.ndarray = field(default_factory=lambda: fetch.RESTING_POSITION)
    start_place: np.ndarray = field(default_factory=lambda: np.zeros(4))
    goal_place: np.ndarray = field(default_factory=lambda: np.zeros(4))
    container: int = -1
    target_size: np.ndarray = field(default_factory=lambda: np.zeros(3))
    neighbours: np.ndarray = field(default_factory=lambda: np.full(NEIGHBOURS, -1))
    neighbour_size: np.ndarray = field(default_factory=lambda: np.zeros(NEIGHBOURS))
    relief: np.ndarray = field(default_factory=lambda: np.zeros(RELIEF))
    rim: np.ndarray = field(default_factory=lambda: np.zeros(BEARINGS))
    door: np.ndarray = field(default_factory=lambda: np.zeros(5))
    leg: int = 0
    fan: np.ndarray | None = None
    parts: tuple[np.ndarray, ...] = ()


def goal_columns(rows: Sequence[GoalRow]) -> dict[str, np.ndarray]:
    """Return the goals of worlds, field by field."""
    names = [column.name for column in dataclasses.fields(Goal)]
    return {name: np.array([getattr(row, name) for row in rows]) for name in names}


def set_row(columns: Mapping[str, np.ndarray], index: int, row: GoalRow) -> None:
    """Write the goal of one world."""
    for name, values in columns.items():
        values[index] = getattr(row, name)


def goals_like(columns: Mapping[str, np.ndarray], like: Array) -> Goal:
    """Return goals as arrays of the same kind and on the same device as ``like``; copies."""
    xp, where = array_namespace(like), device(like)
    return Goal(**{k: xp.asarray(v.copy(), device=where) for k, v in columns.items()})


def stack_goals(rows: Sequence[GoalRow], like: Array) -> Goal:
    """Batch goals as arrays of the same kind and on the same device as ``like``."""
    return goals_like(goal_columns(rows), like)


@dataclass(frozen=True)
class Outcome:
    """What one step gave in each world.

    Attributes:
        reward: (n,) float64.
        success: (n,) bool.
        terminated: (n,) bool, the task ended.
        truncated: (n,) bool, time is up or the physics diverged.
        cause: (n,) int64, index into :data:`CAUSES`.
        metrics: name -> (n,) array.
    """

    reward: Array
    success: Array
    terminated: Array
    truncated: Array
    cause: Array
    metrics: dict[str, Array]


class View:
    """A state seen from a goal: derived quantities, each computed at most once.

    Args:
        state: of the simulator.
        goal: of the task.
        geodesic: (n,) geodesic distance of the tasks that need one, m.
        xp: array namespace of the state, found out if not given.
        scan: (n, ``scan.RAYS``) ranges, m, where a sensor of the task needs them.
        course: (n, 3) distance to go on a comfortable way, m, and the (2,) direction of that way
            in the world, for tasks that measure progress along it.
        before: (n, 3) pose of the base one step earlier, the present one right after a start, where
            a sensor of the task needs it.
        steps: (n,) steps since the skill began, where a sensor of the task needs them.
        told: (n, 3) what the hand's grip (below 0: let go), and how far the base was told to drive
            and to turn in the last step, in [-1, 1], where a sensor or the task's reward needs it.
        seen: (n, 3) like ``course``, on a map of what was seen since the skill began, where a
            sensor of the task needs it.
    """

    def __init__(
        self,
        state: SimState,
        goal: Goal,
        geodesic: Array | None = None,
        xp: Any = None,
        scan: Array | None = None,
        course: Array | None = None,
        before: Array | None = None,
        steps: Array | None = None,
        told: Array | None = None,
        seen: Array | None = None,
    ) -> None:
        self.state, self.goal, self.geodesic, self.scan = state, goal, geodesic, scan
        self.course, self.before, self.steps, self.told = course, before, steps, told
        self.seen = seen
        self.xp: Any = array_namespace(state.base_pose) if xp is None else xp

    def require(self, name: str) -> Array:
        """Return an argument that not every view is given: ``geodesic``, ``course``, ``scan``, ...

        Shapes and units are those of the class.

        Raises:
            ValueError: whoever made this view did not give it.
        """
        values: Array | None = getattr(self, name)
        if values is None:
            raise ValueError(f"this task, or a sensor of it, needs View(..., {name}=...); give it.")
        return values

    @_once
    def blocked(self) -> Array:
        """(n,) in [0, 1]: how much of what the base was told to drive in this step it did not."""
        told, done = self.require("told")[:, 1], self.driven[:, 0]
        return self.xp.clip(self.xp.abs(told) - self.xp.abs(done), 0.0, 1.0)

    @_once
    def sucks_in_vain(self) -> Array:
        """(n,) bool: an empty cup was told to suck ``HOLD_THRESHOLD`` and more from the object."""
        far = self.object_distance >= fetch.HOLD_THRESHOLD
        return (self.require("told")[:, 0] >= 0) & far & ~self.holds

    @_once
    def afar(self) -> Array:
        """(n,) in [0, 1]: what is left of the way to where the base stands within reach."""
        return self.beyond(self.require("course"))

    def beyond(self, course: Array) -> Array:
        """Return (n,) in [0, 1]: what :attr:`afar` would be with another (n, 3) course."""
        return self.xp.clip(course[:, 0] / _WITHIN, 0.0, 1.0)

    @_once
    def driven(self) -> Array:
        """(n, 2): how far the base drove ahead and turned left in this step, 1 at full speed."""
        xp, pose, past = self.xp, self.state.base_pose, self.require("before")
        gone = pose[:, :2] - past[:, :2]
        ahead = gone[:, 0] * xp.cos(past[:, 2]) + gone[:, 1] * xp.sin(past[:, 2])
        left = wrap(xp, pose[:, 2] - past[:, 2]) / fetch.BASE_DELTA_ANGULAR
        return xp.stack([ahead / fetch.BASE_DELTA_LINEAR, left], axis=-1)

    @_once
    def ee(self) -> Array:
        """(n, 3) end effector in the base frame."""
        return to_base(self.xp, self.state.base_pose, self.state.ee_pos)

    @_once
    def resting(self) -> Array:
        """(n, 3) resting position less end effector, base frame."""
        return self.goal.rest - self.ee

    @_once
    def rest_distance(self) -> Array:
        """(n,) end effector to its resting position."""
        return norm(self.xp, self.resting)

    @_once
    def object_pos(self) -> Array:
        """(n, 3) centre of the target object in the world."""
        return self.goal.of(self.state.object_pos, "target")

    @_once
    def object_distance(self) -> Array:
        """(n,) end effector to target object."""
        return norm(self.xp, self.object_pos - self.state.ee_pos)

    @_once
    def goal_distance(self) -> Array:
        """(n,) target object to where it is wanted."""
        return norm(self.xp, self.object_pos - self.goal.position)

    @_once
    def marker_pos(self) -> Array:
        """(n, 3) handle in the world."""
        return self.goal.of(self.state.marker_pos, "marker")

    @_once
    def marker_distance(self) -> Array:
        """(n,) end effector to handle."""
        return norm(self.xp, self.marker_pos - self.state.ee_pos)

    @_once
    def joint_pos(self) -> Array:
        """(n,) position of the furniture joint, m or rad."""
        return self.goal.of(self.state.joint_pos, "joint")

    @_once
    def heading(self) -> tuple[Array, Array]:
        """(n,) planar distance from base to goal position, and (n,) its bearing, left positive."""
        return self.heading_from(self.state.base_pose)

    def heading_from(self, pose: Array) -> tuple[Array, Array]:
        """Return what :meth:`heading` would be with the base at an (n, 3) pose."""
        local = to_base(self.xp, pose, self.goal.position)
        bearing = self.xp.atan2(local[:, 1], local[:, 0])
        return norm(self.xp, local[:, :2]), bearing

    @_once
    def holds(self) -> Array:
        """(n,) bool, an object or a handle is held."""
        return (self.state.held_object >= 0) | (self.state.held_marker >= 0)

    @_once
    def holds_target(self) -> Array:
        """(n,) bool, the target object is held."""
        return (self.state.held_object >= 0) & (self.state.held_object == self.goal.target)
