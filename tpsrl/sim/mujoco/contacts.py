"""Contact force on the robot."""

from __future__ import annotations

import mujoco
import numpy as np

from tpsrl.robot.mjcf import GROUP_COLLISION
from tpsrl.sim.mujoco.model import ModelIndex

_BEHIND = 1e-4
"""How far behind what a ray goes through it goes on, m."""


def robot_overlap(data: mujoco.MjData, index: ModelIndex) -> float:
    """Return the depth of the deepest contact of the robot, m; 0 where it touches nothing."""
    if data.ncon == 0:
        return 0.0
    mine = index.robot_geom[data.contact.geom].any(axis=1)
    return max(0.0, -float(data.contact.dist[mine].min())) if mine.any() else 0.0


def deepest_overlap(model: mujoco.MjModel, data: mujoco.MjData, bodies: np.ndarray) -> float:
    """Return the depth of the deepest contact of any of (k,) bodies as they are now, m."""
    mujoco.mj_forward(model, data)
    owners = model.geom_bodyid[data.contact.geom]
    mine = np.isin(owners, bodies).any(axis=1)
    return float(max(0.0, -data.contact.dist[mine].min())) if mine.any() else 0.0


def suction_contacts(data: mujoco.MjData, index: ModelIndex) -> np.ndarray:
    """Return (k,) geom ids that touch the cup or lie within its sensing gap, nearest first."""
    if data.ncon == 0:
        return np.zeros(0, dtype=np.int64)
    geoms = data.contact.geom
    on_cup = geoms == index.suction_geom
    rows = np.flatnonzero(on_cup.any(axis=1))
    order = rows[np.argsort(data.contact.dist[rows], kind="stable")]
    return np.where(on_cup[order, 0], geoms[order, 1], geoms[order, 0])


def cast(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    index: ModelIndex,
    origins: np.ndarray,
    direction: np.ndarray,
) -> np.ndarray:
    """Cast rays at what furniture, walls and floor collide with.

    Args:
        model: of the world.
        data: of the world, its kinematics computed.
        index: ids of its parts.
        origins: (k, 3) points in the world, m.
        direction: (3,) unit vector in the world.

    Returns:
        (k,) float64 distances, m; ``inf`` where there is nothing.
    """
    groups, hit = np.zeros(6, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    groups[GROUP_COLLISION] = 1
    found = np.full(len(origins), np.inf)
    for k, origin in enumerate(origins):
        passed = 0.0
        while True:  # through the robot and through objects
            start = origin + passed * direction
            way = mujoco.mj_ray(model, data, start, direction, groups, 1, -1, hit)
            if way < 0:
                break
            passed += way
            if not (index.robot_geom[hit[0]] or index.object_of_geom[hit[0]] >= 0):
                found[k] = passed
                break
            passed += _BEHIND
    return found
