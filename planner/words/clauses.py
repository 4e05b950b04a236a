"""What a goal in words says: verbs with things and places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal["bring", "home", "take", "open", "close", "go", "tidy"]

HOME = ("home",)
"""Stands for the place where the scenario wants a thing."""


@dataclass(frozen=True)
class Things:
    """Objects as they were named.

    Attributes:
        text: the words.
        types: object types, ``None`` for anything.
        count: how many, ``None`` for all there are.
        fresh: others than were named before ("a", a number), if there are.
        where: receptacles on which they lie, empty for anywhere.
    """

    text: str
    types: tuple[str, ...] | None
    count: int | None = 1
    fresh: bool = False
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedPlace:
    """A place as it was named.

    Attributes:
        text: the words.
        names: receptacles that may be meant; :data:`HOME` for where a thing belongs.
        all: all of them are.
    """

    text: str
    names: tuple[str, ...]
    all: bool = False


@dataclass(frozen=True)
class Clause:
    """One thing to do.

    Attributes:
        verb: what.
        text: the clause as it stands in the goal.
        things: with what; empty for ``open``, ``close``, ``tidy`` and some ``go``.
        places: where to, or what is opened, closed or driven to.
        then: it comes after what was said before it.
    """

    verb: Verb
    text: str
    things: tuple[Things, ...] = ()
    places: tuple[NamedPlace, ...] = ()
    then: bool = False
