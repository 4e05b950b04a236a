"""Start states, drawn as habitat-lab draws them (docs/skill_environments.md, "Start states")."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast
from weakref import WeakKeyDictionary

import numpy as np

from skills.interface import SkillCall, SkillName
from skills.tasks.articulated import ArticulatedTask
from skills.tasks.base import Task
from skills.tasks.goals import goal_for_call, joint_and_marker
from skills.tasks.navigate import NavigateTask, PointNavTask
from skills.tasks.pick_place import PickTask, PlaceTask
from skills.tasks.rearrange import RearrangeTask
from skills.tasks.roam import ExploreTask, FleeTask
from skills.tasks.state import GoalRow
from tpsrl.episodes.types import Episode
from tpsrl.robot import fetch
from tpsrl.sim.door import Navigation, SceneInfo, Simulator

Spawn = Literal["hab", "near"]

YAW_NOISE = 0.523599
"""Standard deviation of the base's heading about the direction to its target, rad."""
MAX_DISTANCE = 2.0
"""Farthest start of Pick and Place from their target, m."""
DISTANCE_STEP = 0.02
"""By how much that grows each time no start is found, m."""
NEAR_NOISE = 0.05
"""Standard deviation of a ``spawn="near"`` start about the nearest free point, m."""
EE_UPPER = np.array([1.2, 0.7, 1.5]) + 0.01
"""A handle beyond this in the base frame is out of reach, m."""
SETTLE_SECONDS = 5 / fetch.PHYSICS_HZ
OPEN_DRAWER, OPEN_DOOR = 0.5, 1.5
"""Containers that hold what Pick or Place wants stand this far open, m and rad."""
_NOWHERE = np.zeros(3)


@dataclass(frozen=True)
class Start:
    """How an episode began: the goal, and the skill call that a plan would have made.

    ``call`` is ``None`` for tasks that are no part of a plan (PointNav, Flee, Explore).
    """

    goal: GoalRow
    call: SkillCall | None


class NoStartError(ValueError):
    """The episode has no start state for this skill; draw another episode."""


def draw_start(
    task: Task,
    sim: Simulator,
    env_id: int,
    episode: Episode,
    seed: int,
    spawn: Spawn = "hab",
) -> Start:
    """Load an episode into a world and put the robot at a start state of the task.

    Args:
        task: whose start states.
        sim: simulator.
        env_id: which world.
        episode: to load; its own robot start is not used.
        seed: decides everything random.
        spawn: ``"near"`` starts Pick and Place at the free point nearest to the target, as
            Habitat 2.0 did for robots whose base stands still.

    Returns:
        Goal and skill call of that world.

    Raises:
        NoStartError: no start state was found.
    """
    # The engine would draw a start pose of its own otherwise.
    placed = dataclasses.replace(episode, start=_NOWHERE)
    sim.reset([placed], [seed], [env_id])
    rng = np.random.default_rng([seed, 1])
    if isinstance(task, ArticulatedTask):
        return _articulated(task, sim, env_id, rng)
    if isinstance(task, PickTask | PlaceTask):
        return _manipulation(task, sim, env_id, rng, spawn)
    if isinstance(task, NavigateTask):
        return _navigate(task, sim, env_id, rng)
    if isinstance(task, RearrangeTask):
        return _anywhere(task, sim, env_id, rng)
    return Start(_roam(task, sim, env_id, rng), None)


def _target(sim: Simulator, env_id: int, rng: np.random.Generator, skill: str) -> int:
    count = len(sim.episode(env_id).targets)
    if not count:
        raise NoStartError(f"the episode has no target, which {skill} needs")
    return int(rng.integers(count))


def _navigate(task: NavigateTask, sim: Simulator, env_id: int, rng: np.random.Generator) -> Start:
    target = _target(sim, env_id, rng, task.name)
    holding = bool(rng.random() < task.holding_probability)
    call = SkillCall("navigate", target=target, place="goal" if holding else "start")
    row = goal_for_call(task, sim, env_id, call)
    scene = sim.scene(env_id)
    for _ in range(50):
        xy = scene.navigation.sample(rng)
        if xy is None:
            break
        gap = np.linalg.norm(np.append(xy, 0.0) - row.position)
        if gap <= task.min_start_distance:
            continue
        pose = np.array([*xy, rng.uniform(-np.pi, np.pi)])
        if _put(sim, env_id, pose):
            if holding:
                sim.snap_object(row.target, env_id)
            return Start(dataclasses.replace(row, start_pose=pose), call)
    raise NoStartError(f"no free start {task.min_start_distance} m away from the goal")


