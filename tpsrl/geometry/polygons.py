"""Plane geometry of convex polygons: distances from grids, swept discs."""

from __future__ import annotations

import numpy as np

from tpsrl.compiled import compiled_later


def counter_clockwise(polygon: np.ndarray) -> np.ndarray:
    """Check one polygon and return its (v, 2) float64 vertices in counter-clockwise order."""
    vertices = np.asarray(polygon, dtype=np.float64)
    if vertices.ndim != 2 or vertices.shape[1] != 2 or len(vertices) < 3:
        raise ValueError(f"A footprint must be a (v >= 3, 2) array, got shape {vertices.shape}.")
    if not np.isfinite(vertices).all():
        raise ValueError("A footprint has a vertex that is not finite; check the furniture poses.")
    following = np.roll(vertices, -1, axis=0)
    area = np.sum(vertices[:, 0] * following[:, 1] - vertices[:, 1] * following[:, 0])
    return vertices if area >= 0.0 else vertices[::-1].copy()


def polygon_distance_grid(xs: np.ndarray, ys: np.ndarray, polygon: np.ndarray) -> np.ndarray:
    """Signed distance from the nodes of a grid to one convex polygon.

    Args:
        xs: (a,) coordinates of the grid's rows, m.
        ys: (b,) coordinates of the grid's columns, m.
        polygon: (v, 2) vertices in counter-clockwise order.

    Returns:
        (a, b) float64, m; negative inside.
    """
    edges = np.roll(polygon, -1, axis=0) - polygon
    found: np.ndarray = _distance_grid(xs, ys, polygon, edges, np.hypot(*edges.T))
    return found


