"""Evenly spaced nodes of a rectangle, and geodesic distances over those that are free.

Nothing here knows what makes a node free, nor an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import skfmm

from tpsrl.sim.scene import DistanceField

_EIGHT = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)])


@dataclass(frozen=True)
class Grid:
    """Nodes at ``lower + resolution * (i, j)``.

    Attributes:
        lower: (2,) first node, m.
        resolution: distance between nodes, m.
        shape: nodes along x and y.
    """

    lower: np.ndarray
    resolution: float
    shape: tuple[int, int]

    @classmethod
    def over(cls, lower: np.ndarray, upper: np.ndarray, resolution: float) -> Grid:
        """Return the nodes from (2,) ``lower`` as far as they lie within ``upper``, m."""
        count = np.floor((upper - lower) / resolution + 1e-9).astype(int) + 1
        return cls(lower, resolution, (int(count[0]), int(count[1])))

    def xy(self, index: np.ndarray) -> np.ndarray:
        """Return the (..., 2) positions of (..., 2) nodes, m."""
        return self.lower + self.resolution * index

    def index(self, xy: np.ndarray, rounding: Callable[..., Any] = np.round) -> np.ndarray:
        """Return (..., 2) int nodes at (..., 2) points, the border's for points beyond it.

        Args:
            xy: points, m.
            rounding: ``np.round`` for the nearest node, ``np.floor`` or ``np.ceil``.
        """
        index = rounding((xy - self.lower) / self.resolution)
        return np.clip(index, 0, np.array(self.shape) - 1).astype(int)

    def axes(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y of the nodes from (2,) ``low`` up to but without ``high``, m."""
        x, y = (self.lower[k] + self.resolution * np.arange(low[k], high[k]) for k in range(2))
        return x, y


