"""The state of one world as one record, so that a step moves one array and not twenty.

Needs Python 3.9 and NumPy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

WHOLE = ("held_object", "held_marker", "step_count")
"""Fields that are whole numbers."""
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
    """Return all fields of one world as (bytes,) uint8."""
    kind = _record(objects, joints, markers)
    record = np.empty(1, kind)
    for name in kind.names or ():
        record[name] = state[name]
    return record.view(np.uint8)


def unpack(data: np.ndarray, objects: int, joints: int, markers: int) -> dict[str, np.ndarray]:
    """Return the fields with a leading axis of one world, as views of (bytes,) uint8.

    Raises:
        ValueError: the record has another length than these numbers make.
    """
    kind = _record(objects, joints, markers)
    if data.nbytes != kind.itemsize:
        raise ValueError(f"a state of {data.nbytes} bytes came instead of {kind.itemsize}")
    record = data.view(kind)
    return {name: record[name] for name in kind.names or ()}


@functools.lru_cache(maxsize=64)
def _record(objects: int, joints: int, markers: int) -> np.dtype[np.void]:
    parts: list[Any] = []
    for name, shape in fields(objects, joints, markers):
        kind = np.int64 if name in WHOLE else np.bool_ if name in FLAGS else np.float64
        parts.append((name, kind, shape))
    return np.dtype(parts, align=True)
