"""Whether values that a user gives are of the kind that they are said to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from tpsrl.errors import UserError

Fits = Callable[[Any], bool]
Kind = tuple[Fits, str]
"""Whether a value will do, and what to give instead."""


def number(value: Any) -> bool:
    """Return whether it is a number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(value: Any) -> bool:
    """Return whether it is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def text(value: Any) -> bool:
    """Return whether it is a word."""
    return isinstance(value, str)


def mapping(value: Any) -> bool:
    """Return whether it has keys and values."""
    return isinstance(value, Mapping)


def several(fits: Fits, count: int | None = None) -> Fits:
    """Return what tells whether a value is a list, of ``count`` if that is given, of what fits."""

    def all_fit(value: Any) -> bool:
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return listed and count in (None, len(value)) and all(map(fits, value))

    return all_fit


def either(*fits: Fits) -> Fits:
    """Return what tells whether a value is of one of these kinds."""
    return lambda value: any(fit(value) for fit in fits)


def nothing(value: Any) -> bool:
    """Return whether it is None."""
    return value is None


_FIELDS: Mapping[str, Kind] = {
    "int": (whole, "give a whole number"),
    "float": (number, "give a number"),
    "float | None": (either(number, nothing), "give a number, or None"),
    "bool": (lambda v: isinstance(v, bool), "give true or false"),
    "str": (text, "give a word"),
    "tuple[str, ...]": (several(text), "give a list of words"),
    "tuple[float, float]": (several(number, 2), "give a list of two numbers"),
}
"""Annotation of a task's field -> its kind; others are taken as they are."""


def check(values: Mapping[str, Any], kinds: Mapping[str, Kind], where: str = "") -> None:
    """Check values by their names.

    Args:
        values: that were given.
        kinds: of the names that are known.
        where: said before the name.

    Raises:
        UserError: one is of another kind.
    """
    for name, value in values.items():
        fits, instead = kinds.get(name, (None, ""))
        if fits is not None and not fits(value):
            raise UserError(f"{where}{name}={value!r} cannot be used; {instead}.")


def kinds_of(cls: type) -> dict[str, Kind]:
    """Return the kinds of a dataclass's fields, as far as its annotations tell them."""
    named = {
        field.name: field.type.__name__ if isinstance(field.type, type) else str(field.type)
        for field in dataclasses.fields(cls)
    }
    return {name: _FIELDS[kind] for name, kind in named.items() if kind in _FIELDS}
