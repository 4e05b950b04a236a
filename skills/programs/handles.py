"""Plans for leading a handle along its path: arcs of the base, headings, reaches, run-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skills.motion.moves import GiveUpError
from skills.motion.postures import arm_steps, rest_posture
from skills.motion.reach import drive_steps
from skills.motion.view import RobotView, what_if
from skills.tasks.outlines import free_space, handle_offset
from skills.tasks.places import link_pose
from skills.tasks.tolerances import TO_BE_OPENED
from tpsrl.geometry.rotations import turn, unit, wrap
from tpsrl.robot.fetch import ARM_DELTA
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import Navigation

_POINTS = 25
_PULL = 0.09
"""The approach starts this far before the handle, m."""
_WIDEST = np.radians(62.0)
"""Largest angle between the arm and the front's normal, rad."""
_DOOR_CLEARANCE = 0.36
BACK = 0.25
"""After letting go the robot backs away this far, m."""
_MOST_QUERIES = 40


@dataclass(frozen=True)
class HandlePath:
    """The way a handle takes.

    Attributes:
        points: (k, 2) positions, m.
        normals: (k,) direction in which the front faces, rad.
        hinge: (2,) hinge of a door, ``None`` for a drawer.
        height: of the handle, m.
    """

    points: np.ndarray
    normals: np.ndarray
    hinge: np.ndarray | None
    height: float


@dataclass(frozen=True)
class Lead:
    """A plan to lead a handle.

    Attributes:
        bases: (k, 3) base pose for each point of the handle's path.
        pans: (k,) shoulder pan, rad.
        posture: (7,) at the first point.
        pre: (7,) shortly before the contact.
        standoff: (3,) where the arm is raised.
        cost: control steps.
    """

    bases: np.ndarray
    pans: np.ndarray
    posture: np.ndarray
    pre: np.ndarray
    standoff: np.ndarray
    cost: float


def handle_path(sim: Simulator, env_id: int, joint: int, value: float) -> HandlePath:
    """Return the path of a joint's handle from where it is to joint position ``value``."""
    pos, rotation = link_pose(sim, env_id, joint)
    offset = handle_offset(sim, env_id, joint)
    now = float(sim.state().joint_pos[env_id][joint])
    values = np.linspace(now, value, _POINTS)
    facing = float(np.arctan2(rotation[1, 0], rotation[0, 0]))
    marker = pos + rotation @ offset
    if sim.joint_names[joint] in sim.scene(env_id).container_static:
        turns = [turn(v - now) for v in values]
        points = np.array([pos[:2] + t @ (marker[:2] - pos[:2]) for t in turns])
        return HandlePath(points, facing + values - now, pos[:2], float(marker[2]))
    points = marker[:2] + np.outer(values - now, unit(facing))
    return HandlePath(points, np.full(_POINTS, facing), None, float(marker[2]))


def plan_handle(
    sim: Simulator, env_id: int, view: RobotView, joint: int, low: Sequence[np.ndarray] = ()
) -> Lead:
    """Plan to open a closed joint or to close an open one.

    Raises:
        GiveUpError: the joint has no handle, or no motion works.
    """
    upper = float(sim.joint_ranges[joint][1])
    is_door = sim.joint_names[joint] in sim.scene(env_id).container_static
    opening = view.joints[joint] < TO_BE_OPENED["door" if is_door else "drawer"]
    value = (min(1.32, upper) if is_door else 0.9 * upper) if opening else 0.0
    return plan_lead(sim, env_id, view, joint, value, drive_weight=0.2, low=low)


