"""Angles and rotations of one world at a time, in NumPy; :mod:`tpsrl.geometry.arrays` has batches.

Quaternions are unit and ``wxyz``.
"""

from __future__ import annotations

import numpy as np


def wrap(angle: float) -> float:
    """Return the angle in [-pi, pi)."""
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


def turn(angle: float) -> np.ndarray:
    """Return the (2, 2) rotation by an angle."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def unit(angle: float) -> np.ndarray:
    """Return the (2,) direction at an angle."""
    return np.array([np.cos(angle), np.sin(angle)])


def to_base(base: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return a world (3,) point in the frame of a (3,) base pose x, y, yaw."""
    return np.append((point[:2] - base[:2]) @ turn(base[2]), point[2])


def rotation_matrix(quat: np.ndarray) -> np.ndarray:
    """Return the (3, 3) rotation of a (4,) quaternion."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return a (3,) vector turned back by a (4,) quaternion."""
    axis = -np.asarray(quat[1:])
    twice = 2 * np.cross(axis, vector)
    return vector + quat[0] * twice + np.cross(axis, twice)