class GridDistanceField(DistanceField):
    """Geodesic distances over the free nodes of a grid, by fast marching.

    Args:
        grid: the nodes.
        free: (a, b) bool, which of them are free.
        goals: (g, 2) free points, m.
        is_visible: whether one can go straight from one (2,) point to another.
    """

    def __init__(
        self,
        grid: Grid,
        free: np.ndarray,
        goals: np.ndarray,
        is_visible: Callable[[np.ndarray, np.ndarray], bool],
    ) -> None:
        self.grid, self.goals = grid, goals
        self._is_visible = is_visible
        self._distance = self._march(free)

    def _march(self, free: np.ndarray) -> np.ndarray:
        """Return (a, b) distances at the nodes, ``inf`` where no goal can be reached."""
        grid = self.grid
        seed_radius = 2.0 * grid.resolution
        xs, ys = grid.axes(np.zeros(2, int), np.array(grid.shape))
        straight = np.full(grid.shape, np.inf)
        for goal in self.goals:
            gap = np.hypot(xs[:, None] - goal[0], ys[None, :] - goal[1])
            np.minimum(straight, gap, out=straight)
        phi = np.ma.MaskedArray(straight - seed_radius, ~free)
        near = (straight <= seed_radius) & free
        if np.all(near == free):
            return np.where(near, straight, np.inf)
        away = skfmm.distance(phi, dx=grid.resolution, order=2)
        distance = np.where(near, straight, np.ma.filled(away, np.inf) + seed_radius)
        return np.where(free, distance, np.inf)

    def distance(self, xy: np.ndarray) -> np.ndarray:
        """Return (...,) float64 geodesic distance, m; ``inf`` where no goal can be reached."""
        grid = self.grid
        points = np.asarray(xy, dtype=np.float64)
        cell = (points - grid.lower) / grid.resolution
        low = np.clip(np.floor(cell), 0, np.array(grid.shape) - 2).astype(int)
        frac = np.clip(cell - low, 0.0, 1.0)
        corners, weights = [], []
        for di, dj in ((0, 0), (0, 1), (1, 0), (1, 1)):
            corners.append(self._distance[low[..., 0] + di, low[..., 1] + dj])
            side = np.abs(np.array([1 - di, 1 - dj]) - frac)
            weights.append(side[..., 0] * side[..., 1])
        values = np.stack(corners, axis=-1)
        weight = np.stack(weights, axis=-1) * np.isfinite(values)
        total = weight.sum(axis=-1)
        known = np.where(np.isfinite(values), values, 0.0)
        nearest = np.min(values, axis=-1) + 0.5 * grid.resolution
        with np.errstate(invalid="ignore", divide="ignore"):
            blended = (weight * known).sum(axis=-1) / total
        result = np.where(total > 1e-6, blended, nearest)
        straight = np.linalg.norm(points[..., None, :] - self.goals, axis=-1).min(axis=-1)
        return np.where(straight <= 2.0 * grid.resolution, np.minimum(result, straight), result)

    def from_within(self, xy: np.ndarray) -> float:
        """Return the distance of a (2,) point that lies in free space; see :meth:`distance`.

        Free space is finer than its nodes: between furniture a robot stands where none of the four
        about it is free. Then it is measured by the nearest node that is.
        """
        distance = float(self.distance(xy))
        if np.isfinite(distance) or not (known := np.isfinite(self._distance)).any():
            return distance
        nodes = self.grid.xy(np.argwhere(known))
        gaps = np.hypot(*(nodes - np.asarray(xy, dtype=np.float64)).T)
        nearest = int(np.argmin(gaps))
        return float(gaps[nearest] + self._distance[known][nearest])

    def descend(self, xy: np.ndarray, step: float) -> np.ndarray:
        """Return the (2,) point about ``step`` metres farther along the shortest path.

        The disc can move straight to it. Returns ``xy`` itself where no goal can be reached.
        """
        here = np.asarray(xy, dtype=np.float64)
        trail = self._trail(here, step)
        for k in range(len(trail) - 1, -1, -1):
            if self._is_visible(here, trail[k]):
                return trail[k].copy()
        return trail[0].copy() if len(trail) else here.copy()

    def _nearest_goal(self, xy: np.ndarray) -> np.ndarray:
        return self.goals[int(np.argmin(np.linalg.norm(self.goals - xy, axis=1)))]

    def _trail(self, start: np.ndarray, length: float) -> list[np.ndarray]:
        """Follow the steepest descent over grid nodes for ``length`` metres."""
        goal = self._nearest_goal(start)
        if np.linalg.norm(goal - start) <= length and self._is_visible(start, goal):
            return [goal]
        node = self._first_node(start)
        if node is None:
            return []
        trail = [self.grid.xy(node)]
        walked = float(np.linalg.norm(trail[0] - start))
        while walked < length:
            after = node + _EIGHT
            inside = np.all((after >= 0) & (after < self.grid.shape), axis=1)
            after = after[inside]
            run = self.grid.resolution * np.hypot(*_EIGHT[inside].T)
            below = self._distance[node[0], node[1]] - self._distance[after[:, 0], after[:, 1]]
            slope = below / run
            best = int(np.argmax(slope))
            if slope[best] <= 1e-9:
                trail.append(self._nearest_goal(trail[-1]))
                break
            node, walked = after[best], walked + float(run[best])
            trail.append(self.grid.xy(node))
        return trail

    def _first_node(self, start: np.ndarray) -> np.ndarray | None:
        """Return the node near ``start`` from which the way to a goal is shortest."""
        centre = self.grid.index(start)
        for reach in (1, 3, 8):
            low = np.maximum(centre - reach, 0)
            high = np.minimum(centre + reach + 1, self.grid.shape)
            index = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), -1)
            index = index.reshape(-1, 2)
            gap = np.linalg.norm(self.grid.xy(index) - start, axis=1)
            total = self._distance[index[:, 0], index[:, 1]] + gap
            order = np.argsort(total, kind="stable")
            for k in order[np.isfinite(total[order])]:
                if self._is_visible(start, self.grid.xy(index[k])):
                    return index[k]
        return None