def plan_lead(
    sim: Simulator,
    env_id: int,
    view: RobotView,
    joint: int,
    value: float,
    *,
    drive_weight: float = 1.5,
    low: Sequence[np.ndarray] = (),
) -> Lead:
    """Search for base arcs along which the cup can lead a handle to joint position ``value``.

    ``drive_weight`` and ``low`` are those of :func:`skills.motion.reach.plan_reach`.

    Raises:
        GiveUpError: the joint has no handle, or no motion works.
    """
    if joint not in sim.marker_joints:
        raise GiveUpError(f"'{sim.joint_names[joint]}' has no handle")
    path = handle_path(sim, env_id, joint, value)
    navigation = free_space(sim, env_id)
    closed = sim.scene(env_id).navigation
    candidates = []
    for pitch in np.radians([75.0, 60.0, 45.0]):
        for radius in np.arange(0.6, 1.01, 0.1):
            posture = arm_kinematics().planar(0.0, radius, path.height, pitch)
            back, up = _PULL * np.cos(pitch), _PULL * np.sin(pitch)
            pre = arm_kinematics().planar(0.0, radius - back, path.height + up, pitch)
            if posture is None or pre is None:
                continue
            candidates += _leads(
                navigation, closed, view, path, posture, pre, float(radius), drive_weight
            )
    if not candidates:
        raise GiveUpError("handle out of reach")
    candidates.sort(key=lambda lead: lead.cost)
    best, fewest = candidates[0], 99
    with what_if(sim, env_id) as world:
        for lead in _spread(candidates)[:_MOST_QUERIES]:
            trials = [
                (lead.bases[0], lead.pre),
                (lead.standoff, lead.pre),
                *((lead.standoff, qpos) for qpos in (view.qpos, *low)),
            ]
            touches = sum(world.touches(base, arm) for base, arm in trials)
            if touches < fewest:
                best, fewest = lead, touches
            if touches == 0:
                break
    return best


def _leads(
    navigation: Navigation,
    closed: Navigation,
    view: RobotView,
    path: HandlePath,
    posture: np.ndarray,
    pre: np.ndarray,
    radius: float,
    drive_weight: float,
) -> list[Lead]:
    """Return the feasible plans for one arm posture."""
    bearings = path.normals[0] + np.radians(np.arange(-60.0, 61.0, 15.0))
    pans = np.arange(-1.2, 1.21, 0.3)
    bends = np.array([0.0, -0.8, 0.8, -1.6, 1.6]) if path.hinge is not None else np.zeros(1)
    grid = np.stack(np.meshgrid(bearings, pans, bends, indexing="ij"), axis=-1).reshape(-1, 3)
    yaw = grid[:, 0] + np.pi - grid[:, 1]
    axis = path.points[0] + radius * np.stack([np.cos(grid[:, 0]), np.sin(grid[:, 0])], -1)
    lever = arm_kinematics().pan_axis[0]
    start = axis - lever * np.stack([np.cos(yaw), np.sin(yaw)], -1)
    keep = navigation.is_navigable(start)
    grid, yaw, start = grid[keep], yaw[keep], start[keep]
    if not len(grid):
        return []
    tracks, turned, good = _follow(path, start, yaw, grid[:, 2], radius, lever)
    good &= closed.is_navigable(tracks[..., :2]).all(axis=1)
    ends = tracks[:, -1]
    behind = ends[:, :2] - BACK * np.stack([np.cos(ends[:, 2]), np.sin(ends[:, 2])], -1)
    good &= closed.is_navigable(behind)
    good &= _clear_of_door(path, tracks)
    field = navigation.distance_field(view.base[None, :2])
    found = []
    for k in np.flatnonzero(good):
        standoff = _standoff(navigation, tracks[k, 0])
        if standoff is None:
            continue
        arm, before = posture.copy(), pre.copy()
        arm[0], before[0] = turned[k, 0], turned[k, 0]
        drive = drive_steps(field, view.base, standoff)
        cost = arm_steps(view.target, before) + drive_weight * drive
        cost += float(np.abs(np.diff(turned[k])).sum()) / ARM_DELTA
        cost += arm_steps(arm, rest_posture(arm))
        cost += 30.0 * abs(wrap(grid[k, 0] - path.normals[0]))
        if np.isfinite(cost):
            found.append(Lead(tracks[k], turned[k], arm, before, standoff, cost))
    return found


