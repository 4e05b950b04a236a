"""The state of one world as one vector, so that a step moves one array and not twenty.

Needs Python 3.9 and NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WHOLE = ("held_object", "held_marker", "step_count")
"""Fields that are whole numbers; they travel as floats."""
FLAGS = ("hold_violation", "diverged")


def fields(objects: int, joints: int, markers: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the fields of a state in their order, and their shapes."""
    return [
        ("base_pose", (3,)),
        ("arm_qpos", (7,)),
        ("arm_qvel", (7,)),
        ("arm_target", (7,)),
        ("ee_pos", (3,)),
        ("ee_quat", (4,)),
        ("held_object", ()),
        ("held_marker", ()),
        ("hold_violation", ()),
        ("object_pos", (objects, 3)),
        ("object_quat", (objects, 4)),
        ("joint_pos", (joints,)),
        ("link_pos", (joints, 3)),
        ("link_quat", (joints, 4)),
        ("marker_pos", (markers, 3)),
        ("force", ()),
        ("force_sum", ()),
        ("step_count", ()),
        ("diverged", ()),
    ]


def pack(state: dict[str, Any], objects: int, joints: int, markers: int) -> np.ndarray:
    """Return all fields of one world as a float64 vector."""
    names = fields(objects, joints, markers)
    return np.concatenate([np.asarray(state[n], dtype=np.float64).ravel() for n, _ in names])


def unpack(vector: np.ndarray, objects: int, joints: int, markers: int) -> dict[str, np.ndarray]:
    """Return the fields with a leading axis of one world.

    Raises:
        ValueError: the vector has another length than these numbers make.
    """
    names = fields(objects, joints, markers)
    wanted = sum(int(np.prod(shape)) for _, shape in names)
    if wanted != len(vector):
        raise ValueError(f"a state of {len(vector)} numbers came instead of {wanted}")
    out, start = {}, 0
    for name, shape in names:
        size = int(np.prod(shape))
        part = vector[start : start + size].reshape((1,) + shape)
        if name in WHOLE:
            part = part.astype(np.int64)
        elif name in FLAGS:
            part = part.astype(bool)
        out[name] = part
        start += size
    return out
