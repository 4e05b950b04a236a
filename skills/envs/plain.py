"""States of environments as plain values, so that no file that keeps one could run a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from skills.interface import SkillCall
from skills.tasks.state import GoalRow
from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.sim.door import Snapshot

_CLASSES: dict[str, Any] = {
    cls.__name__: cls for cls in (Episode, RigidObject, Target, GoalRow, SkillCall, Snapshot)
}
_CLASS, _FIELDS = "class", "fields"


def plain(value: Any) -> Any:
    """Return a value with dictionaries in the place of the dataclasses that a state is made of."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {_CLASS: type(value).__name__, _FIELDS: fields}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value


def whole(value: Any, *more: type) -> Any:
    """Return what :func:`plain` was given.

    Args:
        value: of it.
        more: classes that it may hold beside those that every state is made of.

    Raises:
        KeyError: it is of another class.
    """
    if isinstance(value, Mapping):
        if value.keys() == {_CLASS, _FIELDS}:
            known = _CLASSES | {cls.__name__: cls for cls in more}
            return known[value[_CLASS]](**whole(value[_FIELDS], *more))
        return {key: whole(item, *more) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(whole(item, *more) for item in value)
    return value


def whole_like(value: Any, like: Any) -> Any:
    """Return what :func:`plain` was given, an instance of the class of ``like``.

    Args:
        value: of it.
        like: has the fields that a value from before lacks.

    Raises:
        KeyError: it is of another class.
    """
    if value[_CLASS] != type(like).__name__:
        raise KeyError(value[_CLASS])
    return dataclasses.replace(like, **whole(value[_FIELDS]))