@compiled_later
def _distance_grid(
    xs: np.ndarray, ys: np.ndarray, tails: np.ndarray, edges: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Signed distance, (a, b), from the nodes of a grid to a polygon.

    Args:
        xs: (a,) coordinates of the grid's rows, m.
        ys: (b,) coordinates of the grid's columns, m.
        tails: (v, 2) where its edges begin, counter-clockwise, m.
        edges: (v, 2) how they go on, m.
        lengths: (v,) of them, m.
    """
    distances = np.empty((len(xs), len(ys)))
    for i in range(len(xs)):
        for j in range(len(ys)):
            nearest, outward = np.inf, -np.inf
            for e in range(len(tails)):
                length = lengths[e]
                if length < 1e-9:
                    continue
                ux, uy = edges[e, 0] / length, edges[e, 1] / length
                x, y = xs[i] - tails[e, 0], ys[j] - tails[e, 1]
                along = x * ux + y * uy
                across = x * uy - y * ux
                beyond = max(max(-along, along - length), 0.0)
                nearest = min(nearest, across * across + beyond * beyond)
                outward = max(outward, across)
            distance = np.sqrt(nearest)
            distances[i, j] = distance if outward > 0.0 else -distance
    return distances


@compiled_later
def polygon_distances(
    points: np.ndarray,
    tails: np.ndarray,
    edges: np.ndarray,
    length2: np.ndarray,
    starts: np.ndarray,
) -> np.ndarray:
    """Signed distance from points to the nearest of several convex polygons.

    Args:
        points: (n, 2), m.
        tails: (e, 2) where the edges of all polygons begin, counter-clockwise, m.
        edges: (e, 2) how they go on, m.
        length2: (e,) squared lengths of the edges.
        starts: (p + 1,) where each polygon's edges begin, and their number.

    Returns:
        (n,) float64, m; negative inside.
    """
    result = np.empty(len(points))
    for i in range(len(points)):
        least = np.inf
        for p in range(len(starts) - 1):
            nearest, side = np.inf, -np.inf
            for e in range(starts[p], starts[p + 1]):
                x, y = points[i, 0] - tails[e, 0], points[i, 1] - tails[e, 1]
                u, v = edges[e, 0], edges[e, 1]
                part = min(max((x * u + y * v) / length2[e], 0.0), 1.0)
                dx, dy = x - part * u, y - part * v
                nearest = min(nearest, np.sqrt(dx * dx + dy * dy))
                side = max(side, x * v - y * u)
            least = min(least, nearest if side > 0.0 else -nearest)
        result[i] = least
    return result


_BEHIND = 1e-4
"""A start this deep in contact still counts as outside, m."""


@compiled_later
def capsule_hit(
    start: np.ndarray, end: np.ndarray, tails: np.ndarray, edges: np.ndarray, radius: float
) -> float:
    """Distance along a segment at which it comes within ``radius`` of an edge.

    Args:
        start: (2,), m; outside all edges.
        end: (2,), m; not ``start``.
        tails: (e, 2) where the edges begin, m.
        edges: (e, 2) how they go on, m.
        radius: m.

    Returns:
        m; ``inf`` where the segment passes by.
    """
    way_x, way_y = end[0] - start[0], end[1] - start[1]
    length = np.hypot(way_x, way_y)
    way_x, way_y = way_x / length, way_y / length
    low_x, high_x = min(start[0], end[0]) - radius, max(start[0], end[0]) + radius
    low_y, high_y = min(start[1], end[1]) - radius, max(start[1], end[1]) + radius
    least = np.inf
    for e in range(len(tails)):
        x, y, u, v = tails[e, 0], tails[e, 1], edges[e, 0], edges[e, 1]
        if max(x, x + u) < low_x or min(x, x + u) > high_x:
            continue
        if max(y, y + v) < low_y or min(y, y + v) > high_y:
            continue
        for corner in range(2):
            rel_x, rel_y = x + corner * u - start[0], y + corner * v - start[1]
            along = rel_x * way_x + rel_y * way_y
            depth = radius * radius - (rel_x * rel_x + rel_y * rel_y - along * along)
            if depth > 1e-12 and along > 0.0:
                least = min(least, along - np.sqrt(depth))
        side = max(np.hypot(u, v), 1e-12)
        u, v = u / side, v / side
        height = v * (x - start[0]) - u * (y - start[1])
        speed = u * way_y - v * way_x
        if height * speed >= 0.0:
            continue
        hit = (abs(height) - radius) / abs(speed)
        foot = (start[0] - x) * u + (start[1] - y) * v + hit * (u * way_x + v * way_y)
        # A hit behind the start is a stretch that the ray has left again round the edge's corner.
        if 0.0 <= foot <= side and hit > -_BEHIND:
            least = min(least, hit)
    return least


@compiled_later
def ray_hits(
    start: np.ndarray,
    angles: np.ndarray,
    tails: np.ndarray,
    edges: np.ndarray,
    starts: np.ndarray,
    reach: float,
) -> np.ndarray:
    """Distance from a point in several directions to the nearest of convex polygons.

    Args:
        start: (2,), m.
        angles: (k,) directions, rad.
        tails: (e, 2) where the edges of all polygons begin, counter-clockwise, m.
        edges: (e, 2) how they go on, m.
        starts: (p + 1,) where each polygon's edges begin, and their number.
        reach: m.

    Returns:
        (k,) float64, m; ``reach`` where no edge is nearer.
    """
    distances = np.full(len(angles), reach)
    cosines, sines = np.cos(angles), np.sin(angles)
    for p in range(len(starts) - 1):
        inside = True
        for e in range(starts[p], starts[p + 1]):
            x, y = tails[e, 0] - start[0], tails[e, 1] - start[1]
            inside = inside and x * edges[e, 1] - y * edges[e, 0] > 0.0
        for e in range(starts[p], starts[p + 1]):
            x, y, u, v = tails[e, 0] - start[0], tails[e, 1] - start[1], edges[e, 0], edges[e, 1]
            # From outside an edge that looks away is behind another.
            if x * v - y * u > 0.0 and not inside:
                continue
            if min(x, x + u) > reach or max(x, x + u) < -reach:
                continue
            if min(y, y + v) > reach or max(y, y + v) < -reach:
                continue
            _shorten(distances, cosines, sines, x, y, u, v)
    return distances


@compiled_later
def _shorten(
    distances: np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    x: float,
    y: float,
    u: float,
    v: float,
) -> None:
    """Shorten (k,) rays to where they meet the edge from (x, y) to (x + u, y + v)."""
    across = x * v - y * u
    for k in range(len(distances)):
        turn = cosines[k] * v - sines[k] * u
        part = x * sines[k] - y * cosines[k]
        # Whether part / turn is in [0, 1], without a division for the many that miss.
        if part * turn >= 0.0 and abs(part) <= abs(turn):
            distance = across / turn
            if distance >= 0.0 and distance < distances[k]:
                distances[k] = distance
