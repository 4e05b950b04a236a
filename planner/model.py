"""Types, predicates, actions and states of a planning domain (typed STRIPS).

A state is the immutable set of atoms that are true; everything else is false. Preconditions are
true atoms only, so a domain can be exported to PDDL's ``:strips :typing`` without loss.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WILDCARD = "*"
ROOT_TYPE = "object"

_ATOM = re.compile(r"\s*([\w-]+)\s*\(\s*(.*?)\s*\)\s*\Z")


class PlannerError(ValueError):
    """A domain, problem or query that makes no sense; the message is one sentence."""


class Atom(NamedTuple):
    """A predicate applied to entities (or, inside an action schema, to parameters)."""

    name: str
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.args)})"

    @classmethod
    def parse(cls, text: str) -> Atom:
        """Read ``"object_at(a, b)"``.

        Raises:
            PlannerError: the text is not of that form.
        """
        match = _ATOM.match(text)
        if match is None:
            raise PlannerError(f"'{text}' is no atom; write it as name(arg, ...) or name().")
        args = match.group(2)
        return cls(match.group(1), tuple(a.strip() for a in args.split(",")) if args else ())

    def bind(self, values: Mapping[str, str]) -> Atom:
        """Replace parameters by ``values``; arguments that are not in it stay."""
        return Atom(self.name, tuple(values.get(a, a) for a in self.args))

    def matches(self, other: Atom) -> bool:
        """Return whether ``other`` is this atom, a ``*`` here standing for any entity."""
        return (
            self.name == other.name
            and len(self.args) == len(other.args)
            and all(a in (WILDCARD, b) for a, b in zip(self.args, other.args, strict=True))
        )


State = frozenset[Atom]
"""The atoms that are true."""


@dataclass(frozen=True)
class ActionSchema:
    """An action with typed parameters.

    Attributes:
        name: unique in the domain, e.g. ``"pick_from_cab"``.
        label: what a reader sees, e.g. ``"pick"``; several schemas may share it.
        params: parameter -> type, in order.
        show: the parameters that a reader sees.
        pre: atoms that must be true.
        add: atoms that become true.
        delete: atoms that become false unless they are added; ``*`` matches any entity.
    """

    name: str
    label: str
    params: Mapping[str, str]
    show: tuple[str, ...]
    pre: tuple[Atom, ...]
    add: tuple[Atom, ...]
    delete: tuple[Atom, ...]


@dataclass(frozen=True)
class Action:
    """A ground action.

    Attributes:
        schema: name of the schema, e.g. ``"pick_from_cab"``.
        label: e.g. ``"pick"``.
        args: entity of each parameter of the schema.
        shown: the entities that a reader sees.
        pre, add: atoms.
        delete: atoms, possibly with ``*``.
    """

    schema: str
    label: str
    args: tuple[str, ...]
    shown: tuple[str, ...]
    pre: frozenset[Atom]
    add: frozenset[Atom]
    delete: tuple[Atom, ...]

    def __str__(self) -> str:
        return f"{self.label}({', '.join(self.shown)})"

    @property
    def effects(self) -> tuple[Atom, ...]:
        """Atoms that hold after the action, sorted."""
        return tuple(sorted(self.add))

    def deletes(self, atom: Atom) -> bool:
        """Return whether the action makes ``atom`` false."""
        return atom not in self.add and any(d.matches(atom) for d in self.delete)

    def apply(self, state: State) -> State:
        """Return the state after the action; its preconditions are not checked."""
        kept = (a for a in state if not any(d.matches(a) for d in self.delete))
        return frozenset(kept) | self.add


@dataclass(frozen=True)
class Domain:
    """What kinds of things there are and what can be done to them.

    Attributes:
        name: e.g. ``"hab"``.
        types: type -> its parent; the root is ``"object"``.
        constants: entity -> type, present in every problem.
        predicates: predicate -> types of its arguments.
        complements: predicate p -> q: ``p(x)`` holds initially where no ``q(x, ...)`` does.
        actions: name -> schema, in order.
    """

    name: str
    types: Mapping[str, str]
    constants: Mapping[str, str]
    predicates: Mapping[str, tuple[str, ...]]
    complements: Mapping[str, str]
    actions: Mapping[str, ActionSchema]

    def is_a(self, kind: str, wanted: str) -> bool:
        """Return whether type ``kind`` is ``wanted`` or a subtype of it."""
        while kind != wanted:
            if kind not in self.types:
                return False
            kind = self.types[kind]
        return True


@dataclass(frozen=True)
class Problem:
    """Entities, start state and goal of one planning problem.

    Attributes:
        name: e.g. ``"set_table"``.
        domain: what it is expressed in.
        objects: entity -> type, without the domain's constants.
        init: start state, complements included.
        goal: atoms, in the order in which plans should achieve them where length allows.
        stages: name -> atoms; milestones that evaluation reports.
    """

    name: str
    domain: Domain
    objects: Mapping[str, str]
    init: State
    goal: tuple[Atom, ...]
    stages: Mapping[str, tuple[Atom, ...]] = field(default_factory=dict)

    @property
    def entities(self) -> dict[str, str]:
        """All entities with their types: constants first, then objects."""
        return {**self.domain.constants, **self.objects}

    def replace(
        self,
        init: Iterable[Atom] | None = None,
        goal: Sequence[Atom] | None = None,
        objects: Mapping[str, str] | None = None,
        stages: Mapping[str, tuple[Atom, ...]] | None = None,
    ) -> Problem:
        """Return a checked copy with another start state, goal, object list or stages.

        Complements (``outside``) of a new ``init`` are filled in.

        Raises:
            PlannerError: an atom names an unknown predicate or entity, or has a wrong type.
        """
        return make_problem(
            self.name,
            self.domain,
            self.objects if objects is None else objects,
            self.init if init is None else init,
            self.goal if goal is None else goal,
            self.stages if stages is None else stages,
        )


def suggest(word: str, valid: Iterable[str]) -> str:
    """Return a hint: the closest valid word, else all of them."""
    options = sorted(valid)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"valid ones are: {', '.join(options)}."


def check_atom(atom: Atom, domain: Domain, entities: Mapping[str, str], where: str) -> None:
    """Refuse an atom with an unknown predicate or entity or arguments of the wrong type.

    Args:
        atom: what to check; ``*`` is allowed as an argument.
        domain: types and predicates.
        entities: names (or parameters) -> types.
        where: for the message, e.g. ``"the goal of set_table"``.

    Raises:
        PlannerError: see above.
    """
    if atom.name not in domain.predicates:
        hint = suggest(atom.name, domain.predicates)
        raise PlannerError(f"Unknown predicate '{atom.name}' in {where}; {hint}")
    kinds = domain.predicates[atom.name]
    if len(kinds) != len(atom.args):
        raise PlannerError(f"'{atom}' in {where} must have {len(kinds)} arguments.")
    for arg, kind in zip(atom.args, kinds, strict=True):
        if arg == WILDCARD:
            continue
        if arg not in entities:
            raise PlannerError(f"Unknown entity '{arg}' in {where}; {suggest(arg, entities)}")
        if not domain.is_a(entities[arg], kind):
            raise PlannerError(
                f"'{arg}' in '{atom}' of {where} is of type {entities[arg]}, not {kind}."
            )


def make_problem(
    name: str,
    domain: Domain,
    objects: Mapping[str, str],
    init: Iterable[Atom],
    goal: Sequence[Atom],
    stages: Mapping[str, Sequence[Atom]] | None = None,
) -> Problem:
    """Check the parts of a problem and fill in the complements of its start state.

    Raises:
        PlannerError: an unknown type, predicate or entity, or an argument of the wrong type.
    """
    entities = {**domain.constants, **objects}
    for entity, kind in objects.items():
        if kind not in domain.types:
            raise PlannerError(
                f"Unknown type '{kind}' of '{entity}' in {name}; {suggest(kind, domain.types)}"
            )
    start, stages = frozenset(init), dict(stages or {})
    checks = [("the start state", start), ("the goal", goal)]
    checks += [(f"stage '{k}'", v) for k, v in stages.items()]
    for where, atoms in checks:
        for atom in atoms:
            check_atom(atom, domain, entities, f"{where} of {name}")
    return Problem(
        name=name,
        domain=domain,
        objects=dict(objects),
        init=_with_complements(domain, entities, start),
        goal=tuple(goal),
        stages={k: tuple(v) for k, v in stages.items()},
    )


def _with_complements(domain: Domain, entities: Mapping[str, str], state: State) -> State:
    atoms = {a for a in state if a.name not in domain.complements}
    for name, opposite in domain.complements.items():
        taken = {a.args[0] for a in state if a.name == opposite}
        kind = domain.predicates[name][0]
        atoms |= {
            Atom(name, (e,)) for e, k in entities.items() if domain.is_a(k, kind) and e not in taken
        }
    return frozenset(atoms)
