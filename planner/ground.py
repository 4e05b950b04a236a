"""Ground actions: only those that can happen and that some goal may need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from planner.model import Action, ActionSchema, Atom, Problem


def ground(problem: Problem) -> list[Action]:
    """Return the ground actions worth searching with, in canonical order.

    Two prunings keep the list short without losing any plan of least length. Forward: an action
    stays if its preconditions can become true at all when nothing is ever deleted (so no drawer
    is opened that holds nothing of interest). Backward: an action stays if it achieves a goal
    atom or a precondition of an action that stays.

    Args:
        problem: entities, start state and goal.

    Returns:
        Actions sorted by :func:`rank`.
    """
    candidates = list(_instances(problem))
    possible = _reachable(candidates, problem.init)
    useful = _relevant(possible, problem)
    return sorted(useful, key=lambda action: rank(action, problem))


def rank(action: Action, problem: Problem) -> tuple[int, int, tuple[str, ...]]:
    """Return the sort key that makes plans come out in the benchmark's order.

    First by the earliest goal atom that names an entity of the action (object 0 before object 1),
    then by the order of actions in the domain, then by name.
    """
    last = len(problem.goal)
    group: dict[str, int] = {}
    for index, atom in enumerate(problem.goal):
        for arg in atom.args:
            group.setdefault(arg, index)
    first = min((group.get(a, last) for a in action.args), default=last)
    return first, list(problem.domain.actions).index(action.schema), action.args


def _instances(problem: Problem) -> Iterator[Action]:
    domain, entities = problem.domain, problem.entities
    changing = {a.name for s in domain.actions.values() for a in s.add}
    for schema in domain.actions.values():
        choices = [
            [e for e, k in entities.items() if domain.is_a(k, kind)]
            for kind in schema.params.values()
        ]
        fixed = [a for a in schema.pre if a.name not in changing]
        for args in product(*choices):
            binding = dict(zip(schema.params, args, strict=True))
            if all(a.bind(binding) in problem.init for a in fixed):
                yield instantiate(schema, binding)


def instantiate(schema: ActionSchema, binding: dict[str, str]) -> Action:
    """Return the ground action of ``schema`` with ``binding`` (parameter -> entity)."""
    return Action(
        schema=schema.name,
        label=schema.label,
        args=tuple(binding[p] for p in schema.params),
        shown=tuple(binding[p] for p in schema.show),
        pre=frozenset(a.bind(binding) for a in schema.pre),
        add=frozenset(a.bind(binding) for a in schema.add),
        delete=tuple(a.bind(binding) for a in schema.delete),
    )


def _reachable(actions: Sequence[Action], init: Iterable[Atom]) -> list[Action]:
    atoms, waiting = set(init), list(actions)
    kept: list[Action] = []
    while True:
        now = [a for a in waiting if a.pre <= atoms]
        if not now:
            return kept
        kept += now
        waiting = [a for a in waiting if not a.pre <= atoms]
        for action in now:
            atoms |= action.add


def _relevant(actions: Sequence[Action], problem: Problem) -> list[Action]:
    # A goal that holds already needs achievers only if an action that stays can break it, and
    # likewise for preconditions: `wanted` grows with what actions that stay delete.
    wanted = {a for a in problem.goal if a not in problem.init}
    needed = set(problem.goal)
    kept: list[Action] = []
    grown = True
    while grown:
        grown = False
        for action in actions:
            if action in kept or not (action.add & wanted):
                continue
            kept.append(action)
            needed |= action.pre
            wanted |= action.pre - problem.init
            grown = True
        broken = {a for a in needed - wanted if any(k.deletes(a) for k in kept)}
        if broken:
            wanted |= broken
            grown = True
    return kept
