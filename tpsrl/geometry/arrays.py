"""Geometry on batches, written once against the Python array API (NumPy and torch run it)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace, to_device

Array = Any
B = TypeVar("B")


def host(values: Array) -> np.ndarray:
    """Return an array of an engine as a NumPy array."""
    return np.asarray(to_device(values, "cpu"))


def to_base(xp: Any, pose: Array, points: Array) -> Array:
    """Express world points in the robot's base frame (x forward, y left, z up).

    Args:
        xp: array namespace.
        pose: (n, 3) x, y, yaw of the base.
        points: (n, 3) in the world, m.

    Returns:
        (n, 3), m.
    """
    cos, sin = xp.cos(pose[:, 2]), xp.sin(pose[:, 2])
    x, y = points[:, 0] - pose[:, 0], points[:, 1] - pose[:, 1]
    return xp.stack([cos * x + sin * y, cos * y - sin * x, points[:, 2]], axis=-1)


def to_frame(xp: Any, origin: Array, quat: Array, points: Array) -> Array:
    """Express world points in a frame given by its (n, 3) origin and (n, 4) wxyz orientation."""
    return to_world(xp, xp.concat([quat[:, :1], -quat[:, 1:]], axis=-1), points - origin)


def to_world(xp: Any, quat: Array, vectors: Array) -> Array:
    """Express (n, 3) vectors of a frame of (n, 4) wxyz orientation in the world."""
    x, y, z = vectors[:, 0], vectors[:, 1], vectors[:, 2]
    # v + 2 w (q x v) + 2 q x (q x v), with the vector part of the quaternion.
    w, a, b, c = (quat[:, i] for i in range(4))
    tx, ty, tz = 2 * (b * z - c * y), 2 * (c * x - a * z), 2 * (a * y - b * x)
    turned = [
        x + w * tx + b * tz - c * ty,
        y + w * ty + c * tx - a * tz,
        z + w * tz + a * ty - b * tx,
    ]
    return xp.stack(turned, axis=-1)


def norm(xp: Any, vectors: Array) -> Array:
    """Return the (n,) Euclidean lengths of (n, k) vectors."""
    return xp.sqrt(xp.vecdot(vectors, vectors))


def wrap(xp: Any, angle: Array) -> Array:
    """Return angles in [-pi, pi)."""
    return xp.remainder(angle + np.pi, 2 * np.pi) - np.pi


def yaw_of(xp: Any, quat: Array) -> Array:
    """Return the (...) turn about the vertical, rad, of (..., 4) wxyz orientations."""
    w, x, y, z = (quat[..., i] for i in range(4))
    return xp.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def change(xp: Any, before: Array, now: Array) -> Array:
    """Return (n,) how much a distance has shrunk; 0 where there was none before (NaN)."""
    return xp.where(xp.isnan(before), 0.0, before - now)


def to_milli(xp: Any, values: Array) -> Array:
    """Round to three decimals, as habitat-lab does with the shaped distances of Pick and Place."""
    return xp.round(values * 1000.0) / 1000.0


def merge_rows(old: B, new: B, rows: Array) -> B:
    """Take the rows of ``new`` where ``rows`` (n,) is true, of ``old`` elsewhere.

    Args:
        old: dataclass of (n, ...) arrays.
        new: dataclass of the same type and shapes.
        rows: (n,) bool.
    """
    merged = {}
    xp = array_namespace(rows)
    for field in dataclasses.fields(old):  # type: ignore[arg-type]
        a, b = getattr(old, field.name), getattr(new, field.name)
        mask = xp.reshape(rows, (-1, *([1] * (a.ndim - 1))))
        merged[field.name] = xp.where(mask, b, a)
    return dataclasses.replace(old, **merged)  # type: ignore[type-var]