def _anywhere(task: RearrangeTask, sim: Simulator, env_id: int, rng: np.random.Generator) -> Start:
    call = SkillCall("rearrange_easy", target=_target(sim, env_id, rng, task.name))
    row = goal_for_call(task, sim, env_id, call)
    for _ in range(50):
        xy = sim.scene(env_id).navigation.sample(rng)
        if xy is None:
            break
        pose = np.array([*xy, rng.uniform(-np.pi, np.pi)])
        if _put(sim, env_id, pose):
            return Start(dataclasses.replace(row, start_pose=pose), call)
    raise NoStartError("no free start in the apartment")


def _manipulation(
    task: PickTask | PlaceTask,
    sim: Simulator,
    env_id: int,
    rng: np.random.Generator,
    spawn: Spawn,
) -> Start:
    target = _target(sim, env_id, rng, task.name)
    skill: Literal["pick", "place"] = "pick" if isinstance(task, PickTask) else "place"
    call = SkillCall(skill, target=target)
    row = goal_for_call(task, sim, env_id, call)
    pick = isinstance(task, PickTask)
    _open_around(sim, env_id, row.object_start if pick else row.position)
    if pick:  # the drawer may have taken it along
        row = goal_for_call(task, sim, env_id, call)
    centre = (row.object_start if pick else row.position)[:2]
    radius = MAX_DISTANCE
    navigation = sim.scene(env_id).navigation
    for attempt in range(200):
        radius = MAX_DISTANCE + DISTANCE_STEP * (attempt // 10)
        xy = (
            _near(navigation, centre, rng, radius)
            if spawn == "near"
            else navigation.sample(rng, near=centre, radius=radius)
        )
        if xy is None:
            continue
        pose = np.array([*xy, _facing(xy, centre) + rng.normal(0.0, YAW_NOISE)])
        if _put(sim, env_id, pose):
            if not pick:
                sim.snap_object(row.target, env_id)
            return Start(dataclasses.replace(row, start_pose=pose), call)
    raise NoStartError(f"no free start within {radius:.2f} m of the target")


def _near(
    navigation: Navigation, centre: np.ndarray, rng: np.random.Generator, radius: float
) -> np.ndarray | None:
    xy = navigation.snap(navigation.snap(centre) + rng.normal(0.0, NEAR_NOISE, 2))
    return xy if np.linalg.norm(xy - centre) <= radius else None


def _articulated(
    task: ArticulatedTask, sim: Simulator, env_id: int, rng: np.random.Generator
) -> Start:
    joint, marker = joint_and_marker(sim, task.joint_name, task.marker_name)
    wanted = {n: 0.0 for n in sim.joint_names if _piece(n) == _piece(task.joint_name)}
    wanted[task.joint_name] = float(rng.uniform(*task.start))
    if task.ajar and rng.random() < task.ajar:
        wanted[task.joint_name] = task.goal * float(rng.uniform(*task.ajar_span))
    _set_joints(sim, env_id, wanted)
    call = SkillCall(cast(SkillName, task.name), joint=task.joint_name)
    scene = sim.scene(env_id)
    origin = _spawn_frame(task, sim, scene, env_id, joint, marker)
    for _ in range(100):
        local = [_within(rng, span, task.spawn_scale) for span in (task.spawn_x, task.spawn_y)]
        cos, sin = np.cos(origin[2]), np.sin(origin[2])
        xy = origin[:2] + np.array(
            [cos * local[0] - sin * local[1], sin * local[0] + cos * local[1]]
        )
        xy = scene.navigation.snap(xy)
        handle = np.asarray(sim.state().marker_pos)[env_id, marker]
        pose = np.array([*xy, _facing(xy, handle[:2]) + rng.normal(0.0, YAW_NOISE)])
        if np.any(_in_base(pose, handle) > EE_UPPER):
            continue
        if _put(sim, env_id, pose):
            sim.settle(SETTLE_SECONDS, env_id)
            if not sim.robot_contacts(env_id):
                return Start(goal_for_call(task, sim, env_id, call), call)
        _set_joints(sim, env_id, wanted)
    raise NoStartError(f"no free start before {task.joint_name}")


def _roam(task: Task, sim: Simulator, env_id: int, rng: np.random.Generator) -> GoalRow:
    navigation = sim.scene(env_id).navigation
    for _ in range(50):
        xy = navigation.sample(rng)
        if xy is None:
            break
        pose = np.array([*xy, rng.uniform(-np.pi, np.pi)])
        if not _put(sim, env_id, pose):
            continue
        if isinstance(task, PointNavTask):
            goal = navigation.sample(
                rng, near=xy, radius=np.inf, min_distance=task.min_start_distance
            )
            if goal is None:
                continue
            shortest = float(navigation.distance_field(goal[None]).distance(xy))
            if not np.isfinite(shortest):
                continue
            return GoalRow(position=np.append(goal, 0.0), start_pose=pose, scale=shortest)
        return GoalRow(start_pose=pose, scale=_scale(task, navigation, xy))
    raise NoStartError("no free start in the apartment")


def _scale(task: Task, navigation: Navigation, xy: np.ndarray) -> float:
    """Return the largest geodesic distance from a point, or how many cells can be reached."""
    points = np.concatenate([xy[None], free_points(navigation)])
    distance = navigation.distance_field(xy[None]).distance(points)
    reachable = np.isfinite(distance)
    if isinstance(task, FleeTask):
        return max(float(distance[reachable].max()), 1e-6)
    assert isinstance(task, ExploreTask)
    cells = np.round((points[reachable] - xy) / task.cell).astype(int)
    return float(max(len(np.unique(cells, axis=0)), 1))


_LATTICES: WeakKeyDictionary[Navigation, np.ndarray] = WeakKeyDictionary()


def free_points(navigation: Navigation) -> np.ndarray:
    """Return the navigable points of a 0.1 m lattice; made once per apartment layout."""
    if navigation not in _LATTICES:
        line = np.arange(-16.0, 16.05, 0.1)
        grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        _LATTICES[navigation] = grid[navigation.is_navigable(grid)]
    return _LATTICES[navigation]


def _put(sim: Simulator, env_id: int, pose: np.ndarray) -> bool:
    """Teleport the base; return whether the robot touches nothing there."""
    sim.set_base(pose[None], [env_id])
    return not sim.robot_contacts(env_id)


def _facing(xy: np.ndarray, target: np.ndarray) -> float:
    return float(np.arctan2(target[1] - xy[1], target[0] - xy[0]))


def _in_base(pose: np.ndarray, point: np.ndarray) -> np.ndarray:
    dx, dy = point[:2] - pose[:2]
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    return np.array([cos * dx + sin * dy, cos * dy - sin * dx, point[2]])


def _within(rng: np.random.Generator, span: Sequence[float], scale: float) -> float:
    middle, half = (span[0] + span[1]) / 2, scale * (span[1] - span[0]) / 2
    return float(rng.uniform(middle - half, middle + half))


def _piece(joint: str) -> str:
    return joint.rpartition("/")[0]


def _spawn_frame(
    task: ArticulatedTask,
    sim: Simulator,
    scene: SceneInfo,
    env_id: int,
    joint: int,
    marker: int,
) -> np.ndarray:
    """Return (3,) x, y, yaw of the frame in which the start rectangle is given."""
    if task.spawn_frame == "furniture":
        return np.asarray(scene.furniture_pose[_piece(task.joint_name)], dtype=np.float64)
    state = sim.state()
    w, x, y, z = np.asarray(state.link_quat)[env_id, joint]
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return np.array([*np.asarray(state.marker_pos)[env_id, marker, :2], yaw])


def _set_joints(sim: Simulator, env_id: int, wanted: dict[str, float]) -> None:
    now = np.asarray(sim.state().joint_pos)[env_id]
    for name, value in wanted.items():
        if abs(now[sim.joint_names.index(name)] - value) > 1e-6:
            sim.set_joint(name, value, [env_id])


def _open_around(sim: Simulator, env_id: int, point: np.ndarray) -> None:
    """Open the container that a world point lies in, if it is shut."""
    state, scene = sim.state(), sim.scene(env_id)
    for name, (low, high) in scene.containers.items():
        j = sim.joint_names.index(name)
        kind = OPEN_DRAWER if sim.joint_ranges[j, 1] < 1.0 else OPEN_DOOR
        wanted = min(kind, float(sim.joint_ranges[j, 1]))
        if np.asarray(state.joint_pos)[env_id, j] > 0.5 * wanted:
            continue
        pos, quat = scene.link_rest[name]
        if name not in scene.container_static:
            pos = np.asarray(state.link_pos)[env_id, j]
            quat = np.asarray(state.link_quat)[env_id, j]
        local = _rotate_inverse(quat, point - pos)
        if np.all((local >= low) & (local <= high)):
            sim.set_joint(name, wanted, [env_id])


def _rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    axis = -np.asarray(quat[1:])
    twice = 2 * np.cross(axis, vector)
    return vector + quat[0] * twice + np.cross(axis, twice)
