"""Where a chain leaves the robot for each skill: what training starts should cover."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from skills.book import row_of
from skills.tasks.handoff import HandoffStart, apply_start
from tpsrl.geometry.arrays import yaw_of
from tpsrl.geometry.rotations import to_base, turn
from tpsrl.robot import fetch
from tpsrl.sim.door import Simulator

COLUMNS = ("distance", "bearing", "arm", "out", "along")
"""Base to what the skill is about, m; its bearing, left positive, degrees; largest gap of an arm
joint to the reset posture, rad; for handles also the base in the handle's frame: out of the front
and along it, m (else NaN)."""


def arrivals(sim: Simulator, starts: Sequence[HandoffStart]) -> dict[str, np.ndarray]:
    """Return for each skill the (k, 5) table of its starts; columns as :data:`COLUMNS`.

    Args:
        sim: the starts are put into its world 0.
        starts: of any skills.

    Raises:
        UserError: a start does not fit the engine.
    """
    found: dict[str, list[np.ndarray]] = defaultdict(list)
    for start in starts:
        apply_start(sim, 0, start, 0)
        row = row_of(start.call.skill)
        goal = row.task.goal_for(sim, 0, start.call)
        point = row.task.about(goal)
        local = to_base(start.base_pose, point)
        gap = np.abs(start.arm_qpos - fetch.RESET_ARM_TARGET).max()
        bearing = np.degrees(np.arctan2(local[1], local[0]))
        frame = [np.nan, np.nan]
        if row.uses_arm and start.call.joint is not None:
            frame = _before_handle(sim, start.call.joint, start.base_pose, point)
        values = [float(np.hypot(local[0], local[1])), float(bearing), float(gap), *frame]
        found[start.call.skill].append(np.array(values))
    return {skill: np.stack(rows) for skill, rows in found.items()}


def summary_lines(table: dict[str, np.ndarray]) -> list[str]:
    """Return a line for each skill: 10, 50 and 90% quantiles of every column."""
    lines = []
    for skill, rows in sorted(table.items()):
        parts = []
        for name, column in zip(COLUMNS, rows.T, strict=True):
            if np.isfinite(column).all():
                low, middle, high = np.quantile(column, [0.1, 0.5, 0.9])
                parts.append(f"{name} {low:.2f} {middle:.2f} {high:.2f}")
        lines.append(f"{skill} ({len(rows)}): " + "; ".join(parts))
    return lines


def _before_handle(
    sim: Simulator, joint: str, base_pose: np.ndarray, handle: np.ndarray
) -> list[float]:
    yaw = float(yaw_of(np, np.asarray(sim.scene(0).link_rest[joint][1])))
    out, along = (base_pose[:2] - handle[:2]) @ turn(yaw)
    return [float(out), float(along)]
