"""Flee and Explore, the transfer tasks of DD-PPO and of Large Batch Simulation (BPS)."""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from skills.tasks.base import Advance, Progress, Task
from skills.tasks.state import View
from tpsrl.geometry.arrays import Array


@dataclass(frozen=True)
class FleeProgress(Progress):
    """Attributes: ``distance`` (n,) geodesic distance from the start, m."""

    distance: Array


@dataclass(frozen=True)
class FleeTask(Task[FleeProgress]):
    """Get as far away from the start as the apartment allows.

    Attributes:
        distance_reward: per metre of geodesic distance from the start.
        success_fraction: of the largest possible distance, counts as success.
    """

    distance_reward: float = 1.0
    success_fraction: float = 0.9

    def begin(self, view: View) -> FleeProgress:
        """See :meth:`Task.begin`."""
        return FleeProgress(**self.start_fields(view), distance=view.geodesic)

    def grip(self, view: View, command: Array) -> Array:
        """Nothing is grasped on the way."""
        return view.xp.full_like(command, -1.0)

    def advance(self, view: View, progress: FleeProgress, stop: Array) -> Advance:
        """See :meth:`Task.advance`."""
        distance = view.require_geodesic()
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
class ExploreTask(Task[ExploreProgress]):
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

    def begin(self, view: View) -> ExploreProgress:
        """See :meth:`Task.begin`."""
        here = self._here(view)
        return ExploreProgress(
            **self.start_fields(view),
            visited=here,
            cells=view.xp.ones_like(view.state.base_pose[:, 0]),
        )

    def grip(self, view: View, command: Array) -> Array:
        """Nothing is grasped on the way."""
        return view.xp.full_like(command, -1.0)

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
