"""Habitat's y-up frames to tpsrl's z-up frames and back; nothing else converts them.

Both the world and an object's own frame turn by 90 degrees about x: (x, y, z) in Habitat is
(x, -z, y) here. Link frames come from URDF and are the same in both.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from tpsrl.geometry.rotations import principal

_Z_UP_FROM_Y_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def from_habitat(transforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert transforms of a file.

    Args:
        transforms: (n, 4, 4) float64, row-major, y up, rigid.

    Returns:
        (n, 3) positions and (n, 4) ``wxyz`` quaternions with ``w >= 0``, z up.
    """
    if len(transforms) == 0:
        return np.zeros((0, 3)), np.zeros((0, 4))
    c = _Z_UP_FROM_Y_UP
    pos = transforms[:, :3, 3] @ c.T
    xyzw = Rotation.from_matrix(c @ transforms[:, :3, :3] @ c.T).as_quat(canonical=True)
    return pos, np.roll(xyzw, 1, axis=-1)


def to_habitat(pos: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """Inverse of `from_habitat`: (n, 3) and (n, 4) to (n, 4, 4)."""
    out = np.tile(np.eye(4), (len(pos), 1, 1))
    if len(pos) == 0:
        return out
    c = _Z_UP_FROM_Y_UP
    out[:, :3, :3] = c.T @ Rotation.from_quat(np.roll(quat, -1, axis=-1)).as_matrix() @ c
    out[:, :3, 3] = pos @ c
    return out


def points_from_habitat(points: np.ndarray) -> np.ndarray:
    """Turn (..., 3) points or directions from y up to z up."""
    return np.asarray(points, dtype=np.float64) @ _Z_UP_FROM_Y_UP.T


def points_to_habitat(points: np.ndarray) -> np.ndarray:
    """Inverse of `points_from_habitat`."""
    return np.asarray(points, dtype=np.float64) @ _Z_UP_FROM_Y_UP


def start_from_habitat(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """(3,) position and (4,) ``xyzw`` rotation about y to (3,) x, y, yaw."""
    yaw = 2.0 * np.arctan2(rotation[1], rotation[3])
    return np.array([position[0], -position[2], principal(yaw)])


def start_to_habitat(start: np.ndarray) -> tuple[list[float], list[float]]:
    """Inverse of `start_from_habitat` (the robot stands on the floor)."""
    x, y, yaw = (float(v) for v in start)
    return [x, 0.0, -y], [0.0, float(np.sin(yaw / 2)), 0.0, float(np.cos(yaw / 2))]
