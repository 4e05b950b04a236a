"""Triangle meshes of shapes, merged so that a rigid part costs one draw call."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tpsrl.geometry.rotations import quat_to_matrix
from tpsrl.scenes.description import Shape

_SEGMENTS = 16


def merge(shapes: Iterable[Shape]) -> tuple[np.ndarray, np.ndarray]:
    """Return the triangles of all shapes together.

    Args:
        shapes: solids in one common frame.

    Returns:
        (v, 3) float64 vertices, not shared between faces of a box so that edges stay sharp, and
        (f, 3) int32 faces.
    """
    vertices: list[np.ndarray] = []
    faces: list[np.ndarray] = []
    count = 0
    for shape in shapes:
        v, f = _triangles(shape)
        v = v @ quat_to_matrix(shape.quat).T + np.asarray(shape.pos)
        vertices.append(v)
        faces.append(f + count)
        count += len(v)
    return np.concatenate(vertices), np.concatenate(faces).astype(np.int32)


def _triangles(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    if shape.kind == "box":
        return _box(np.asarray(shape.size))
    if shape.kind == "cylinder":
        return _cylinder(shape.size[0], shape.size[1])
    if shape.kind == "sphere":
        return _sphere(shape.size[0])
    assert shape.vertices is not None and shape.faces is not None
    flat = np.asarray(shape.vertices)[np.asarray(shape.faces)].reshape(-1, 3)
    return flat, np.arange(len(flat)).reshape(-1, 3)


def _box(half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    vertices: list[np.ndarray] = []
    faces: list[list[int]] = []
    for axis in range(3):
        u, w = (axis + 1) % 3, (axis + 2) % 3
        for sign in (1.0, -1.0):
            corner = np.zeros((4, 3))
            corner[:, axis] = sign
            corner[:, u] = np.array([-1, 1, 1, -1]) * sign
            corner[:, w] = [-1, -1, 1, 1]
            start = 4 * len(vertices)
            faces += [[start, start + 1, start + 2], [start, start + 2, start + 3]]
            vertices.append(corner * half)
    return np.concatenate(vertices), np.array(faces)


def _cylinder(radius: float, half: float) -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(0, 2 * np.pi, _SEGMENTS, endpoint=False)
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(_SEGMENTS)], axis=1)
    low, high = ring - (0, 0, half), ring + (0, 0, half)
    vertices = np.concatenate([low, high, low, high])
    n, faces = _SEGMENTS, []
    for i in range(n):
        j = (i + 1) % n
        faces += [[i, j, n + j], [i, n + j, n + i]]
        if 0 < i < n - 1:
            faces += [[2 * n, 2 * n + i + 1, 2 * n + i], [3 * n, 3 * n + i, 3 * n + i + 1]]
    return vertices, np.array(faces)


def _sphere(radius: float) -> tuple[np.ndarray, np.ndarray]:
    stacks, slices = 8, _SEGMENTS
    theta = np.linspace(0, np.pi, stacks + 1)[:, None]
    phi = np.linspace(0, 2 * np.pi, slices, endpoint=False)[None]
    grid = np.stack(
        [np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta) + 0 * phi], axis=2
    )
    faces = []
    for i in range(stacks):
        for j in range(slices):
            a, b = i * slices + j, i * slices + (j + 1) % slices
            c, d = a + slices, b + slices
            if i > 0:
                faces.append([a, c, b])
            if i < stacks - 1:
                faces.append([b, c, d])
    return radius * grid.reshape(-1, 3), np.array(faces)
