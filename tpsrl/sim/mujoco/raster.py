"""Depth pictures drawn on the processor, compiled by Numba.

A picture of an apartment holds a few thousand triangles and a few thousand pixels. That is little
work; the fixed cost of an OpenGL library is many times it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpsrl.compiled import compiled

_SUBPIXELS = 256.0
"""OpenGL rounds corners to this part of a pixel; with that, edges fall where it draws them."""

Point = tuple[float, float, float]
"""Right, up and ahead of the camera; or column, row (whole at centres of pixels), 1 / depth."""


class DepthParts(NamedTuple):
    """Rigid parts of a picture, the shapes that they may have, and the camera's constants.

    Attributes:
        geoms: (p,) int64 rows of the parts' poses.
        radii: (s,) float64 of spheres around the shapes' origins that hold them, m.
        corners: (s, 2) int64 first and one past the last row of ``vertices``.
        sides: (s, 2) int64 likewise of ``faces``.
        vertices: (v, 3) float64, each in its shape's frame, m.
        faces: (f, 3) int64 vertices of triangles, counted from their shape's first,
            counter-clockwise seen from outside.
        most: vertices of the largest shape.
        tangent: of half the field of view, which is the same in both directions.
        near: what is nearer to the plane of the camera is not seen, m.
        far: of the background, m.
    """

    geoms: np.ndarray
    radii: np.ndarray
    corners: np.ndarray
    sides: np.ndarray
    vertices: np.ndarray
    faces: np.ndarray
    most: int
    tangent: float
    near: float
    far: float


@compiled
def _rows(inverse: np.ndarray, plane: Point, first: float, last: float, a: Point, b: Point) -> None:
    """Raise what lies between two rows and two edges to a plane's inverse depth."""
    size = len(inverse)
    step = np.float32(plane[1])
    for i in range(max(int(np.ceil(first)), 0), min(int(np.ceil(last)), size)):
        low, high = a[0] + (i - a[1]) * a[2], b[0] + (i - b[1]) * b[2]
        if low > high:
            low, high = high, low
        begin, end = max(int(np.ceil(low)), 0), min(int(np.ceil(high)), size)
        if begin >= end:
            continue
        start = np.float32(plane[0] + plane[1] * begin + plane[2] * i)
        row = inverse[i, begin:end]
        for j in range(end - begin):
            new = start + step * np.float32(j)
            row[j] = new if new > row[j] else row[j]


@compiled
def _triangle(inverse: np.ndarray, p: Point, q: Point, r: Point) -> None:
    """Draw a triangle of pixels."""
    area = (q[0] - p[0]) * (r[1] - p[1]) - (r[0] - p[0]) * (q[1] - p[1])
    a, b, c = _rounded(p), _rounded(q), _rounded(r)
    size = len(inverse)
    if area <= 0.0 or _between(a[0], b[0], c[0], size) or _between(a[1], b[1], c[1], size):
        return
    across = ((q[2] - p[2]) * (r[1] - p[1]) - (r[2] - p[2]) * (q[1] - p[1])) / area
    up = ((q[0] - p[0]) * (r[2] - p[2]) - (r[0] - p[0]) * (q[2] - p[2])) / area
    plane = (p[2] - across * p[0] - up * p[1], across, up)
    # From the lowest row to the highest, so that neighbours get the same numbers for an edge.
    if b[1] < a[1]:
        a, b = b, a
    if c[1] < a[1]:
        a, c = c, a
    if c[1] < b[1]:
        b, c = c, b
    long = _edge(a, c)
    _rows(inverse, plane, a[1], b[1], long, _edge(a, b))
    _rows(inverse, plane, b[1], c[1], long, _edge(b, c))


@compiled
def _rounded(p: Point) -> tuple[float, float]:
    return np.rint(p[0] * _SUBPIXELS) / _SUBPIXELS, np.rint(p[1] * _SUBPIXELS) / _SUBPIXELS


@compiled
def _between(p: float, q: float, r: float, size: int) -> bool:
    """Tell whether there is no pixel's centre among three columns or rows."""
    return max(np.ceil(min(p, q, r)), 0.0) >= min(np.ceil(max(p, q, r)), size)


@compiled
def _edge(a: tuple[float, float], b: tuple[float, float]) -> Point:
    """Return column and row of an end, and columns a row."""
    return a[0], a[1], (b[0] - a[0]) / (b[1] - a[1])


@compiled
def _hidden(p: Point, q: Point, r: Point, far: float) -> bool:
    """Tell whether a triangle shows its back or lies beside or beyond the view."""
    facing = p[0] * (q[1] * r[2] - q[2] * r[1]) + p[1] * (q[2] * r[0] - q[0] * r[2])
    if facing + p[2] * (q[0] * r[1] - q[1] * r[0]) <= 0.0:
        return True
    if _aside(p[0], p[2], q[0], q[2], r[0], r[2]) or _aside(p[1], p[2], q[1], q[2], r[1], r[2]):
        return True
    return min(p[2], q[2], r[2]) > far