def _follow(
    path: HandlePath,
    start: np.ndarray,
    yaw: np.ndarray,
    bend: np.ndarray,
    radius: float,
    lever: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drive arcs so that the shoulder keeps its distance from the handle.

    Returns:
        (c, k, 3) base poses, (c, k) pans, (c,) bool whether the whole path was followed.
    """
    travel = np.linspace(-1.4, 1.4, 281)
    heading = yaw[:, None] + bend[:, None] * travel
    step = travel[1] - travel[0]
    zero = len(travel) // 2
    xy = np.stack([np.cos(heading), np.sin(heading)], -1).cumsum(axis=1) * step
    xy += (start - xy[:, zero])[:, None]
    axis = xy + lever * np.stack([np.cos(heading), np.sin(heading)], -1)
    count = len(start)
    rows = np.arange(count)
    at = np.full(count, zero)
    good = np.ones(count, dtype=bool)
    tracks, pans = np.zeros((count, len(path.points), 3)), np.zeros((count, len(path.points)))
    window = np.arange(-12, 13)
    for k, (point, normal) in enumerate(zip(path.points, path.normals, strict=True)):
        near = np.clip(at[:, None] + window, 0, len(travel) - 1)
        gap = axis[rows[:, None], near] - point
        miss = np.abs(np.linalg.norm(gap, axis=-1) - radius) + 1e-3 * np.abs(window)
        choice = miss.argmin(axis=1)
        at = near[rows, choice]
        tracks[:, k] = np.concatenate([xy[rows, at], heading[rows, at][:, None]], axis=1)
        to_base = gap[rows, choice]
        bearing = np.arctan2(to_base[:, 1], to_base[:, 0])
        pan = (bearing + np.pi - heading[rows, at] + np.pi) % (2 * np.pi) - np.pi
        slant = (bearing - normal + np.pi) % (2 * np.pi) - np.pi
        pans[:, k] = pan
        good &= (miss[rows, choice] < 0.03) & (np.abs(pan) < 1.4) & (np.abs(slant) < _WIDEST)
    return tracks, pans, good


def _clear_of_door(path: HandlePath, tracks: np.ndarray) -> np.ndarray:
    """Return (c,) bool: the base keeps away from the moving door or drawer front."""
    gap = np.linalg.norm(tracks[..., :2] - path.points, axis=-1)
    if path.hinge is None:
        return np.all(gap > _DOOR_CLEARANCE + 0.05, axis=1)
    door = 1.12 * (path.points - path.hinge)
    rel = tracks[..., :2] - path.hinge
    part = np.clip((rel * door).sum(-1) / (door * door).sum(-1), 0.0, 1.0)
    off = np.linalg.norm(rel - part[..., None] * door, axis=-1)
    return np.all(off > _DOOR_CLEARANCE, axis=1)


def _standoff(navigation: Navigation, base: np.ndarray) -> np.ndarray | None:
    """Return a pose straight behind ``base`` to raise the arm at."""
    for back in (0.3, 0.2, 0.4, 0.1, 0.0):
        pose = base - back * np.append(unit(base[2]), 0.0)
        free = bool(navigation.is_navigable(pose[:2]))
        end = navigation.clamp_motion(pose[:2], base[:2]) if free else pose[:2]
        if free and np.linalg.norm(end - base[:2]) < 1e-6:
            return pose
    return None


def _spread(leads: list[Lead]) -> list[Lead]:
    """Keep the cheapest of plans that start at nearly the same pose with the same reach."""
    kept: dict[tuple[int, ...], Lead] = {}
    for lead in leads:
        base = lead.bases[0]
        key = (
            *(int(v) for v in np.round(base[:2] / 0.1)),
            round(base[2] / 0.3),
            round(float(lead.posture[5]) / 0.3),
        )
        kept.setdefault(key, lead)
    return list(kept.values())
