"""Free space of the robot's disc among convex footprints: exact clearance, geodesic distances.

Clearance is measured exactly against the polygons, so the border of free space has no raster
steps; the grid holds clearance at its nodes only to answer most questions without looking at the
polygons, and to find islands and geodesic distances. Nothing here knows an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import skfmm
from scipy import ndimage

from tpsrl.robot.fetch import BASE_RADIUS
from tpsrl.sim.door import DistanceField, Navigation
from tpsrl.sim.polygons import (
    capsule_hits,
    counter_clockwise,
    polygon_distance_grid,
    ray_hits,
)

RESOLUTION = 0.05
"""Default distance between grid nodes, m."""

_CAP = 0.15
"""Clearance beyond radius + this is not told apart, m."""
_ROUNDING = 1e-9
"""Clearance may fall short of the radius by this much, m."""
_EPSILON = 1e-6
"""Motion stops this far before contact, so that the point where it stops is free, m."""
_EIGHT = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)])


class GridNavigation(Navigation):
    """Free space of a disc inside a rectangle, among convex polygons.

    Immutable, picklable and deterministic.

    Args:
        polygons: convex footprints, (v, 2) each, m; walls, too.
        bounds: (2, 2) lower and upper corner that the disc must stay inside, m.
        radius: of the disc, m.
        resolution: distance between grid nodes, m.

    Raises:
        ValueError: a polygon is malformed, or the bounds leave no room for the disc.
    """

    def __init__(
        self,
        polygons: Sequence[np.ndarray],
        bounds: np.ndarray,
        radius: float = BASE_RADIUS,
        resolution: float = RESOLUTION,
    ) -> None:
        self.bounds = np.asarray(bounds, dtype=np.float64)
        self.radius = float(radius)
        self.resolution = float(resolution)
        if self.bounds.shape != (2, 2) or np.any(np.diff(self.bounds, axis=0) <= 2.0 * radius):
            raise ValueError(
                f"The bounds {self.bounds.tolist()} leave no room for a disc of radius {radius} m."
            )
        self._lower = self.bounds[0] + self.radius
        self._upper = self.bounds[1] - self.radius
        self._cap = self.radius + _CAP
        self._least = self.radius - _ROUNDING
        count = np.floor((self._upper - self._lower) / self.resolution + 1e-9).astype(int) + 1
        self._shape = (int(count[0]), int(count[1]))
        self._clearance = np.full(self._shape, self._cap)
        self._polygons: tuple[np.ndarray, ...] = ()
        self._add(polygons)

    def _add(self, polygons: Sequence[np.ndarray]) -> None:
        """Take in polygons: edge arrays, clearance grid, islands."""
        new = tuple(counter_clockwise(p) for p in polygons)
        self._polygons += new
        tails = np.concatenate([*self._polygons, np.empty((0, 2))])
        heads = np.concatenate([*(np.roll(p, -1, 0) for p in self._polygons), np.empty((0, 2))])
        self._tails, self._edges = tails, heads - tails
        self._edge_low, self._edge_high = np.minimum(tails, heads), np.maximum(tails, heads)
        self._length2 = np.maximum(np.einsum("ei,ei->e", self._edges, self._edges), 1e-18)
        starts = np.cumsum([0, *(len(p) for p in self._polygons)])
        self._starts = starts[:-1]
        for polygon in new:
            low = self._index(polygon.min(axis=0) - self._cap, np.floor)
            high = self._index(polygon.max(axis=0) + self._cap, np.ceil) + 1
            window = (slice(low[0], high[0]), slice(low[1], high[1]))
            if np.all(high > low):
                part = self._clearance[window]
                xs, ys = self._axes(low, high)
                np.minimum(part, polygon_distance_grid(xs, ys, polygon), out=part)
        free = self._clearance >= self._least
        labels, found = ndimage.label(free)
        sizes = np.bincount(labels.ravel(), minlength=found + 1)
        sizes[0] = 0
        self._free = free
        self._island = labels == sizes.argmax() if found else np.zeros_like(free)
        self._island_nodes = np.argwhere(self._island)
        self._island_xy = self._lower + self.resolution * self._island_nodes

    def _index(self, xy: np.ndarray, rounding: Callable[..., Any]) -> np.ndarray:
        index = rounding((xy - self._lower) / self.resolution)
        return np.clip(index, 0, np.array(self._shape) - 1).astype(int)

    def _axes(self, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
        return [self._lower[k] + self.resolution * np.arange(low[k], high[k]) for k in range(2)]

    @property
    def nodes(self) -> np.ndarray:
        """(k, 2) float64 grid nodes of the largest island, m."""
        return self._island_xy

    def clearance(self, xy: np.ndarray) -> np.ndarray:
        """Distance from points to the nearest polygon; bounds are not looked at.

        Args:
            xy: (..., 2), m.

        Returns:
            (...,) float64, m; negative inside a polygon, ``inf`` without polygons.
        """
        points = np.asarray(xy, dtype=np.float64)
        if not self._polygons:
            return np.full(points.shape[:-1], np.inf)
        rel = points[..., None, :] - self._tails
        t = np.einsum("...ei,ei->...e", rel, self._edges) / self._length2
        gap = rel - np.clip(t, 0.0, 1.0)[..., None] * self._edges
        distance = np.sqrt(np.einsum("...i,...i->...", gap, gap))
        side = rel[..., 0] * self._edges[:, 1] - rel[..., 1] * self._edges[:, 0]
        nearest = np.minimum.reduceat(distance, self._starts, axis=-1)
        outside = np.maximum.reduceat(side, self._starts, axis=-1) > 0.0
        return np.where(outside, nearest, -nearest).min(axis=-1)

    def _in_bounds(self, xy: np.ndarray) -> np.ndarray:
        return np.all((xy >= self._lower) & (xy <= self._upper), axis=-1)

    def is_navigable(self, xy: np.ndarray) -> np.ndarray:
        """Return (...,) bool: the disc centred there touches nothing and lies in the bounds."""
        points = np.asarray(xy, dtype=np.float64)
        free = self._in_bounds(points)
        node = self._index(points, np.round)
        offset = np.linalg.norm(points - (self._lower + self.resolution * node), axis=-1)
        known = self._clearance[node[..., 0], node[..., 1]]
        unsure = free & (np.abs(known - self.radius) <= offset)
        free = free & (known >= self._least)
        if unsure.any():
            free = np.asarray(free)
            free[unsure] = self.clearance(points[unsure]) >= self._least
        return free

    def _free_part(self, start: np.ndarray, end: np.ndarray) -> float:
        """Return how much of the segment, in [0, 1], is free before the first contact."""
        motion = end - start
        length = float(np.hypot(motion[0], motion[1]))
        if length == 0.0:
            return 1.0
        part = 1.0
        for k in range(2):
            if motion[k] > 0.0:
                part = min(part, (self._upper[k] - start[k]) / motion[k])
            elif motion[k] < 0.0:
                part = min(part, (self._lower[k] - start[k]) / motion[k])
        near = self._near_edges(start, end)
        if near.any():
            hits = capsule_hits(
                start, motion / length, self._tails[near], self._edges[near], self.radius
            )
            part = min(part, (float(hits.min()) - _EPSILON) / length)
        return max(part, 0.0)

    def _near_edges(
        self, start: np.ndarray, end: np.ndarray, margin: float | None = None
    ) -> np.ndarray:
        around = self.radius if margin is None else margin
        low = np.minimum(start, end) - around
        high = np.maximum(start, end) + around
        return np.all((self._edge_high >= low) & (self._edge_low <= high), axis=-1)

    def clamp_motion(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the farthest (2,) point on the segment that is reached without contact.

        There is no sliding: a blocked motion stops. From a start that is not free (an obstacle
        moved onto the robot) a motion to a free point or to larger clearance is let through.
        """
        start = np.asarray(start, dtype=np.float64)
        end = np.asarray(end, dtype=np.float64)
        node = self._index(start, np.round)
        offset = start - (self._lower + self.resolution * node)
        motion = end - start
        reach = np.hypot(offset[0], offset[1]) + np.hypot(motion[0], motion[1])
        if (
            self._clearance[node[0], node[1]] - reach >= self.radius
            and self._in_bounds(start)
            and self._in_bounds(end)
        ):
            return end.copy()
        if not self.is_navigable(start):
            better = self.clearance(end) > self.clearance(start) and self._in_bounds(end)
            return end.copy() if better else start.copy()
        part = self._free_part(start, end)
        stop = end.copy() if part >= 1.0 else start + part * motion
        return stop if self.is_navigable(stop) else start.copy()

    def scan(self, xy: np.ndarray, angles: np.ndarray, reach: float) -> np.ndarray:
        """Return the (k,) distance to the nearest outline in (k,) directions, at most ``reach``."""
        here = np.asarray(xy, dtype=np.float64)
        near = self._near_edges(here, here, reach)
        return ray_hits(here, np.asarray(angles), self._tails[near], self._edges[near], reach)

    def is_visible(self, start: np.ndarray, end: np.ndarray) -> bool:
        """Return whether the disc can move straight from (2,) ``start`` to ``end``."""
        return self._free_part(np.asarray(start), np.asarray(end)) >= 1.0

    def snap(self, xy: np.ndarray) -> np.ndarray:
        """Return the navigable (2,) point on the largest island nearest to ``xy``.

        The point itself if it is free and belongs to that island, else the nearest grid node.

        Raises:
            ValueError: there is no free space at all.
        """
        if not len(self._island_nodes):
            raise ValueError("There is no free space for the robot; check the layout's furniture.")
        point = np.asarray(xy, dtype=np.float64)
        nearest = self._island_xy[np.argmin(((self._island_xy - point) ** 2).sum(axis=1))]
        if np.linalg.norm(nearest - point) <= self.resolution and self.is_navigable(point):
            return point.copy()
        return nearest.copy()

    def sample(
        self,
        rng: np.random.Generator,
        *,
        near: np.ndarray | None = None,
        radius: float | None = None,
        min_distance: float = 0.0,
    ) -> np.ndarray | None:
        """Draw a uniform navigable (2,) point of the largest island (see ``Navigation``)."""
        nodes = self._island_xy
        outer = np.inf if near is None or radius is None else radius
        inner = 0.0 if near is None else min_distance
        slack = self.resolution
        if near is not None:
            distance = np.linalg.norm(nodes - near, axis=1)
            nodes = nodes[(distance <= outer + slack) & (distance >= inner - slack)]
        if not len(nodes):
            return None
        for _ in range(64):
            node = nodes[rng.integers(len(nodes))]
            point = node + rng.uniform(-0.5, 0.5, 2) * self.resolution
            gap = 0.0 if near is None else float(np.linalg.norm(point - near))
            if inner <= gap <= outer and self.is_navigable(point):
                return point
        if near is not None:
            distance = np.linalg.norm(nodes - near, axis=1)
            nodes = nodes[(distance <= outer) & (distance >= inner)]
        return nodes[rng.integers(len(nodes))].copy() if len(nodes) else None

    def distance_field(self, goals: np.ndarray) -> GridDistanceField:
        """Geodesic distance to the nearest of ``goals`` (g, 2) from everywhere.

        A goal off the largest island counts as the nearest point on it.

        Raises:
            ValueError: ``goals`` is empty or not (g, 2).
        """
        points = np.atleast_2d(np.asarray(goals, dtype=np.float64))
        if points.ndim != 2 or points.shape[1:] != (2,) or not len(points):
            raise ValueError(f"Goals must be a (g >= 1, 2) array, got shape {points.shape}.")
        return GridDistanceField(self, np.array([self.snap(p) for p in points]))

    def path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """Return the shortest path as (k, 2) waypoints from start to goal, ``None`` if cut off."""
        start = np.asarray(start, dtype=np.float64)
        if self.is_visible(start, np.asarray(goal)) and self.is_navigable(goal):
            return np.array([start, goal])
        field = self.distance_field(np.asarray(goal)[None])
        if not np.isfinite(field.distance(start)):
            return None
        waypoints, here = [start], start
        for _ in range(self._free.size):
            here = field.descend(here, 2.0)
            waypoints.append(here)
            if np.linalg.norm(here - field.goals[0]) < 1e-9:
                return self._shorten(np.array(waypoints))
            if np.array_equal(waypoints[-1], waypoints[-2]):
                return None
        return None

    def _shorten(self, waypoints: np.ndarray) -> np.ndarray:
        """Drop the waypoints that the disc can bypass in a straight line."""
        kept = [0]
        while kept[-1] < len(waypoints) - 1:
            here = kept[-1]
            ahead = range(len(waypoints) - 1, here + 1, -1)
            visible = (k for k in ahead if self.is_visible(waypoints[here], waypoints[k]))
            kept.append(next(visible, here + 1))
        return waypoints[kept]

    def with_obstacles(self, polygons: Sequence[np.ndarray]) -> GridNavigation:
        """Return the same free space less convex ``polygons`` ((v, 2) each), e.g. open doors."""
        other = object.__new__(GridNavigation)
        other.__dict__.update(self.__dict__)
        other._clearance = self._clearance.copy()
        other._add(polygons)
        return other


