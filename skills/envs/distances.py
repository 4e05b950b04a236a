"""What ``View.geodesic`` and ``View.course`` are measured by: chosen once, from the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace, device

from skills.tasks.base import Task
from skills.tasks.course import Course
from skills.tasks.sensors import shows_course
from skills.tasks.state import GoalRow
from tpsrl.errors import UserError, nearest
from tpsrl.geometry.arrays import Array
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import DistanceField, SceneInfo


@dataclass(frozen=True)
class Distances:
    """Attributes: ``geodesic`` (n,) m and ``course`` (n, 3), as in ``View``; ``None`` for none."""

    geodesic: Array | None = None
    course: Array | None = None


class DistanceSource(ABC):
    """Distances of all worlds of a simulator."""

    @abstractmethod
    def begin(self, sim: Simulator, env_id: int, row: GoalRow) -> None:
        """Prepare a world in which an episode with this goal begins."""

    @abstractmethod
    def measure(self, pose: Array) -> Distances:
        """Return the distances from (n, 3) base poses, 0 in worlds that have not begun yet."""


class NoDistances(DistanceSource):
    """For tasks that need none."""

    def begin(self, sim: Simulator, env_id: int, row: GoalRow) -> None:
        """See :meth:`DistanceSource.begin`."""

    def measure(self, pose: Array) -> Distances:
        """See :meth:`DistanceSource.measure`."""
        return Distances()


class GeodesicDistances(DistanceSource):
    """Along the shortest way over free space.

    Args:
        num_envs: worlds.
        end: (3,) or (2,) point of an episode to which, or from which, is measured.
    """

    def __init__(self, num_envs: int, end: Callable[[GoalRow], np.ndarray]) -> None:
        self._end = end
        self._fields: list[DistanceField | None] = [None] * num_envs

    def begin(self, sim: Simulator, env_id: int, row: GoalRow) -> None:
        """See :meth:`DistanceSource.begin`."""
        scene: SceneInfo = sim.scene(env_id)
        self._fields[env_id] = scene.navigation.distance_field(self._end(row)[None, :2])

    def measure(self, pose: Array) -> Distances:
        """See :meth:`DistanceSource.measure`."""
        places = np.asarray(pose)[:, :2]
        values = [
            0.0 if field is None else field.from_within(np.asarray(place))
            for field, place in zip(self._fields, places, strict=True)
        ]
        return Distances(_like(values, pose))


class CourseDistances(DistanceSource):
    """Along a way to the goal that keeps clear of furniture.

    Args:
        task: knows the way.
        num_envs: worlds.
    """

    def __init__(self, task: Task, num_envs: int) -> None:
        self._task = task
        self._courses: list[Course | None] = [None] * num_envs

    def begin(self, sim: Simulator, env_id: int, row: GoalRow) -> None:
        """See :meth:`DistanceSource.begin`."""
        self._courses[env_id] = self._task.course(sim, env_id, row)

    def measure(self, pose: Array) -> Distances:
        """See :meth:`DistanceSource.measure`."""
        places = np.asarray(pose)[:, :2]
        rows = [
            np.zeros(3) if course is None else course.look(place)
            for course, place in zip(self._courses, places, strict=True)
        ]
        ahead = _like(rows, pose)
        return Distances(ahead[:, 0], ahead)


class CourseBeside(DistanceSource):
    """A course that is shown and not rewarded.

    Args:
        source: of the task's own distances.
        course: of the course.
    """

    def __init__(self, source: DistanceSource, course: CourseDistances) -> None:
        self._source, self._course = source, course

    def begin(self, sim: Simulator, env_id: int, row: GoalRow) -> None:
        """See :meth:`DistanceSource.begin`."""
        self._source.begin(sim, env_id, row)
        self._course.begin(sim, env_id, row)

    def measure(self, pose: Array) -> Distances:
        """See :meth:`DistanceSource.measure`."""
        return replace(self._source.measure(pose), course=self._course.measure(pose).course)


def distance_source(task: Task, num_envs: int) -> DistanceSource:
    """Return the source of a task's distances; one of its sensors may show the course.

    Raises:
        UserError: there is no such kind as its ``needs_geodesic``.
    """
    kind = task.needs_geodesic
    makers: dict[str, Callable[[], DistanceSource]] = {
        "": NoDistances,
        "goal": lambda: GeodesicDistances(num_envs, lambda row: row.position),
        "start": lambda: GeodesicDistances(num_envs, lambda row: row.start_pose),
        "course": lambda: CourseDistances(task, num_envs),
    }
    if kind not in makers:
        known = nearest(kind, [name for name in makers if name])
        raise UserError(f"the option needs_geodesic has no value '{kind}'{known}")
    source = makers[kind]()
    if shows_course(task.sensors) and kind != "course":
        return CourseBeside(source, CourseDistances(task, num_envs))
    return source


def _like(values: list[float] | list[np.ndarray], pose: Array) -> Array:
    return array_namespace(pose).asarray(np.array(values), device=device(pose))
