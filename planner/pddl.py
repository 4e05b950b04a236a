"""Write a domain and a problem as PDDL (``:strips :typing``, positive preconditions only).

The planner's ``*`` in delete lists has no counterpart there, so it is expanded over the problem's
entities; for that they are constants of the exported domain, and each problem has its own domain
text. PDDL applies deletions before additions, as the planner does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product

from planner.model import ROOT_TYPE, WILDCARD, ActionSchema, Atom, PlannerError, Problem


def to_pddl(problem: Problem) -> tuple[str, str]:
    """Return the domain text and the problem text.

    Args:
        problem: what to export. Characters that PDDL names may not hold become ``_``:
            ``any_targets|0`` is written ``any_targets_0``.

    Raises:
        PlannerError: two entities would get the same name.
    """
    return domain_text(problem), problem_text(problem)


def domain_text(problem: Problem) -> str:
    """Return the domain in which ``problem`` is expressed, its entities as constants."""
    domain, names = problem.domain, _names(problem)
    parents = {k: p for k, p in domain.types.items() if k != ROOT_TYPE}
    lines = [f"(define (domain {_clean(domain.name)})", "  (:requirements :strips :typing)"]
    lines.append("  (:types " + " ".join(f"{k} - {p}" for k, p in parents.items()) + ")")
    lines.append("  (:constants")
    lines += [f"    {names[e]} - {kind}" for e, kind in problem.entities.items()]
    lines += ["  )", "  (:predicates"]
    for name, kinds in domain.predicates.items():
        params = "".join(f" ?x{i} - {kind}" for i, kind in enumerate(kinds))
        lines.append(f"    ({name}{params})")
    lines.append("  )")
    for schema in domain.actions.values():
        lines += _action_lines(schema, problem, names)
    return "\n".join([*lines, ")", ""])


def problem_text(problem: Problem) -> str:
    """Return start state and goal; the entities stand in the domain text."""
    names = _names(problem)
    lines = [
        f"(define (problem {_clean(problem.name)})",
        f"  (:domain {_clean(problem.domain.name)})",
        "  (:init",
    ]
    lines += [f"    {_atom(a, names)}" for a in sorted(problem.init)]
    lines.append("  )")
    lines.append("  (:goal (and " + " ".join(_atom(a, names) for a in problem.goal) + "))")
    return "\n".join([*lines, ")", ""])


def _action_lines(schema: ActionSchema, problem: Problem, names: Mapping[str, str]) -> list[str]:
    shown = {**names, **{p: f"?{p}" for p in schema.params}}
    params = " ".join(f"?{p} - {kind}" for p, kind in schema.params.items())
    effects = [_atom(a, shown) for a in schema.add]
    for atom in schema.delete:
        effects += [f"(not {_atom(a, shown)})" for a in _expand(atom, problem)]
    return [
        f"  (:action {schema.name}",
        f"    :parameters ({params})",
        f"    :precondition (and {' '.join(_atom(a, shown) for a in schema.pre)})",
        f"    :effect (and {' '.join(effects)})",
        "  )",
    ]


def _expand(atom: Atom, problem: Problem) -> Iterator[Atom]:
    domain, entities = problem.domain, problem.entities
    choices = [
        [e for e, k in entities.items() if domain.is_a(k, kind)] if arg == WILDCARD else [arg]
        for arg, kind in zip(atom.args, domain.predicates[atom.name], strict=True)
    ]
    for args in product(*choices):
        yield Atom(atom.name, args)


def _atom(atom: Atom, names: Mapping[str, str]) -> str:
    return "(" + " ".join([atom.name, *(names[a] for a in atom.args)]) + ")"


def _clean(name: str) -> str:
    text = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return text if text[:1].isalpha() else f"n{text}"


def _names(problem: Problem) -> dict[str, str]:
    names: dict[str, str] = {}
    taken: dict[str, str] = {}
    for entity in problem.entities:
        name = _clean(entity)
        clash = taken.setdefault(name.lower(), entity)
        if clash != entity:
            raise PlannerError(
                f"'{clash}' and '{entity}' would both be '{name}' in PDDL; rename one of them."
            )
        names[entity] = name
    return names
