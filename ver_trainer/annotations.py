"""What the annotation of an option says, for people and for reading values."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from pathlib import Path
from typing import Any

_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a mapping",
    Path: "a path",
    Any: "anything",
}


def type_name(hint: Any) -> str:
    """Return what a value of this annotation is, in words."""
    plain = required(hint)
    origin = typing.get_origin(plain) or plain
    if origin is typing.Literal:
        name = " | ".join(str(value) for value in typing.get_args(plain))
    elif isinstance(plain, type) and issubclass(plain, enum.Enum):
        name = " | ".join(member.name for member in plain)
    elif origin in (list, tuple):
        arguments = [type_name(item) for item in typing.get_args(plain) if item is not Ellipsis]
        name = f"a list [{', '.join(arguments)}]" if arguments else "a list [...]"
    elif dataclasses.is_dataclass(plain):
        name = "keys of its own: " + ", ".join(field.name for field in dataclasses.fields(plain))
    else:
        name = _NAMES.get(origin, getattr(plain, "__name__", str(plain)))
    return f"{name}, or null" if is_optional(hint) else name


def hints_of(schema: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass by field, of anything else none."""
    return typing.get_type_hints(schema) if dataclasses.is_dataclass(schema) else {}


def is_optional(hint: Any) -> bool:
    """Return whether an annotation allows ``None``."""
    return type(None) in typing.get_args(hint) and typing.get_origin(hint) is not typing.Literal


def required(hint: Any) -> Any:
    """Return ``X`` for ``X | None``, other annotations unchanged."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [item for item in typing.get_args(hint) if item is not type(None)]
        return others[0] if len(others) == 1 else hint
    return hint
