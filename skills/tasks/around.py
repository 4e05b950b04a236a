"""What surrounds the point that a skill is about: for policies that may know the whole state.

It is measured once, when the skill begins or goes on to its next point, and stands in the goal:
furniture does not walk, and where a neighbour has rolled to since is read from the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from skills.tasks.places import container_of
from skills.tasks.state import BEARINGS, NEIGHBOURS, RELIEF, GoalRow
from tpsrl.scenes.objects import object_types
from tpsrl.sim.door import Simulator

SENSORS = frozenset(
    {"relief", "rim", "neighbours", "neighbour_gap", "target_size", "target_box", "container"}
)
"""Names of the observations that are made of it."""
NEAR = 0.6
"""Farther objects are no neighbours, m."""
SPACING = 0.2
"""Between two columns of the relief, m."""
LOW, HIGH = -1.0, 0.5
"""The relief ends at these heights above the point, m."""
_STEP, _REACH = 0.04, 6
"""Between two points of the rim's search, m, and how many there are."""
_BRINK = 0.03
"""What lies so much lower is another surface, m."""
_SIDE = int((RELIEF - 1) ** 0.5)
_UNKNOWN_HALF = 0.05
"""Half the size of an object of which no description is known, m."""


def with_surroundings(
    sim: Simulator,
    env_id: int,
    row: GoalRow,
    point: np.ndarray,
    place: np.ndarray,
    sensors: Sequence[str],
) -> GoalRow:
    """Add what surrounds a point to a goal, if a sensor shows it.

    Args:
        sim: whose world it is.
        env_id: which world.
        row: the goal.
        point: (3,) in the world, m.
        place: (4,) what carries it, a row of ``Goal.start_place``.
        sensors: of the task.

    Raises:
        UserError: the engine casts no rays.
    """
    if not SENSORS & set(sensors):
        return row
    types = [item.type for item in sim.episode(env_id).objects]
    near = _nearest(np.asarray(sim.state().object_pos)[env_id, : len(types)], point, row.target)
    sizes = np.zeros(NEIGHBOURS)
    sizes[: len(near)] = [half_size(types[k]).max() for k in near]
    return replace(
        row,
        container=container_of(sim, env_id, point),
        target_size=half_size(types[row.target]),
        neighbours=np.append(near, np.full(NEIGHBOURS - len(near), -1)).astype(np.int64),
        neighbour_size=sizes,
        relief=relief(sim, env_id, point, place[:2]),
        rim=rim(sim, env_id, point) if "rim" in sensors else row.rim,
    )


def relief(sim: Simulator, env_id: int, point: np.ndarray, facing: np.ndarray) -> np.ndarray:
    """Measure the furniture around a point, without what lies on it.

    Args:
        sim: whose world it is.
        env_id: which world.
        point: (3,) in the world, m.
        facing: (2,) x of the grid in the world; (0, 0) for that of the world.

    Returns:
        (``RELIEF``,) how much room there is above the point, at most ``HIGH``, then the heights of
        the surfaces around it above the point, row after row along ``facing``, m. Under a roof
        they are those under that roof.
    """
    up = float(sim.cast(point[None], np.array([0.0, 0.0, 1.0]), env_id)[0])
    room = min(up, HIGH)
    line = (np.arange(_SIDE) - (_SIDE - 1) / 2) * SPACING
    x = facing if facing.any() else np.array([1.0, 0.0])
    along, across = np.meshgrid(line, line, indexing="ij")
    xy = point[:2] + along[..., None] * x + across[..., None] * np.array([-x[1], x[0]])
    above = np.append(xy.reshape(-1, 2), np.full((_SIDE**2, 1), point[2] + room - 0.01), axis=1)
    down = sim.cast(above, np.array([0.0, 0.0, -1.0]), env_id)
    return np.append(room, np.clip(room - 0.01 - down, LOW, HIGH))


def rim(sim: Simulator, env_id: int, point: np.ndarray) -> np.ndarray:
    """Measure how far the surface below a point reaches: what is put down near its rim may fall.

    Args:
        sim: whose world it is.
        env_id: which world.
        point: (3,) in the world, m.

    Returns:
        (``BEARINGS``,) in equally spaced directions from the world's x anticlockwise: how far from
        the point the furniture is no lower than below it, by 0.04 m, at most 0.24 m.
    """
    angle = np.arange(BEARINGS) * (2 * np.pi / BEARINGS)
    ways = np.stack([np.cos(angle), np.sin(angle), np.zeros(BEARINGS)], axis=-1)
    steps = np.arange(1, _REACH + 1) * _STEP
    points = point + steps[:, None, None] * ways
    points = np.append(point[None], points.reshape(-1, 3), axis=0)
    down = sim.cast(points, np.array([0.0, 0.0, -1.0]), env_id)
    holds = (down[1:] < down[0] + _BRINK).reshape(_REACH, BEARINGS)
    return _STEP * np.logical_and.accumulate(holds, axis=0).sum(axis=0)


@cache
def half_size(kind: str) -> np.ndarray:
    """Return half the (3,) size of an object type, m; a small cube's if it is unknown."""
    known = object_types().get(kind)
    return np.full(3, _UNKNOWN_HALF) if known is None else np.array(known.half_size)


def _nearest(pos: np.ndarray, point: np.ndarray, target: int) -> np.ndarray:
    """Return the indices of at most ``NEIGHBOURS`` other objects near a point."""
    gap = np.linalg.norm(pos - point, axis=1)
    gap[target] = np.inf
    order = np.argsort(gap, kind="stable")[:NEIGHBOURS]
    return order[gap[order] < NEAR]
