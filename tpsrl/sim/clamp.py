"""How far a disc can move among convex polygons: compiled, for one world or for many.

``parts`` of a :class:`~tpsrl.sim.navigation.GridNavigation` are the arrays that describe its free
space here.
"""

from __future__ import annotations

import math

import numpy as np

from tpsrl.compiled import compiled_later
from tpsrl.geometry.polygons import capsule_hit, polygon_distances

ROUNDING = 1e-9
"""Clearance may fall short of the radius by this much, m."""
_EPSILON = 1e-6
"""Motion stops this far before contact, so that the point where it stops is free, m."""


@compiled_later
def clamp(
    start: np.ndarray,
    end: np.ndarray,
    clearance: np.ndarray,
    frame: np.ndarray,
    tails: np.ndarray,
    edges: np.ndarray,
    length2: np.ndarray,
    starts: np.ndarray,
) -> np.ndarray:
    """Return the farthest (2,) point on a segment that the disc reaches without contact.

    Args:
        start: (2,), m.
        end: (2,), m.
        clearance: (a, b) distance from the nodes of a grid to the polygons, m.
        frame: (6,) the first node, the upper corner of where the disc's centre may be, the disc's
            radius and the distance between nodes, m.
        tails: (e, 2) where the polygons' edges begin, m.
        edges: (e, 2) how they go on, m.
        length2: (e,) squared lengths of the edges.
        starts: (p + 1,) where each polygon's edges begin, and their number.
    """
    radius, here = frame[4], _at_node(start, clearance, frame)
    apart = math.hypot(end[0] - start[0], end[1] - start[1])
    inside = _at_node(end, clearance, frame)[1] >= 0.0
    # The grid alone shows of most motions that they touch nothing.
    if inside and here[1] >= 0.0 and here[0] - (here[1] + apart) >= radius:
        return end.copy()
    if not _is_free(start, clearance, frame, tails, edges, length2, starts):
        points = np.empty((2, 2))
        points[0], points[1] = start, end
        room = polygon_distances(points, tails, edges, length2, starts)
        better = len(tails) > 0 and room[1] > room[0] and inside
        return end.copy() if better else start.copy()
    part = free_part(start, end, frame, tails, edges)
    stop = end.copy()
    if part < 1.0:
        for k in range(2):
            stop[k] = start[k] + part * (end[k] - start[k])
    free = _is_free(stop, clearance, frame, tails, edges, length2, starts)
    return stop if free else start.copy()


@compiled_later
def free_part(
    start: np.ndarray, end: np.ndarray, frame: np.ndarray, tails: np.ndarray, edges: np.ndarray
) -> float:
    """Return how much of the segment, in [0, 1], is free before the first contact."""
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    if length == 0.0:
        return 1.0
    part = 1.0
    for k in range(2):
        motion = end[k] - start[k]
        if motion > 0.0:
            part = min(part, (frame[2 + k] - start[k]) / motion)
        elif motion < 0.0:
            part = min(part, (frame[k] - start[k]) / motion)
    hit = capsule_hit(start, end, tails, edges, frame[4])
    return max(min(part, (hit - _EPSILON) / length), 0.0)


@compiled_later
def _is_free(
    point: np.ndarray,
    clearance: np.ndarray,
    frame: np.ndarray,
    tails: np.ndarray,
    edges: np.ndarray,
    length2: np.ndarray,
    starts: np.ndarray,
) -> bool:
    known, offset = _at_node(point, clearance, frame)
    if offset < 0.0:
        return False
    if abs(known - frame[4]) <= offset and len(tails):
        known = polygon_distances(point.reshape(1, 2), tails, edges, length2, starts)[0]
    return known >= frame[4] - ROUNDING


@compiled_later
def _at_node(point: np.ndarray, clearance: np.ndarray, frame: np.ndarray) -> tuple[float, float]:
    """Return the clearance of the nearest grid node and its distance, negative when outside."""
    x, y = point[0] - frame[0], point[1] - frame[1]
    if not (x >= 0.0 and y >= 0.0 and point[0] <= frame[2] and point[1] <= frame[3]):
        return 0.0, -1.0
    side = frame[5]
    i = min(int(np.rint(x / side)), clearance.shape[0] - 1)
    j = min(int(np.rint(y / side)), clearance.shape[1] - 1)
    return clearance[i, j], math.hypot(x - side * i, y - side * j)
