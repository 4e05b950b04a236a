"""PointNav (DD-PPO), and Flee and Explore, the transfer tasks of DD-PPO and of BPS.

None is part of a plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import device
from numpy.random import Generator

from skills.tasks.base import Advance, P, Progress, Task
from skills.tasks.starts import NoStartError, Spawn, Start, free_points, free_poses
from skills.tasks.state import GoalRow, View
from tpsrl.errors import UserError
from tpsrl.geometry.arrays import Array, norm
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import Navigation

_SAME = 0.1
"""A point nearer than this to an earlier goal is that goal, m."""


@dataclass(frozen=True)
class RoamTask(Task[P]):
    """Drives with an empty hand, from anywhere.

    Raises:
        UserError: distances are measured otherwise than success is.
    """

    measured: ClassVar[str] = ""
    """What ``needs_geodesic`` is: success follows from that distance."""

    def __post_init__(self) -> None:
        if self.needs_geodesic != self.measured:
            raise UserError(
                f"needs_geodesic='{self.needs_geodesic}' would change what success of"
                f" '{self.name}' is; leave it at '{self.measured}'."
            )

    def start_state(self, sim: Simulator, env_id: int, rng: Generator, spawn: Spawn) -> Start:
        """See :meth:`Task.start_state`: any free pose."""
        navigation = sim.scene(env_id).navigation
        for pose in free_poses(sim, env_id, rng):
            goal = self.goal_from(navigation, pose, rng)
            if goal is not None:
                return Start(goal, None)
        raise NoStartError("no free start in the apartment")

    @abstractmethod
    def goal_from(self, navigation: Navigation, pose: Array, rng: Generator) -> GoalRow | None:
        """Return the goal of an episode that starts at a (3,) pose, ``None`` if it has none."""

    @abstractmethod
    def next_point(
        self, view: View, progress: P, navigation: Navigation, been: Sequence[np.ndarray]
    ) -> np.ndarray | None:
        """Return where someone who knows the free space drives in world 0.

        Args:
            view: present state.
            progress: of the episode.
            navigation: free space.
            been: (2,) points that were driven to, or could not be reached.

        Returns:
            (2,) m, ``None`` if that was all.
        """


def _reachable(navigation: Navigation, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (k, 2) a (2,) place and all free points, and their geodesic distances from it, m."""
    points = np.concatenate([place[None], free_points(navigation)])
    return points, navigation.distance_field(place[None]).distance(points)


@dataclass(frozen=True)
class PathProgress(Progress):
    """What is remembered from the last step.

    Attributes:
        distance: (n,) geodesic distance to the goal, m.
        place: (n, 2) base position.
        path: (n,) length driven so far, m.
    """

    distance: Array
    place: Array
    path: Array


