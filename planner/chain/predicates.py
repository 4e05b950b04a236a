"""Predicates of the planning domain, evaluated on simulator state; the benchmark's success."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner import Atom, Plan, Problem, State, find_plan
from planner.chain.errand import Errand
from planner.chain.grounding import (
    START_PREFIX,
    Grounding,
    ground_episode,
    inside,
    rename,
)
from planner.chain.problems import hab_problem
from skills.tasks.tolerances import CLOSED, OBJECT_AT, OPENED, ROBOT_AT
from tpsrl.errors import UserError, nearest
from tpsrl.sim.door import Simulator


class SymbolicWorld:
    """The present of one world as atoms.

    Args:
        sim: simulator, reset to the episode.
        env_id: which of its worlds.
        grounding: what the entities stand for; by default made from the present state.
    """

    def __init__(self, sim: Simulator, env_id: int, grounding: Grounding | None = None) -> None:
        self.sim, self.env_id = sim, env_id
        self.grounding = ground_episode(sim, env_id) if grounding is None else grounding
        self._predicates: dict[str, Callable[..., bool]] = {
            "in": self._in,
            "outside": lambda entity: self.container(entity) is None,
            "holding": self._holding,
            "not_holding": lambda: self.held() == (-1, -1),
            "opened_cab": self.opened,
            "opened_fridge": self.opened,
            "closed_cab": lambda marker: abs(self.joint(marker)) < CLOSED,
            "closed_fridge": lambda marker: abs(self.joint(marker)) < CLOSED,
            "robot_at": lambda entity: self.distance(entity) < ROBOT_AT,
            "object_at": self._object_at,
            "belongs": self._belongs,
        }

    def holds(self, atom: Atom) -> bool:
        """Return whether an atom is true now.

        Raises:
            UserError: no such predicate or entity.
        """
        if atom.name not in self._predicates:
            raise UserError(
                f"predicate '{atom.name}' cannot be evaluated{nearest(atom.name, self._predicates)}"
            )
        return self._predicates[atom.name](*atom.args)

    def state(self, at: str | None = None) -> State:
        """Return what a planner needs to know, as the set of true atoms.

        It differs from :meth:`holds` in two ways. ``robot_at`` holds of ``at`` alone, because a
        plan should drive up to an object even where the robot is within 2 m by chance. And a
        container that is not open counts as closed, because one that stands ajar must be opened.

        Args:
            at: entity that the robot has driven to; ``None`` for none.
        """
        atoms = {Atom("robot_at", (at,))} if at is not None else set()
        if self.held() == (-1, -1):
            atoms.add(Atom("not_holding"))
        for name, info in self.grounding.markers.items():
            atoms.add(Atom(f"{'opened' if self.opened(name) else 'closed'}_{info.kind}", (name,)))
        for index in range(len(self.grounding.targets)):
            atoms |= self._target_atoms(index)
        return frozenset(atoms)

    def _target_atoms(self, index: int) -> set[Atom]:
        label, goal = self.grounding.label(index), self.grounding.goal(index)
        atoms = {Atom("belongs", (label, goal))}
        for entity in (label, goal):
            container = self.container(entity)
            if container is not None:
                atoms.add(Atom("in", (entity, container)))
        if self._holding(label):
            atoms.add(Atom("holding", (label,)))
        elif self._object_at(label, goal):
            atoms.add(Atom("object_at", (label, goal)))
        return atoms

    def held(self) -> tuple[int, int]:
        """Return indices of the held object and the held marker, -1 for none."""
        state = self.sim.state()
        return int(state.held_object[self.env_id]), int(state.held_marker[self.env_id])

    def held_target(self) -> int | None:
        """Return the index of the target that the robot holds, ``None`` if it holds none."""
        held = self.held()[0]
        for index, target in enumerate(self.grounding.targets):
            if held >= 0 and target.object_index == held:
                return index
        return None

    def joint(self, marker: str) -> float:
        """Return the joint position of a container, m or rad."""
        index = self.grounding.markers[self._known(marker, self.grounding.markers)].joint
        return float(self.sim.state().joint_pos[self.env_id, index])

    def opened(self, marker: str) -> bool:
        """Return whether a container is open as far as it has to be for something to be reached."""
        return self.joint(marker) > OPENED[self.grounding.markers[marker].kind]

    def position(self, entity: str) -> np.ndarray:
        """Return where an entity is now: (3,) float64, m."""
        state = self.sim.state()
        if entity in self.grounding.markers:
            index = self.grounding.markers[entity].marker
            return np.asarray(state.marker_pos[self.env_id, index], dtype=np.float64)
        role, index = self.grounding.roles[self._known(entity, self.grounding.roles)]
        if role == "goal":
            return np.asarray(self.grounding.targets[index].goal_pos, dtype=np.float64)
        if role == "start":
            return self.grounding.start_pos[index]
        row = self.grounding.targets[index].object_index
        return np.asarray(state.object_pos[self.env_id, row], dtype=np.float64)

    def distance(self, entity: str) -> float:
        """Return the planar distance of the robot's base from an entity, m."""
        base = np.asarray(self.sim.state().base_pose[self.env_id, :2])
        return float(np.linalg.norm(self.position(entity)[:2] - base))

    def container(self, entity: str) -> str | None:
        """Return the container that an object or goal is in; a held object is in none."""
        role, index = self.grounding.roles[self._known(entity, self.grounding.roles)]
        if role == "goal":
            return self.grounding.goal_in.get(entity)
        if role == "object" and self.held()[0] == self.grounding.targets[index].object_index:
            return None
        scene, state = self.sim.scene(self.env_id), self.sim.state()
        position = self.position(entity)
        for name, info in self.grounding.markers.items():
            if inside(position, info, scene, state, self.env_id):
                return name
        return None

    def _in(self, entity: str, marker: str) -> bool:
        self._known(marker, self.grounding.markers)
        return self.container(entity) == marker

    def _holding(self, entity: str) -> bool:
        role, index = self.grounding.roles[self._known(entity, self.grounding.roles)]
        held = self.held()[0]
        return role == "object" and held >= 0 and held == self.grounding.targets[index].object_index

    def _object_at(self, entity: str, goal: str) -> bool:
        return float(np.linalg.norm(self.position(entity) - self.position(goal))) < OBJECT_AT

    def _belongs(self, entity: str, goal: str) -> bool:
        return self.grounding.roles[entity][1] == self.grounding.roles[goal][1]

    def _known(self, entity: str, known: object) -> str:
        names = {**self.grounding.roles, **self.grounding.markers}
        if entity not in names or entity not in known:  # type: ignore[operator]
            raise UserError(f"unknown entity '{entity}'{nearest(entity, names)}")
        return entity