@compiled
def _aside(p: float, pz: float, q: float, qz: float, r: float, rz: float) -> bool:
    return (p > pz and q > qz and r > rz) or (p < -pz and q < -qz and r < -rz)


@compiled
def _pixel(p: Point, size: int) -> Point:
    inverse = 1.0 / p[2]
    return (
        (p[0] * inverse + 1.0) * size / 2 - 0.5,
        (p[1] * inverse + 1.0) * size / 2 - 0.5,
        inverse,
    )


@compiled
def _at_near(p: Point, q: Point, near: float) -> Point:
    """Return where the line between two points meets the near plane."""
    t = (near - p[2]) / (q[2] - p[2])
    return p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]), near


@compiled
def _face(inverse: np.ndarray, near: float, p: Point, q: Point, r: Point) -> None:
    """Draw a triangle of points before the camera, cut off at the near plane."""
    size = len(inverse)
    if max(p[2], q[2], r[2]) < near:
        return
    if min(p[2], q[2], r[2]) < near:
        while p[2] < near or r[2] >= near:
            p, q, r = q, r, p
        end = _at_near(p, r, near)
        if q[2] >= near:
            middle = _at_near(q, r, near)
            _triangle(inverse, _pixel(p, size), _pixel(q, size), _pixel(middle, size))
            q = middle
        else:
            q = _at_near(p, q, near)
        r = end
    _triangle(inverse, _pixel(p, size), _pixel(q, size), _pixel(r, size))


@compiled
def _place(
    view: np.ndarray, axes: np.ndarray, offset: np.ndarray, turn: np.ndarray, tangent: float
) -> None:
    """Write the (3, 4) motion from a part's frame to (right, up, ahead) of the camera.

    Right and up are scaled so that the view ends where they equal ahead.
    """
    for row in range(3):
        scale = -1.0 if row == 2 else 1.0 / tangent
        for k in range(3):
            view[row, k] = scale * (
                axes[row] * turn[k] + axes[3 + row] * turn[3 + k] + axes[6 + row] * turn[6 + k]
            )
        view[row, 3] = scale * (
            axes[row] * offset[0] + axes[3 + row] * offset[1] + axes[6 + row] * offset[2]
        )


@compiled
def _out_of_sight(centre: np.ndarray, radius: float, tangent: float, far: float) -> bool:
    """Tell whether a sphere lies behind, beyond or beside the view."""
    cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
    aside = (max(abs(centre[0]), abs(centre[1])) - centre[2]) * tangent * cosine
    return bool(centre[2] < -radius or centre[2] - radius > far or aside > radius)


@compiled
def _point(points: np.ndarray, row: int) -> Point:
    return points[row, 0], points[row, 1], points[row, 2]


@compiled
def draw(
    parts: DepthParts,
    shapes: np.ndarray,
    positions: np.ndarray,
    rotations: np.ndarray,
    eye: np.ndarray,
    axes: np.ndarray,
    picture: np.ndarray,
) -> None:
    """Draw what a camera sees.

    Args:
        parts: what may be seen.
        shapes: (p,) int64 what each part looks like, -1 where there is none.
        positions: (g, 3) of the parts, m.
        rotations: (g, 9) of the parts, rows of matrices.
        eye: (3,) position of the camera, m.
        axes: (9,) its rotation; it looks along -z and y is up.
        picture: (s, s) float32, overwritten by depth along the view from the camera's plane in
            parts of ``far``, the upper row first.
    """
    size = len(picture)
    inverse = np.full((size, size), np.float32(1.0 / parts.far), dtype=np.float32)
    points, view = np.empty((parts.most, 3)), np.empty((3, 4))
    for k in range(len(parts.geoms)):
        geom, shape = parts.geoms[k], shapes[k]
        if shape < 0:
            continue
        _place(view, axes, positions[geom] - eye, rotations[geom], parts.tangent)
        if _out_of_sight(view[:, 3], parts.radii[shape], parts.tangent, parts.far):
            continue
        first, last = parts.corners[shape, 0], parts.corners[shape, 1]
        for i in range(last - first):
            p = _point(parts.vertices, first + i)
            for row in range(3):
                points[i, row] = (
                    view[row, 0] * p[0] + view[row, 1] * p[1] + view[row, 2] * p[2] + view[row, 3]
                )
        for side in range(parts.sides[shape, 0], parts.sides[shape, 1]):
            a = _point(points, parts.faces[side, 0])
            b = _point(points, parts.faces[side, 1])
            c = _point(points, parts.faces[side, 2])
            if not _hidden(a, b, c, parts.far):
                _face(inverse, parts.near, a, b, c)
    nearest = np.float32(1.0 / parts.far)
    for i in range(size):
        for j in range(size):
            picture[size - 1 - i, j] = nearest / inverse[i, j]
