"""Hand-made batched states for the pure functions, as NumPy arrays or torch tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from skills.tasks.scan import RAYS
from skills.tasks.state import GoalRow, View, stack_goals
from tpsrl.sim.door import SimState


def state(n: int = 1, seed: int | None = None, **fields: Any) -> SimState:
    """A state of n worlds with 3 objects, 2 joints, 2 markers; zeros, or random from a seed."""
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> np.ndarray:
        return np.zeros((n, *shape)) if seed is None else rng.normal(0.0, 0.7, (n, *shape))

    def quats(*shape: int) -> np.ndarray:
        q = rng.normal(0.0, 1.0, (n, *shape, 4))
        if seed is None:
            q = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (n, *shape, 4)).copy()
        return q / np.linalg.norm(q, axis=-1, keepdims=True)

    def index(high: int) -> np.ndarray:
        low = np.full(n, -1)
        return low if seed is None else rng.integers(-1, high, n)

    def bools() -> np.ndarray:
        return np.zeros(n, dtype=bool) if seed is None else rng.random(n) < 0.2

    values = {
        "base_pose": floats(3),
        "arm_qpos": floats(7),
        "arm_qvel": floats(7),
        "arm_target": floats(7),
        "ee_pos": floats(3),
        "ee_quat": quats(),
        "held_object": index(3),
        "held_marker": index(2),
        "hold_violation": bools(),
        "object_pos": floats(3, 3),
        "object_quat": quats(3),
        "joint_pos": np.abs(floats(2)),
        "link_pos": floats(2, 3),
        "link_quat": quats(2),
        "marker_pos": floats(2, 3),
        "force": np.abs(floats()) * 1e4,
        "force_sum": np.abs(floats()) * 1e4,
        "step_count": np.zeros(n, dtype=np.int64),
        "diverged": bools(),
    }
    for name, value in fields.items():
        values[name] = np.broadcast_to(np.asarray(value), values[name].shape).copy()
    return SimState(**values)


def goals(n: int = 1, seed: int | None = None, **fields: Any) -> list[GoalRow]:
    """Goals with target 0, joint 0, marker 0, or random ones."""
    rng = np.random.default_rng(seed)
    if seed is None:
        return [GoalRow(target=0, joint=0, marker=0, scale=1.0, **fields)] * n
    return [
        GoalRow(
            target=int(rng.integers(3)),
            object_start=rng.normal(size=3),
            position=rng.normal(size=3),
            joint=int(rng.integers(2)),
            joint_goal=float(rng.random()),
            marker=int(rng.integers(2)),
            start_pose=rng.normal(size=3),
            scale=float(rng.random() + 0.5),
            start_place=_place(rng),
            goal_place=_place(rng),
        )
        for _ in range(n)
    ]


def _place(rng: np.random.Generator) -> np.ndarray:
    yaw = rng.uniform(-np.pi, np.pi)
    return np.array([np.cos(yaw), np.sin(yaw), *rng.integers(2, size=2)])


def view(s: SimState, rows: list[GoalRow], geodesic: Any = None) -> View:
    """What a task sees; a robot whose place is its scan, its course and the way it sees."""
    scan = abs(s.base_pose[:, :1] + s.base_pose[:, 1:2] + 0 * s.base_pose[:, [0] * RAYS])
    course = s.base_pose / 5.0
    goal = stack_goals(rows, s.base_pose)
    here, steps = s.base_pose, s.step_count
    return View(
        s,
        goal,
        geodesic,
        scan=scan,
        course=course,
        before=0.9 * here,
        steps=steps,
        told=0.1 * here,
        seen=1.1 * course,
    )


def to_torch(value: Any) -> Any:
    """The same state (or array) as torch tensors."""
    import torch

    if dataclasses.is_dataclass(value):
        fields = {f.name: to_torch(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return type(value)(**fields)  # type: ignore[call-overload]
    return torch.as_tensor(value)
