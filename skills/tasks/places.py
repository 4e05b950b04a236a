"""What carries an object or a point: receptacles, cabinets, drawers."""

from __future__ import annotations

from typing import Any

import numpy as np

from skills.tasks.state import View
from tpsrl.geometry.arrays import Array, norm, wrap, yaw_of
from tpsrl.geometry.rotations import rotation_matrix
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import ReceptacleInfo

KINDS = ("open", "cabinet", "drawer")
"""Kinds of places; a cabinet has a roof (the fridge)."""
BALANCED = "balanced"
SHARES = {"open": 0.5, "cabinet": 0.25, "drawer": 0.25}
"""How often each kind is drawn with ``places="balanced"``."""

BEYOND = 0.06
"""What lies farther out than this from a receptacle's box is not on it, m."""
AHEAD, BESIDE = 0.5, 0.15
"""A base stands before a cabinet's shelf farther out and less to the side than this, m."""


def link_pose(sim: Simulator, env_id: int, joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the (3,) position and (3, 3) rotation of the link that a joint moves."""
    s = sim.state()
    quat = np.asarray(s.link_quat[env_id][joint], dtype=np.float64)
    return np.asarray(s.link_pos[env_id][joint], dtype=np.float64), rotation_matrix(quat)


def support_height(sim: Simulator, env_id: int, point: np.ndarray) -> float:
    """Return the height of the receptacle surface below a (3,) point, 0 if there is none."""
    return max((h for h, _ in _supports(sim, env_id, point)), default=0.0)


def support(sim: Simulator, env_id: int, point: np.ndarray) -> ReceptacleInfo | None:
    """Return the receptacle on which a (3,) point lies, ``None`` for none."""
    found = _supports(sim, env_id, point)
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _supports(sim: Simulator, env_id: int, point: np.ndarray) -> list[tuple[float, ReceptacleInfo]]:
    found = []
    for place in sim.scene(env_id).receptacles.values():
        if place.joint >= 0:
            pos, rotation = link_pose(sim, env_id, place.joint)
        else:
            pos, rotation = place.pos, place.rotation
        local = rotation.T @ (point - pos) - place.center
        inside = np.all(np.abs(local[:2]) <= place.half_size[:2] + BEYOND)
        if inside and -place.half_size[2] - 0.01 <= local[2] <= place.half_size[2] + 0.1:
            height = (pos + rotation @ place.center)[2] - place.half_size[2]
            found.append((float(height), place))
    return found


def enclosed(sim: Simulator, env_id: int, point: np.ndarray) -> bool:
    """Return whether a (3,) point lies in a container with a roof (a fridge, not a drawer)."""
    scene = sim.scene(env_id)
    names = scene.container_static
    return any(scene.in_container(name, point, *scene.link_rest[name]) for name in names)


def container_of(sim: Simulator, env_id: int, point: np.ndarray) -> int:
    """Return the joint of the drawer or cabinet in which a (3,) point lies, -1 for none."""
    scene, state = sim.scene(env_id), sim.state()
    for name in scene.containers:
        joint = sim.joint_names.index(name)
        link = np.asarray(state.link_pos[env_id, joint]), np.asarray(state.link_quat[env_id, joint])
        if scene.in_container(name, point, *link):
            return joint
    return -1


def place_of(sim: Simulator, env_id: int, point: np.ndarray) -> np.ndarray:
    """Return what carries a (3,) point: one row of ``Goal.start_place``, 0 if nothing does."""
    found = support(sim, env_id, point)
    if found is None:
        return np.zeros(4)
    if found.joint >= 0:
        facing = link_pose(sim, env_id, found.joint)[1][:2, 0]
    else:
        facing = found.rotation[:2, 0]
    return np.array([*facing, enclosed(sim, env_id, point), found.joint >= 0], dtype=np.float64)


def kind_of(place: np.ndarray) -> str:
    """Return which of :data:`KINDS` a (4,) row of ``Goal.start_place`` is."""
    return "cabinet" if place[2] > 0.5 else "drawer" if place[3] > 0.5 else "open"


def detour(view: View, hand: Array, point: Array, place: Array) -> Array:
    """Return (n,) m: what the straight way of a hand to a point leaves out, 0 near its end.

    How far the hand is below the point; where a roof is over the point, how far the base is from
    standing before it; and what the way round an open door is longer. On the straight way a hand
    meets a table's edge, a cabinet's wall or the outside of its door.

    Args:
        view: of the worlds.
        hand: (n, 3) in the world, m.
        point: (n, 3) in the world, m.
        place: (n, 4) what carries the point, rows of ``Goal.start_place``.
    """
    xp, gap = view.xp, view.state.base_pose[:, :2] - point[:, :2]
    ahead = place[:, 0] * gap[:, 0] + place[:, 1] * gap[:, 1]
    beside = xp.abs(place[:, 0] * gap[:, 1] - place[:, 1] * gap[:, 0])
    away = _positive(xp, beside - BESIDE) + _positive(xp, AHEAD - ahead)
    roof = place[:, 2] > 0
    below = _positive(xp, point[:, 2] - hand[:, 2])
    return below + xp.where(roof, away, 0.0) + round_door(xp, hand, point, view.goal.door)


def door_moved(view: View) -> Array:
    """Return (n,) m: how far the edge of the open door that the skill reaches behind was moved.

    Since the skill began; 0 where there is no such door.
    """
    xp, goal = view.xp, view.goal
    there = (goal.container >= 0) & xp.any(goal.door != 0.0, axis=-1)
    turn = wrap(xp, yaw_of(xp, goal.of(view.state.link_quat, "container")) - goal.door[:, 4])
    wide = norm(xp, goal.door[:, 2:4] - goal.door[:, :2])
    return xp.where(there, wide * xp.abs(turn), 0.0)


def round_door(xp: Any, start: Array, end: Array, door: Array) -> Array:
    """Return (n,) m: how much longer than the straight line the way round a door's free edge is.

    0 where the door does not stand between. Nothing leads past its hinge, where the cabinet is.

    Args:
        xp: array namespace.
        start: (n, 3) m.
        end: (n, 3) m.
        door: (n, 5) rows of ``Goal.door``.
    """
    here, there, hinge, edge = start[:, :2], end[:, :2], door[:, :2], door[:, 2:4]
    wide = norm(xp, edge - hinge)
    back = hinge - (edge - hinge) / xp.where(wide > 0.0, wide, 1.0)[:, None]
    apart = _side(back, edge, here) * _side(back, edge, there) < 0.0
    between = _side(here, there, back) * _side(here, there, edge) < 0.0
    longer = norm(xp, here - edge) + norm(xp, edge - there) - norm(xp, here - there)
    return xp.where(apart & between & (wide > 0.0), longer, 0.0)


def _side(start: Array, end: Array, point: Array) -> Array:
    along, to = end - start, point - start
    return along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0]


def _positive(xp: Any, x: Array) -> Array:
    return xp.where(x > 0.0, x, 0.0)
