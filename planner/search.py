"""A* over symbolic states, recorded as a ``networkx`` graph while it is expanded."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from planner.ground import ground
from planner.model import Action, Atom, PlannerError, Problem, State

MAX_STATES = 200_000
"""Expanded states after which a search gives up."""


@dataclass(frozen=True)
class Plan:
    """A shortest sequence of actions from a problem's start state to its goal.

    Attributes:
        problem: what it solves.
        actions: in order; empty if the goal holds already.
        states: ``len(actions) + 1`` states, the start first.
        graph: the explored state graph (``nx.DiGraph``): nodes are states with attribute
            ``depth``, edges carry the :class:`~planner.model.Action` as ``action``.
        seconds: wall time of grounding and search.
    """

    problem: Problem
    actions: tuple[Action, ...]
    states: tuple[State, ...]
    graph: nx.DiGraph = field(repr=False, compare=False)
    seconds: float = field(default=0.0, compare=False)

    def __len__(self) -> int:
        return len(self.actions)

    def text(self) -> list[str]:
        """Return the actions as a reader sees them, e.g. ``"pick(any_targets|0)"``."""
        return [str(action) for action in self.actions]

    def required(self) -> tuple[State, ...]:
        """Return for each position what must hold there for the rest to reach the goal.

        Entry ``k`` is the goal regressed through ``actions[k:]`` (the kernels of a triangle
        table, Fikes, Hart and Nilsson 1972); the last entry is the goal.
        """
        needed = [frozenset(self.problem.goal)]
        for action in reversed(self.actions):
            needed.append((needed[-1] - action.add) | action.pre)
        return tuple(reversed(needed))


def find_plan(problem: Problem) -> Plan | None:
    """Find a plan of least length.

    Among plans of least length it returns the first in the order of :func:`planner.ground.rank`,
    position by position, so the result is unique: object 0 is dealt with before object 1, and
    nothing is done before it must be.

    Args:
        problem: start state and goal.

    Returns:
        The plan, or ``None`` if no sequence of actions reaches the goal.

    Raises:
        PlannerError: :data:`MAX_STATES` were expanded without an answer.
    """
    began = time.perf_counter()
    actions = ground(problem)
    goal = frozenset(problem.goal)
    bound = _LandmarkBound(actions, problem)
    graph = nx.DiGraph()
    graph.add_node(problem.init, depth=0)
    # The label of a path is (f, ranks of its actions). With a consistent bound the first label
    # popped for a state is that of its shortest and, among those, first path in rank order.
    first = bound(problem.init)
    if first is None:
        return None
    queue: list[tuple[int, tuple[int, ...], int, State]] = [(first, (), 0, problem.init)]
    closed: set[State] = set()
    serial = 0
    while queue:
        _, path, _, state = heapq.heappop(queue)
        if state in closed:
            continue
        closed.add(state)
        if goal <= state:
            steps = tuple(actions[i] for i in path)
            return Plan(
                problem, steps, _walk(problem.init, steps), graph, time.perf_counter() - began
            )
        if len(closed) > MAX_STATES:
            raise PlannerError(
                f"No plan for {problem.name} within {MAX_STATES} states; give fewer goals."
            )
        for index, action, successor in _successors(actions, state):
            estimate = bound(successor) if successor not in closed else None
            if estimate is None:
                continue
            _record(graph, state, successor, action, len(path) + 1)
            serial += 1
            key = (len(path) + 1 + estimate, (*path, index), serial, successor)
            heapq.heappush(queue, key)
    return None


def _successors(actions: Sequence[Action], state: State) -> Iterator[tuple[int, Action, State]]:
    for index, action in enumerate(actions):
        if action.pre <= state:
            yield index, action, action.apply(state)


def _record(graph: nx.DiGraph, state: State, successor: State, action: Action, depth: int) -> None:
    if successor not in graph:
        graph.add_node(successor, depth=depth)
    if not graph.has_edge(state, successor):  # the first of equals in canonical order stays
        graph.add_edge(state, successor, action=action)


def _walk(state: State, actions: Sequence[Action]) -> tuple[State, ...]:
    states = [state]
    for action in actions:
        states.append(action.apply(states[-1]))
    return tuple(states)


class _LandmarkBound:
    """A consistent lower bound on the number of actions to the goal.

    A false goal atom must be achieved, and so must every false precondition that all of its
    achievers share, and so on backwards: landmarks. Each counts one action, provided that no
    action achieves two of them; so only atoms with pairwise disjoint achievers are counted, and
    that selection is made once per problem, which keeps the bound consistent.
    """

    def __init__(self, actions: Sequence[Action], problem: Problem) -> None:
        self._goal = problem.goal
        achievers: dict[Atom, list[Action]] = {}
        for action in actions:
            for atom in action.add:
                achievers.setdefault(atom, []).append(action)
        self._shared: Mapping[Atom, frozenset[Atom]] = {
            atom: frozenset.intersection(*(a.pre for a in by)) for atom, by in achievers.items()
        }
        self._counted = self._disjoint(achievers, problem)

    @staticmethod
    def _disjoint(achievers: Mapping[Atom, Sequence[Action]], problem: Problem) -> set[Atom]:
        counted: set[Atom] = set()
        used: set[Action] = set()
        goals = [a for a in problem.goal if a in achievers]
        rest = sorted(a for a in achievers if a not in goals)
        for atom in (*goals, *rest):
            if used.isdisjoint(achievers[atom]):
                counted.add(atom)
                used.update(achievers[atom])
        return counted

    def __call__(self, state: State) -> int | None:
        """Return the bound, or ``None`` if the goal cannot be reached from ``state``."""
        seen: set[Atom] = set()
        stack = [a for a in self._goal if a not in state]
        while stack:
            atom = stack.pop()
            if atom in seen:
                continue
            if atom not in self._shared:
                return None
            seen.add(atom)
            stack.extend(a for a in self._shared[atom] if a not in state and a not in seen)
        return len(seen & self._counted)
