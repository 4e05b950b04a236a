"""Habitat's y-up frames to z-up frames and back: the one place of the server that turns them.

(x, y, z) of Habitat is (x, -z, y) here. Frames of objects turn with the world; frames of links come
from URDF and are the same in both. Needs Python 3.9 and NumPy.
"""

from __future__ import annotations

import numpy as np

Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""From y up to z up."""


def point(value: np.ndarray, floor: float) -> np.ndarray:
    """Return points (..., 3) of Habitat's world in ours; ``floor`` is its floor's height there."""
    out = np.asarray(value, dtype=np.float64) @ Z_UP.T
    out[..., 2] -= floor
    return out


def point_back(value: np.ndarray, floor: float) -> np.ndarray:
    """Inverse of :func:`point`."""
    raised = np.asarray(value, dtype=np.float64) + [0.0, 0.0, floor]
    return Z_UP.T @ raised


def object_rotation(matrix: np.ndarray) -> np.ndarray:
    """Return the z-up rotations (..., 3, 3) of objects from Habitat's."""
    return Z_UP @ np.asarray(matrix, dtype=np.float64) @ Z_UP.T


def object_rotation_back(matrix: np.ndarray) -> np.ndarray:
    """Inverse of :func:`object_rotation`."""
    return Z_UP.T @ matrix @ Z_UP


def link_rotation(matrix: np.ndarray) -> np.ndarray:
    """Return the z-up rotations (..., 3, 3) of links' frames from Habitat's."""
    return Z_UP @ np.asarray(matrix, dtype=np.float64)


def quaternion(matrix: np.ndarray) -> np.ndarray:
    """Return the ``wxyz`` quaternions (..., 4), ``w >= 0``, of (..., 3, 3) rotations."""
    m = np.asarray(matrix, dtype=np.float64)
    x, y, z = (m[..., i, i] for i in range(3))
    symmetric = np.zeros((*m.shape[:-2], 4, 4))
    symmetric[..., 0, 0], symmetric[..., 1, 1] = x + y + z, x - y - z
    symmetric[..., 2, 2], symmetric[..., 3, 3] = y - x - z, z - x - y
    for i, j, k in ((1, 2, 3), (2, 3, 1), (3, 1, 2)):
        symmetric[..., 0, i] = m[..., k - 1, j - 1] - m[..., j - 1, k - 1]
        low, high = min(j, k), max(j, k)
        symmetric[..., low, high] = m[..., j - 1, k - 1] + m[..., k - 1, j - 1]
    # The eigenvector of the largest eigenvalue (Bar-Itzhack, 2000); upper triangle read.
    found = np.linalg.eigh(symmetric, UPLO="U")[1][..., -1]
    return np.where(found[..., :1] >= 0, found, -found)


def rotation(quat: np.ndarray) -> np.ndarray:
    """Return the (3, 3) rotation of a ``wxyz`` quaternion of any positive norm."""
    w, x, y, z = np.asarray(quat, dtype=np.float64) / np.linalg.norm(quat)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def wrap(angle: float) -> float:
    """Return an angle in [-pi, pi)."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)
