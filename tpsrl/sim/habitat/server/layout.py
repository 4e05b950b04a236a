"""The state of one world as one vector, so that a step moves one array and not twenty.

Needs Python 3.9 and NumPy.
"""

from __future__ import annotations

import functools
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
    plan, wanted = _plan(objects, joints, markers)
    if wanted != len(vector):
        raise ValueError(f"a state of {len(vector)} numbers came instead of {wanted}")
    out = {name: vector[part].reshape(shape) for name, part, shape in plan}
    for name in WHOLE:
        out[name] = out[name].astype(np.int64)
    for name in FLAGS:
        out[name] = out[name] != 0.0
    return out


@functools.lru_cache(maxsize=64)
def _plan(
    objects: int, joints: int, markers: int
) -> tuple[list[tuple[str, slice, tuple[int, ...]]], int]:
    """Return where each field lies and its shape with a leading axis; and the length of all."""
    plan, start = [], 0
    for name, shape in fields(objects, joints, markers):
        size = 1
        for extent in shape:
            size *= extent
        plan.append((name, slice(start, start + size), (1, *shape)))
        start += size
    return plan, start
