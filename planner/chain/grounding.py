"""From an episode to a planning problem: which entity of the domain is what in the world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from planner import Atom, Problem
from planner.chain.problems import GOAL_PREFIX, hab_domain
from tpsrl.episodes.types import Episode, Target
from tpsrl.errors import UserError
from tpsrl.sim.door import SimState, Simulator
from tpsrl.sim.scene import SceneInfo

START_PREFIX = "START_"
"""Entity of the place where an object lay at reset; there it may be put back."""

Role = Literal["object", "goal", "start"]


@dataclass(frozen=True)
class MarkerInfo:
    """A container's handle.

    Attributes:
        name: entity in the domain, e.g. ``"cab_push_point_5"``.
        kind: ``"cab"`` or ``"fridge"``: which predicates and skills apply.
        marker: index into ``Simulator.marker_names``.
        joint: index into ``Simulator.joint_names``.
        joint_name: e.g. ``"kitchen_counter/drawer3"``.
    """

    name: str
    kind: Literal["cab", "fridge"]
    marker: int
    joint: int
    joint_name: str


@dataclass(frozen=True)
class Grounding:
    """What the entities of a problem stand for in one episode.

    Attributes:
        episode: the episode.
        targets: the episode's targets, in order.
        roles: entity -> role and index into ``targets``.
        markers: entity -> container handle.
        goal_in: goal entity -> handle of the container that encloses it; others are outside.
        start_pos: (T, 3) positions of the target objects at grounding, m.
    """

    episode: Episode
    targets: tuple[Target, ...]
    roles: Mapping[str, tuple[Role, int]]
    markers: Mapping[str, MarkerInfo]
    goal_in: Mapping[str, str]
    start_pos: np.ndarray

    def label(self, index: int) -> str:
        """Return the entity of target ``index``."""
        return self.targets[index].label

    def goal(self, index: int) -> str:
        """Return the entity of the goal of target ``index``."""
        return GOAL_PREFIX + self.targets[index].label


def without_navigation(problem: Problem) -> Problem:
    """Return the problem of a robot whose skills drive by themselves.

    ``robot_at`` is neither asked for nor brought about, and actions that do nothing else are gone.
    """

    def kept(atoms: Iterable[Atom]) -> tuple[Atom, ...]:
        return tuple(atom for atom in atoms if atom.name != "robot_at")

    actions = {
        name: replace(a, pre=kept(a.pre), add=kept(a.add), delete=kept(a.delete))
        for name, a in problem.domain.actions.items()
        if kept(a.add)
    }
    domain = replace(problem.domain, actions=actions)
    return replace(problem, domain=domain, init=frozenset(kept(problem.init)))


def rename(problem: Problem, episode: Episode) -> Problem:
    """Give the problem's objects the labels that the episode's targets have, in order.

    Raises:
        UserError: the episode has another number of targets than the problem has objects.
    """
    movable = [o for o, kind in problem.objects.items() if kind == "movable_entity_type"]
    labels = [target.label for target in episode.targets]
    if len(movable) != len(labels):
        raise UserError(
            f"episode {episode.episode_id} has {len(labels)} targets, but {problem.name} is about "
            f"{len(movable)}; give the scenario that the episode was made for."
        )
    if len(set(labels)) != len(labels):
        raise UserError(f"episode {episode.episode_id} gives two targets the same label.")
    if movable == labels:
        return problem
    names = dict(zip(movable, labels, strict=True))
    names |= {GOAL_PREFIX + a: GOAL_PREFIX + b for a, b in zip(movable, labels, strict=True)}
    return problem.replace(
        objects={names.get(o, o): kind for o, kind in problem.objects.items()},
        init=[a.bind(names) for a in problem.init],
        goal=[a.bind(names) for a in problem.goal],
        stages={k: tuple(a.bind(names) for a in v) for k, v in problem.stages.items()},
    )


def ground_episode(sim: Simulator, env_id: int) -> Grounding:
    """Relate the entities to the world. Call it right after reset: goals may move with drawers."""
    episode, state, scene = sim.episode(env_id), sim.state(), sim.scene(env_id)
    roles: dict[str, tuple[Role, int]] = {}
    for index, target in enumerate(episode.targets):
        roles[target.label] = ("object", index)
        roles[GOAL_PREFIX + target.label] = ("goal", index)
        roles[START_PREFIX + target.label] = ("start", index)
    markers = _markers(sim)
    goal_in = {}
    for target in episode.targets:
        found = _goal_container(target, sim, scene, state, env_id, markers)
        if found is not None:
            goal_in[GOAL_PREFIX + target.label] = found
    objects = [target.object_index for target in episode.targets]
    start = np.asarray(state.object_pos[env_id], dtype=np.float64)[objects]
    return Grounding(episode, tuple(episode.targets), roles, markers, goal_in, start.copy())


def inside(
    position: np.ndarray, marker: MarkerInfo, scene: SceneInfo, state: SimState, env_id: int
) -> bool:
    """Return whether a world position (3,) is in the container behind ``marker``."""
    j = marker.joint
    link = np.asarray(state.link_pos[env_id, j]), np.asarray(state.link_quat[env_id, j])
    return scene.in_container(marker.joint_name, position, *link)


def _goal_container(
    target: Target,
    sim: Simulator,
    scene: SceneInfo,
    state: SimState,
    env_id: int,
    markers: Mapping[str, MarkerInfo],
) -> str | None:
    receptacle = scene.receptacles.get(target.goal_receptacle)
    named = target.goal_receptacle
    if receptacle is not None and receptacle.joint >= 0:
        named = sim.joint_names[receptacle.joint]
    for name, info in markers.items():
        moves = info.joint_name not in scene.container_static
        if moves and named == info.joint_name:
            return name
        if inside(np.asarray(target.goal_pos), info, scene, state, env_id):
            return name
    return None


def _markers(sim: Simulator) -> dict[str, MarkerInfo]:
    found = {}
    domain = hab_domain()
    for index, (name, joint) in enumerate(zip(sim.marker_names, sim.marker_joints, strict=True)):
        kind = domain.constants.get(name)
        if kind is not None:
            short: Literal["cab", "fridge"] = "cab" if kind == "cab_type" else "fridge"
            found[name] = MarkerInfo(name, short, index, joint, sim.joint_names[joint])
    return found