def present_problem(
    base: Problem, world: SymbolicWorld, *, at: str | None = None, put_back: int | None = None
) -> Problem:
    """Return ``base`` with the present world as its start state.

    Args:
        base: problem whose objects carry the episode's labels (see :func:`rename`); targets that it
            lacks are left out, unless one is held.
        world: the present.
        at: entity that the robot has driven to.
        put_back: index of a target that may also be put back where it lay at reset.
    """
    objects, held = dict(base.objects), world.held_target()
    if held is not None:
        objects.setdefault(world.grounding.label(held), "movable_entity_type")
        objects.setdefault(world.grounding.goal(held), "goal_entity_type")
    entities = {*base.domain.constants, *objects}
    atoms = {atom for atom in world.state(at) if entities.issuperset(atom.args)}
    if put_back is not None:
        label = world.grounding.label(put_back)
        spot = START_PREFIX + label
        objects[spot] = "goal_entity_type"
        atoms.add(Atom("belongs", (label, spot)))
        container = world.container(spot)
        if container is not None:
            atoms.add(Atom("in", (spot, container)))
    return base.replace(init=atoms, objects=objects)


def plan_for(problem: Problem, world: SymbolicWorld) -> tuple[Plan | None, frozenset[str]]:
    """Plan from the present, also where a container that should be closed stands ajar.

    To a plan it is closed, since what lies in it is out of reach. Where the goal is to close it and
    the plan does not, it is planned for again as if it stood open.

    Args:
        problem: of :func:`present_problem`.
        world: the present.

    Returns:
        The plan, ``None`` for none, and the containers that it takes to be open until they are
        shut.
    """
    plan = find_plan(problem)
    if plan is None:
        return None, frozenset()
    done = {atom for action in plan.actions for atom in action.add}
    ajar = {a for a in problem.goal if a.name.startswith("closed_")} & problem.init - done
    ajar = {atom for atom in ajar if not world.holds(atom)}
    if not ajar:
        return plan, frozenset()
    opened = {Atom(atom.name.replace("closed", "opened"), atom.args) for atom in ajar}
    plan = find_plan(problem.replace(init=(problem.init - ajar) | opened))
    return plan, frozenset(atom.args[0] for atom in ajar)


class HabTask:
    """Stages and success of a scenario or an errand, judged on the present world.

    Latching of stages ("ever true", as habitat-lab's stage goals are) and the stop call are
    evaluation's. That an errand's goals were reached one after the other is seen here.

    Args:
        problem: its ``stages`` and ``goal`` are evaluated; by default the problem of the
            scenario that the episode names. An :class:`Errand` has a problem of its own.

    Raises:
        UserError: (when evaluated) the episode does not fit the problem.
    """

    def __init__(self, problem: Problem | str | None = None) -> None:
        self._problem = hab_problem(problem) if isinstance(problem, str) else problem
        self._cache: tuple[object, Problem, Grounding] | None = None
        self._to_reach: list[tuple[Atom, ...]] = []

    def stages(self, sim: Simulator, env_id: int) -> dict[str, bool]:
        """Return for each stage, in order, whether its goal holds now."""
        problem, world = self._ground(sim, env_id)
        self._look(world)
        return {k: all(world.holds(a) for a in v) for k, v in problem.stages.items()}

    def success(self, sim: Simulator, env_id: int) -> bool:
        """Return whether the goal holds, after all goals on the way to it."""
        problem, world = self._ground(sim, env_id)
        self._look(world)
        return not self._to_reach and all(world.holds(a) for a in problem.goal)

    def _look(self, world: SymbolicWorld) -> None:
        """Strike off the goals on the way that have been reached, in their order."""
        while self._to_reach and all(world.holds(a) for a in self._to_reach[0]):
            self._to_reach.pop(0)

    def _ground(self, sim: Simulator, env_id: int) -> tuple[Problem, SymbolicWorld]:
        episode = sim.episode(env_id)
        if self._cache is None or self._cache[0] is not episode:
            if isinstance(episode, Errand):
                base, self._to_reach = episode.problem(), list(episode.goals[:-1])
            else:
                base = self._problem or hab_problem(episode.scenario)
            self._cache = (episode, rename(base, episode), ground_episode(sim, env_id))
        return self._cache[1], SymbolicWorld(sim, env_id, self._cache[2])