@dataclass(frozen=True)
class PointNavTask(RoamTask[PathProgress]):
    """Drive to a point and stop within ``success_distance`` (DD-PPO, section 5).

    Attributes:
        distance_reward: per metre of geodesic distance.
        spl_reward: times SPL at success.
        success_distance: farthest geodesic distance at success, m.
        min_start_distance: least geodesic distance to the goal at the start, m.
    """

    measured: ClassVar[str] = "goal"
    distance_reward: float = 1.0
    spl_reward: float = 2.5
    success_distance: float = 0.2
    min_start_distance: float = 1.0

    def goal_from(self, navigation: Navigation, pose: Array, rng: Generator) -> GoalRow | None:
        """See :meth:`RoamTask.goal_from`: a point that can be reached."""
        here, least = pose[:2], self.min_start_distance
        goal = navigation.sample(rng, near=here, radius=np.inf, min_distance=least)
        if goal is None:
            return None
        shortest = float(navigation.distance_field(goal[None]).distance(here))
        if not np.isfinite(shortest):
            return None
        return GoalRow(position=np.append(goal, 0.0), start_pose=pose, scale=shortest)

    def next_point(
        self, view: View, progress: PathProgress, navigation: Navigation, been: Sequence[Array]
    ) -> np.ndarray | None:
        """See :meth:`RoamTask.next_point`: the goal."""
        return None if been else np.asarray(view.goal.position)[0, :2]

    def begin(self, view: View) -> PathProgress:
        """See :meth:`Task.begin`."""
        place = view.state.base_pose[:, :2]
        zero = view.xp.zeros_like(place[:, 0])
        return PathProgress(
            **self.start_fields(view), distance=view.geodesic, place=place, path=zero
        )

    def advance(self, view: View, progress: PathProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp, distance = view.xp, view.require("geodesic")
        place = view.state.base_pose[:, :2]
        path = progress.path + norm(xp, place - progress.place)
        success = stop & (distance < self.success_distance)
        shortest = view.goal.scale
        spl = success * shortest / xp.maximum(xp.maximum(path, shortest), xp.full_like(path, 1e-6))
        reward = self.distance_reward * (progress.distance - distance)
        reward = reward + self.spl_reward * spl
        return Advance(
            {"distance": distance, "place": place, "path": path},
            reward,
            success,
            {"stop": stop},
            {"distance": distance, "spl": spl, "path_length": path},
        )


@dataclass(frozen=True)
class FleeProgress(Progress):
    """Attributes: ``distance`` (n,) geodesic distance from the start, m."""

    distance: Array


@dataclass(frozen=True)
class FleeTask(RoamTask[FleeProgress]):
    """Get as far away from the start as the apartment allows.

    Attributes:
        distance_reward: per metre of geodesic distance from the start.
        success_fraction: of the largest possible distance, counts as success.
    """

    measured: ClassVar[str] = "start"
    distance_reward: float = 1.0
    success_fraction: float = 0.9

    def goal_from(self, navigation: Navigation, pose: Array, rng: Generator) -> GoalRow | None:
        """See :meth:`RoamTask.goal_from`: as far as the farthest point."""
        distance = _reachable(navigation, pose[:2])[1]
        farthest = max(float(distance[np.isfinite(distance)].max()), 1e-6)
        return GoalRow(start_pose=pose, scale=farthest)

    def next_point(
        self, view: View, progress: FleeProgress, navigation: Navigation, been: Sequence[Array]
    ) -> np.ndarray | None:
        """See :meth:`RoamTask.next_point`: the farthest point."""
        if been:
            return None
        points, distance = _reachable(navigation, np.asarray(view.state.base_pose)[0, :2])
        return points[int(np.argmax(np.where(np.isfinite(distance), distance, -1.0)))]

    def begin(self, view: View) -> FleeProgress:
        """See :meth:`Task.begin`."""
        return FleeProgress(**self.start_fields(view), distance=view.geodesic)

    def advance(self, view: View, progress: FleeProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        distance = view.require("geodesic")
        reward = -self.distance_reward * (progress.distance - distance)
        fraction = distance / view.goal.scale
        return Advance(
            {"distance": distance},
            reward,
            fraction >= self.success_fraction,
            {},
            {"distance": distance, "fraction": fraction},
        )


@dataclass(frozen=True)
class ExploreProgress(Progress):
    """Attributes: ``visited`` (n, G, G) bool, cells around the start; ``cells`` (n,) how many."""

    visited: Array
    cells: Array


@dataclass(frozen=True)
class ExploreTask(RoamTask[ExploreProgress]):
    """Visit as many cells of a grid on the floor as possible.

    Attributes:
        cell_reward: per new cell.
        cell: side of a cell, m.
        grid: cells along a side of the remembered square, whose middle is the start.
        success_fraction: of the reachable cells, counts as success.
    """

    cell_reward: float = 0.25
    cell: float = 1.0
    grid: int = 32
    success_fraction: float = 0.7

    def goal_from(self, navigation: Navigation, pose: Array, rng: Generator) -> GoalRow | None:
        """See :meth:`RoamTask.goal_from`: every cell that can be reached."""
        points, distance = _reachable(navigation, pose[:2])
        cells = np.round((points[np.isfinite(distance)] - pose[:2]) / self.cell).astype(int)
        count = float(max(len(np.unique(cells, axis=0)), 1))
        return GoalRow(start_pose=pose, scale=count)

    def next_point(
        self, view: View, progress: ExploreProgress, navigation: Navigation, been: Sequence[Array]
    ) -> np.ndarray | None:
        """See :meth:`RoamTask.next_point`: into the nearest cell not yet visited."""
        points, distance = _reachable(navigation, np.asarray(view.state.base_pose)[0, :2])
        start = np.asarray(view.goal.start_pose)[0, :2]
        cells = np.round((points - start) / self.cell).astype(int) + self.grid // 2
        cells = np.clip(cells, 0, self.grid - 1)
        visited = np.asarray(progress.visited)[0][cells[:, 0], cells[:, 1]]
        distance = np.where(visited, np.inf, distance)
        for spot in been:
            distance[np.linalg.norm(points - spot, axis=1) < _SAME] = np.inf
        best = int(np.argmin(distance))
        return points[best] if np.isfinite(distance[best]) else None

    def begin(self, view: View) -> ExploreProgress:
        """See :meth:`Task.begin`."""
        here = self._here(view)
        return ExploreProgress(
            **self.start_fields(view),
            visited=here,
            cells=view.xp.ones_like(view.state.base_pose[:, 0]),
        )

    def advance(self, view: View, progress: ExploreProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        xp = view.xp
        visited = progress.visited | self._here(view)
        cells = xp.sum(xp.astype(visited, progress.cells.dtype), axis=(1, 2))
        fraction = cells / view.goal.scale
        return Advance(
            {"visited": visited, "cells": cells},
            self.cell_reward * (cells - progress.cells),
            fraction >= self.success_fraction,
            {},
            {"cells": cells, "fraction": fraction},
        )

    def _here(self, view: View) -> Array:
        """Return (n, G, G) bool: the cell that the base stands in."""
        xp = view.xp
        steps = (view.state.base_pose[:, :2] - view.goal.start_pose[:, :2]) / self.cell
        index = xp.clip(xp.round(steps) + self.grid // 2, 0, self.grid - 1)
        line = xp.arange(self.grid, device=device(index))
        on_x = line[None, :] == index[:, :1]
        on_y = line[None, :] == index[:, 1:]
        return on_x[:, :, None] & on_y[:, None, :]
