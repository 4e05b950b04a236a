"""Free space of the robot's disc among convex footprints: exact clearance, geodesic distances.

Clearance is measured exactly against the polygons, so the border of free space has no raster
steps; the grid holds clearance at its nodes only to answer most questions without looking at the
polygons, and to find islands and geodesic distances. Nothing here knows an engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from tpsrl.geometry.polygons import (
    counter_clockwise,
    polygon_distance_grid,
    polygon_distances,
    ray_hits,
)
from tpsrl.robot.fetch import BASE_RADIUS
from tpsrl.sim.clamp import ROUNDING, clamp, free_part
from tpsrl.sim.grid import Grid, GridDistanceField
from tpsrl.sim.scene import Navigation

RESOLUTION = 0.05
"""Default distance between grid nodes, m."""

_CAP = 0.15
"""Clearance beyond radius + this is not told apart, m."""


class GridNavigation(Navigation):
    """Free space of a disc inside a rectangle, among convex polygons.

    Immutable, picklable and deterministic.

    Args:
        polygons: convex footprints, (v, 2) each, m; walls, too.
        bounds: (2, 2) lower and upper corner that the disc must stay inside, m.
        radius: of the disc, m.
        resolution: distance between grid nodes, m.

    Attributes:
        bounds: (2, 2), as given.
        radius: as given.
        grid: the nodes that the disc's centre can reach in the bounds.
        free: (a, b) bool, the disc centred at the node touches nothing.
        parts: what ``tpsrl.sim.clamp`` knows of it.

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
        if self.bounds.shape != (2, 2) or np.any(np.diff(self.bounds, axis=0) <= 2.0 * radius):
            raise ValueError(
                f"The bounds {self.bounds.tolist()} leave no room for a disc of radius {radius} m."
            )
        self._lower = self.bounds[0] + self.radius
        self._upper = self.bounds[1] - self.radius
        self._cap = self.radius + _CAP
        self._least = self.radius - ROUNDING
        self.grid = Grid.over(self._lower, self._upper, float(resolution))
        self._clearance = np.full(self.grid.shape, self._cap)
        self._polygons: tuple[np.ndarray, ...] = ()
        self._add(polygons)

    def _add(self, polygons: Sequence[np.ndarray]) -> None:
        """Take in polygons: edge arrays, clearance grid, islands."""
        new = tuple(counter_clockwise(p) for p in polygons)
        self._polygons += new
        tails = np.concatenate([*self._polygons, np.empty((0, 2))])
        heads = np.concatenate([*(np.roll(p, -1, 0) for p in self._polygons), np.empty((0, 2))])
        self._tails, self._edges = tails, heads - tails
        self._length2 = np.maximum(np.einsum("ei,ei->e", self._edges, self._edges), 1e-18)
        self._starts = np.cumsum([0, *(len(p) for p in self._polygons)], dtype=np.int32)
        for polygon in new:
            low = self.grid.index(polygon.min(axis=0) - self._cap, np.floor)
            high = self.grid.index(polygon.max(axis=0) + self._cap, np.ceil) + 1
            window = (slice(low[0], high[0]), slice(low[1], high[1]))
            if np.all(high > low):
                part = self._clearance[window]
                xs, ys = self.grid.axes(low, high)
                np.minimum(part, polygon_distance_grid(xs, ys, polygon), out=part)
        numbers = [*self._lower, *self._upper, self.radius, self.grid.resolution]
        self.parts = (
            self._clearance,
            np.array(numbers),
            self._tails,
            self._edges,
            self._length2,
            self._starts,
        )
        self.free = self._clearance >= self._least
        labels, found = ndimage.label(self.free)
        sizes = np.bincount(labels.ravel(), minlength=found + 1)
        sizes[0] = 0
        self._island = labels == sizes.argmax() if found else np.zeros_like(self.free)
        self._island_xy = self.grid.xy(np.argwhere(self._island))

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
        flat = np.ascontiguousarray(points.reshape(-1, 2))
        found = polygon_distances(flat, self._tails, self._edges, self._length2, self._starts)
        return found.reshape(points.shape[:-1])

    def _in_bounds(self, xy: np.ndarray) -> np.ndarray:
        return np.all((xy >= self._lower) & (xy <= self._upper), axis=-1)

    def is_navigable(self, xy: np.ndarray) -> np.ndarray:
        """Return (...,) bool: the disc centred there touches nothing and lies in the bounds."""
        points = np.asarray(xy, dtype=np.float64)
        free = self._in_bounds(points)
        node = self.grid.index(points)
        offset = np.linalg.norm(points - self.grid.xy(node), axis=-1)
        known = self._clearance[node[..., 0], node[..., 1]]
        unsure = free & (np.abs(known - self.radius) <= offset)
        free = free & (known >= self._least)
        if unsure.any():
            free = np.asarray(free)
            free[unsure] = self.clearance(points[unsure]) >= self._least
        return free

    def clamp_motion(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the farthest (2,) point on the segment that is reached without contact.

        There is no sliding: a blocked motion stops. From a start that is not free (an obstacle
        moved onto the robot) a motion to a free point or to larger clearance is let through.
        """
        first, last = (np.ascontiguousarray(point, dtype=np.float64) for point in (start, end))
        return clamp(first, last, *self.parts)

    def scan(self, xy: np.ndarray, angles: np.ndarray, reach: float) -> np.ndarray:
        """Return the (k,) distance to the nearest outline in (k,) directions, at most ``reach``."""
        here, towards = (np.ascontiguousarray(v, dtype=np.float64) for v in (xy, angles))
        return ray_hits(here, towards, self._tails, self._edges, self._starts, float(reach))

    def is_visible(self, start: np.ndarray, end: np.ndarray) -> bool:
        """Return whether the disc can move straight from (2,) ``start`` to ``end``."""
        first, last = (np.ascontiguousarray(point, dtype=np.float64) for point in (start, end))
        return bool(free_part(first, last, self.parts[1], self._tails, self._edges) >= 1.0)

    def snap(self, xy: np.ndarray) -> np.ndarray:
        """Return the navigable (2,) point on the largest island nearest to ``xy``.

        The point itself if it is free and belongs to that island, else the nearest grid node.

        Raises:
            ValueError: there is no free space at all.
        """
        if not len(self._island_xy):
            raise ValueError("There is no free space for the robot; check the layout's furniture.")
        point = np.asarray(xy, dtype=np.float64)
        i, j = self.grid.index(point)
        if self._island[i, j] and self.is_navigable(point):
            return point.copy()
        nearest = self._island_xy[np.argmin(((self._island_xy - point) ** 2).sum(axis=1))]
        if np.linalg.norm(nearest - point) <= self.grid.resolution and self.is_navigable(point):
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
        slack = self.grid.resolution
        if near is not None:
            distance = np.linalg.norm(nodes - near, axis=1)
            nodes = nodes[(distance <= outer + slack) & (distance >= inner - slack)]
        if not len(nodes):
            return None
        for _ in range(64):
            node = nodes[rng.integers(len(nodes))]
            point = node + rng.uniform(-0.5, 0.5, 2) * self.grid.resolution
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
        snapped = np.array([self.snap(p) for p in points])
        return GridDistanceField(self.grid, self.free, snapped, self.is_visible)

    def path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """Return the shortest path as (k, 2) waypoints from start to goal, ``None`` if cut off."""
        start = np.asarray(start, dtype=np.float64)
        if self.is_visible(start, np.asarray(goal)) and self.is_navigable(goal):
            return np.array([start, goal])
        field = self.distance_field(np.asarray(goal)[None])
        if not np.isfinite(field.distance(start)):
            return None
        waypoints, here = [start], start
        for _ in range(self.free.size):
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
