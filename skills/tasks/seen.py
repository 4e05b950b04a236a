"""The way to where a robot can reach a point, on a map of what it has seen since it began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tpsrl.geometry.arrays import Array, host
from tpsrl.geometry.rotations import to_base, wrap
from tpsrl.geometry.tables import read_between
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.robot.occupancy import CELL, OccupancyGrid
from tpsrl.sim.door import SimState

SEEN = ("seen_way", "seen_way_gap")
"""Sensors that are read from it."""
PIXELS = 64
"""Of the depth pictures that go in where a policy does not look at them itself."""
_EVERY = 6
"""Steps after which the way is looked for anew."""
_MOST = 10.0
"""What a way is told as at most, m."""


def sees_way(sensors: Iterable[str]) -> bool:
    """Tell whether one of these sensors is read from such a map."""
    return any(name in SEEN for name in sensors)


class SeenWays:
    """A map and a way in each world of a simulator.

    Depth, joints, whether something is held, how the base has moved, and where the point was as the
    skill began: nothing else goes in. So these numbers follow from the contract's observations.
    Where a contract tells no height of the point, nothing is taken to hide it; Navigate's, which is
    the one, does not tell whether something is held either, so something may be.

    Args:
        num_envs: worlds.
    """

    def __init__(self, num_envs: int) -> None:
        self._grids: list[OccupancyGrid | None] = [None] * num_envs
        self._tables: list[np.ndarray | None] = [None] * num_envs
        self._starts = np.zeros((num_envs, 3))
        self._looks = np.zeros(num_envs, dtype=np.int64)

    def begin(self, env_id: int, pose: np.ndarray, point: np.ndarray) -> None:
        """Forget what was seen in a world.

        Args:
            env_id: which.
            pose: (3,) of its base, m and rad.
            point: (3,) that the skill is about, in the world, m; its height inf where nobody told.
        """
        self._starts[env_id], self._looks[env_id] = pose, 0
        self._grids[env_id] = OccupancyGrid(np.append(to_base(pose, point)[:2], point[2]))

    def look(self, state: SimState, depth: Array, env_ids: Sequence[int]) -> None:
        """Enter the (n, k, k, 1) depth pictures of some worlds."""
        poses, arms, held = (
            host(value) for value in (state.base_pose, state.arm_qpos, state.held_object)
        )
        for i in env_ids:
            grid = self._grids[i]
            if grid is None:
                continue
            arm = arm_kinematics().points(arms[i])
            holds = held[i] >= 0 or not np.isfinite(grid.goal[2])
            grid.look(host(depth[i])[..., 0], self._moved(i, poses[i]), arm, bool(holds))
            if self._looks[i] % _EVERY == 0:
                self._tables[i] = grid.way()
            self._looks[i] += 1

    def read(self, poses: np.ndarray) -> np.ndarray:
        """Return, from (n, 3) poses, (n, 3): length of the way, m, and its direction in the world.

        Straight ahead where no way is left; zeros in worlds that have not begun yet.
        """
        ways = np.zeros((len(self._grids), 3))
        for i, (grid, table) in enumerate(zip(self._grids, self._tables, strict=True)):
            if grid is None or table is None:
                continue
            low = grid.low + CELL / 2.0
            length, x, y = read_between(table, low, CELL, self._moved(i, poses[i])[:2])
            turn = self._starts[i, 2] + np.arctan2(y, x) if x or y else poses[i, 2]
            ways[i] = min(length, _MOST), np.cos(turn), np.sin(turn)
        return ways

    def get_state(self) -> dict[str, Any]:
        """Return everything that was seen, as plain values and arrays."""
        grids = [
            None if g is None else (g.goal, g.score.copy(), g.top.copy(), g.hides.copy())
            for g in self._grids
        ]
        tables = [None if t is None else t.copy() for t in self._tables]
        return {
            "grids": grids,
            "tables": tables,
            "starts": self._starts.copy(),
            "looks": self._looks.copy(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Put back what :meth:`get_state` returned."""
        for i, known in enumerate(state["grids"]):
            grid = None if known is None else OccupancyGrid(known[0])
            if grid is not None:
                grid.score[:], grid.top[:], grid.hides[:] = known[1:]
            self._grids[i] = grid
        self._tables = [None if t is None else np.array(t) for t in state["tables"]]
        self._starts, self._looks = np.array(state["starts"]), np.array(state["looks"])

    def _moved(self, env_id: int, pose: np.ndarray) -> np.ndarray:
        """Return (3,) a pose in the frame in which the base stood at the start."""
        start = self._starts[env_id]
        place = to_base(start, np.array([pose[0], pose[1], 0.0]))
        return np.array([place[0], place[1], wrap(pose[2] - start[2])])
