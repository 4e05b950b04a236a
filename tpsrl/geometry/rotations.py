"""Rotations and frames of one world at a time, in NumPy; :mod:`tpsrl.geometry.arrays` has batches.

Frames are z up, lengths metres, angles radians, quaternions ``wxyz``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Vector = Sequence[float] | np.ndarray
Quaternion = tuple[float, float, float, float]


def wrap(angle: float) -> float:
    """Return the angle in [-pi, pi)."""
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


def principal(angle: float) -> float:
    """Return the angle in (-pi, pi]; a small one keeps its sign and nearly all of its bits."""
    return float(np.arctan2(np.sin(angle), np.cos(angle)))


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


def rotation_matrix(quat: Vector) -> np.ndarray:
    """Return the (3, 3) rotation matrix of a unit quaternion."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quat_to_matrix(quat: Vector) -> np.ndarray:
    """Return the (3, 3) rotation matrix of a quaternion of any positive norm."""
    return rotation_matrix(np.asarray(quat, dtype=np.float64) / np.linalg.norm(quat))


def matrix_to_quat(matrix: np.ndarray) -> Quaternion:
    """Return the quaternion, ``w >= 0``, of a (3, 3) rotation matrix."""
    m = np.asarray(matrix, dtype=np.float64)
    # The largest eigenvector of this symmetric matrix is the quaternion (Bar-Itzhack, 2000):
    # stable for every rotation, half turns included.
    k = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], 0.0, 0.0, 0.0],
            [m[2, 1] - m[1, 2], m[0, 0] - m[1, 1] - m[2, 2], 0.0, 0.0],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], 0.0],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    q = np.linalg.eigh(k)[1][:, -1]
    return _positive(q)


def yaw_quat(yaw: float) -> np.ndarray:
    """Return the (4,) quaternion of a turn about z, ``w >= 0``."""
    quat = np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
    return quat if quat[0] >= 0 else -quat


def turned(yaw: float, tilt: np.ndarray) -> Quaternion:
    """Return the (4,) rotation ``tilt`` about y followed by ``yaw`` about z, ``w >= 0``."""
    w, z = np.cos(yaw / 2), np.sin(yaw / 2)
    return _positive(w * tilt + z * np.array([-tilt[3], -tilt[2], tilt[1], tilt[0]]))


def rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return a (3,) vector in the frame of a unit quaternion."""
    w, a, b, c = (float(value) for value in quat)
    x, y, z = (float(value) for value in vector)
    a, b, c = -a, -b, -c
    u, v, t = 2.0 * (b * z - c * y), 2.0 * (c * x - a * z), 2.0 * (a * y - b * x)
    return np.array(
        [
            x + w * u + (b * t - c * v),
            y + w * v + (c * u - a * t),
            z + w * t + (a * v - b * u),
        ]
    )


def transform(pos: Vector, rotation: np.ndarray) -> np.ndarray:
    """Return the (4, 4) transform of a position and a flat or square rotation matrix."""
    out = np.eye(4)
    out[:3, :3] = np.reshape(rotation, (3, 3))
    out[:3, 3] = pos
    return out


def frame(pos: Vector, quat: Vector) -> np.ndarray:
    """Return the (4, 4) transform of a position and a quaternion."""
    return transform(pos, quat_to_matrix(quat))


def planar_frame(pose: Vector) -> np.ndarray:
    """Return the (4, 4) transform of a pose on the floor: x, y, yaw."""
    x, y, yaw = (float(v) for v in pose)
    out = np.eye(4)
    out[:2, :2] = [[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]
    out[:2, 3] = x, y
    return out


def _positive(quat: np.ndarray) -> Quaternion:
    q = quat if quat[0] >= 0 else -quat
    return (float(q[0]), float(q[1]), float(q[2]), float(q[3]))
