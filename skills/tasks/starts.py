"""Parts of start states, drawn as habitat-lab draws them (docs/skill_arguments.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from skills.interface import SkillCall
from skills.tasks.around import half_size
from skills.tasks.state import GoalRow
from skills.tasks.tolerances import WIDE_OPEN
from tpsrl.errors import UserError
from tpsrl.geometry.rotations import yaw_quat
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import Navigation

Spawn = Literal["hab", "near"]
"""``"near"`` starts Pick and Place at the free point nearest to the target, as Habitat 2.0 did for
robots whose base stands still."""

YAW_NOISE = 0.523599
"""Standard deviation of the base's heading about the direction to its target, rad."""
MAX_DISTANCE = 2.0
"""Farthest start of Pick and Place from their target, m."""
DISTANCE_STEP = 0.02
"""By how much that grows each time no start is found, m."""
NEAR_NOISE, NEAR_STEP = 0.05, 0.01
"""Standard deviation of a ``spawn="near"`` start about the nearest free point, m, and by how much
that grows each time no start is found: beside furniture an arm at rest often has no room."""
_FALL = (0.2, 1.0)
"""How far from where it lay a thing may fall, m."""
_BESIDE = 0.4
"""A thing on the floor lies so near to where a robot can stand, m."""
_SKY, _DROPS = 1.8, 30
_CORNERS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) / np.sqrt(2.0)


@dataclass(frozen=True)
class Start:
    """How an episode began: the goal, and the skill call that a plan would have made.

    ``call`` is ``None`` for tasks that are no part of a plan (PointNav, Flee, Explore).
    """

    goal: GoalRow
    call: SkillCall | None


class NoStartError(ValueError):
    """The episode has no start state for this skill; draw another episode."""


def draw_target(sim: Simulator, env_id: int, rng: np.random.Generator, skill: str) -> int:
    """Return the index of one of the episode's targets.

    Raises:
        NoStartError: it has none.
    """
    count = len(sim.episode(env_id).targets)
    if not count:
        raise NoStartError(f"the episode has no target, which {skill} needs")
    return int(rng.integers(count))


def free_poses(
    sim: Simulator,
    env_id: int,
    rng: np.random.Generator,
    accept: Callable[[np.ndarray], bool] = lambda xy: True,
) -> Iterator[np.ndarray]:
    """Put the base at up to 50 random poses and yield those (3,) where the robot touches nothing.

    Args:
        sim: the simulator.
        env_id: its world.
        rng: draws them.
        accept: says of a (2,) point whether it will do.
    """
    for _ in range(50):
        xy = sim.scene(env_id).navigation.sample(rng)
        if xy is None:
            return
        if not accept(xy):
            continue
        pose = np.array([*xy, rng.uniform(-np.pi, np.pi)])
        if put(sim, env_id, pose):
            yield pose


def put_near(
    sim: Simulator, env_id: int, rng: np.random.Generator, centre: np.ndarray, spawn: Spawn
) -> np.ndarray:
    """Put the base near a (2,) point, facing it; return the (3,) pose.

    Raises:
        NoStartError: there is no free place.
    """
    radius = MAX_DISTANCE
    navigation = sim.scene(env_id).navigation
    nearest = navigation.snap(centre) if spawn == "near" else None
    for attempt in range(200):
        failed = attempt // 10
        radius = MAX_DISTANCE + DISTANCE_STEP * failed
        if nearest is None:
            xy = navigation.sample(rng, near=centre, radius=radius)
        else:
            xy = navigation.snap(nearest + rng.normal(0.0, NEAR_NOISE + NEAR_STEP * failed, 2))
            xy = xy if np.linalg.norm(xy - centre) <= radius else None
        if xy is None:
            continue
        pose = np.array([*xy, facing(xy, centre) + rng.normal(0.0, YAW_NOISE)])
        if put(sim, env_id, pose):
            return pose
    raise NoStartError(f"no free start within {radius:.2f} m of the target")


def put(sim: Simulator, env_id: int, pose: np.ndarray) -> bool:
    """Teleport the base where the robot touches nothing; return whether that is so there."""
    touches = getattr(sim, "robot_touches_from", None)  # engines may offer it
    found = None if touches is None else touches(pose, env_id)
    if not found:
        sim.set_base(pose[None], [env_id])
    return not (sim.robot_contacts(env_id) if found is None else found)


def facing(xy: np.ndarray, target: np.ndarray) -> float:
    """Return the direction from one (2,) point to another, rad."""
    return float(np.arctan2(target[1] - xy[1], target[0] - xy[0]))


def open_around(sim: Simulator, env_id: int, point: np.ndarray) -> bool:
    """Open the container that a (3,) world point lies in, if it is shut; return whether it was."""
    state, scene, opened = sim.state(), sim.scene(env_id), False
    for name in scene.containers:
        j = sim.joint_names.index(name)
        wide = WIDE_OPEN["drawer" if sim.joint_ranges[j, 1] < 1.0 else "door"]
        wanted = min(wide, float(sim.joint_ranges[j, 1]))
        if np.asarray(state.joint_pos)[env_id, j] > 0.5 * wanted:
            continue
        link = np.asarray(state.link_pos)[env_id, j], np.asarray(state.link_quat)[env_id, j]
        if scene.in_container(name, point, *link):
            sim.set_joint(name, wanted, [env_id])
            opened = True
    return opened


def drop(sim: Simulator, env_id: int, rng: np.random.Generator, index: int) -> bool:
    """Lay an object on the floor under the open sky, at most 1 m from where it lies.

    Args:
        sim: whose world it is.
        env_id: which world.
        rng: draws the place and how the object is turned.
        index: of the object.

    Returns:
        Whether there was such a place that a robot could come near to; never where the engine casts
        no rays.
    """
    navigation = sim.scene(env_id).navigation
    half = half_size(sim.episode(env_id).objects[index].type)
    at = np.asarray(sim.state().object_pos)[env_id, index]
    wide, quat = float(np.hypot(half[0], half[1])), yaw_quat(rng.uniform(-np.pi, np.pi))
    corners = np.vstack([np.zeros((1, 2)), wide * _CORNERS])
    for _ in range(_DROPS):
        angle = rng.uniform(-np.pi, np.pi)
        xy = at[:2] + rng.uniform(*_FALL) * np.array([np.cos(angle), np.sin(angle)])
        if np.linalg.norm(navigation.snap(xy) - xy) > _BESIDE:
            continue
        above = np.append(xy + corners, np.full((len(corners), 1), _SKY), axis=1)
        try:
            down = sim.cast(above, np.array([0.0, 0.0, -1.0]), env_id)
        except UserError:
            return False
        if np.all(np.abs(down - _SKY) < 0.01):
            pos = np.array([*xy, half[2] + 0.002])
            sim.set_objects([index], pos[None], quat[None], env_id)
            return True
    return False


_LATTICE = 16.0
"""The lattice reaches at least so far from the origin along both axes, m."""
_LATTICES: WeakKeyDictionary[Navigation, np.ndarray] = WeakKeyDictionary()


def free_points(navigation: Navigation) -> np.ndarray:
    """Return the navigable points of a 0.1 m lattice; made once per apartment layout."""
    if navigation not in _LATTICES:
        low, high = np.minimum(np.floor(navigation.bounds[0]), -_LATTICE), navigation.bounds[1]
        high = np.maximum(np.ceil(high), _LATTICE) + 0.05
        lines = [np.arange(a, b, 0.1) for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 2)
        _LATTICES[navigation] = grid[navigation.is_navigable(grid)]
    return _LATTICES[navigation]