class GridDistanceField(DistanceField):
    """Geodesic distances on the grid of a ``GridNavigation``, by fast marching.

    Args:
        navigation: whose free space it is.
        goals: (g, 2) free points, m.
    """

    def __init__(self, navigation: GridNavigation, goals: np.ndarray) -> None:
        self.navigation = navigation
        self.goals = goals
        self._grid = self._march()

    def _march(self) -> np.ndarray:
        """Return distances at the grid nodes, ``inf`` where no goal can be reached."""
        nav = self.navigation
        seed_radius = 2.0 * nav.resolution
        xs, ys = nav._axes(np.zeros(2, int), np.array(nav._shape))
        straight = np.full(nav._shape, np.inf)
        for goal in self.goals:
            gap = np.hypot(xs[:, None] - goal[0], ys[None, :] - goal[1])
            np.minimum(straight, gap, out=straight)
        blocked = ~nav._free
        phi = np.ma.MaskedArray(straight - seed_radius, blocked)
        near = (straight <= seed_radius) & nav._free
        if np.all(near == nav._free):
            return np.where(near, straight, np.inf)
        away = skfmm.distance(phi, dx=nav.resolution, order=2)
        grid = np.where(near, straight, np.ma.filled(away, np.inf) + seed_radius)
        return np.where(blocked, np.inf, grid)

    def distance(self, xy: np.ndarray) -> np.ndarray:
        """Return (...,) float64 geodesic distance, m; ``inf`` where no goal can be reached."""
        nav = self.navigation
        points = np.asarray(xy, dtype=np.float64)
        cell = (points - nav._lower) / nav.resolution
        low = np.clip(np.floor(cell), 0, np.array(nav._shape) - 2).astype(int)
        frac = np.clip(cell - low, 0.0, 1.0)
        corners, weights = [], []
        for di, dj in ((0, 0), (0, 1), (1, 0), (1, 1)):
            corners.append(self._grid[low[..., 0] + di, low[..., 1] + dj])
            side = np.abs(np.array([1 - di, 1 - dj]) - frac)
            weights.append(side[..., 0] * side[..., 1])
        values = np.stack(corners, axis=-1)
        weight = np.stack(weights, axis=-1) * np.isfinite(values)
        total = weight.sum(axis=-1)
        known = np.where(np.isfinite(values), values, 0.0)
        nearest = np.min(values, axis=-1) + 0.5 * nav.resolution
        with np.errstate(invalid="ignore", divide="ignore"):
            blended = (weight * known).sum(axis=-1) / total
        result = np.where(total > 1e-6, blended, nearest)
        straight = np.linalg.norm(points[..., None, :] - self.goals, axis=-1).min(axis=-1)
        return np.where(straight <= 2.0 * nav.resolution, np.minimum(result, straight), result)

    def descend(self, xy: np.ndarray, step: float) -> np.ndarray:
        """Return the (2,) point about ``step`` metres farther along the shortest path.

        The disc can move straight to it. Returns ``xy`` itself where no goal can be reached.
        """
        nav = self.navigation
        here = np.asarray(xy, dtype=np.float64)
        trail = self._trail(here, step)
        for k in range(len(trail) - 1, -1, -1):
            if nav.is_visible(here, trail[k]):
                return trail[k].copy()
        return trail[0].copy() if len(trail) else here.copy()

    def _nearest_goal(self, xy: np.ndarray) -> np.ndarray:
        return self.goals[int(np.argmin(np.linalg.norm(self.goals - xy, axis=1)))]

    def _trail(self, start: np.ndarray, length: float) -> list[np.ndarray]:
        """Follow the steepest descent over grid nodes for ``length`` metres."""
        nav = self.navigation
        goal = self._nearest_goal(start)
        if np.linalg.norm(goal - start) <= length and nav.is_visible(start, goal):
            return [goal]
        node = self._first_node(start)
        if node is None:
            return []
        trail = [nav._lower + nav.resolution * node]
        walked = float(np.linalg.norm(trail[0] - start))
        while walked < length:
            after = node + _EIGHT
            inside = np.all((after >= 0) & (after < nav._shape), axis=1)
            after = after[inside]
            run = nav.resolution * np.hypot(*_EIGHT[inside].T)
            slope = (self._grid[node[0], node[1]] - self._grid[after[:, 0], after[:, 1]]) / run
            best = int(np.argmax(slope))
            if slope[best] <= 1e-9:
                trail.append(self._nearest_goal(trail[-1]))
                break
            node, walked = after[best], walked + float(run[best])
            trail.append(nav._lower + nav.resolution * node)
        return trail

    def _first_node(self, start: np.ndarray) -> np.ndarray | None:
        """Return the node near ``start`` from which the way to a goal is shortest."""
        nav = self.navigation
        centre = nav._index(start, np.round)
        for reach in (1, 3, 8):
            low = np.maximum(centre - reach, 0)
            high = np.minimum(centre + reach + 1, nav._shape)
            index = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), -1)
            index = index.reshape(-1, 2)
            gap = np.linalg.norm(nav._lower + nav.resolution * index - start, axis=1)
            total = self._grid[index[:, 0], index[:, 1]] + gap
            order = np.argsort(total, kind="stable")
            for k in order[np.isfinite(total[order])]:
                if nav.is_visible(start, nav._lower + nav.resolution * index[k]):
                    return index[k]
        return None
