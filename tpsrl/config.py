"""Typed configuration: a dataclass is the schema, ``key=value`` words and YAML files fill it.

Fields say more of themselves through their metadata::

    executor: str = field(default="hab", metadata={"help": "...", "choices": ["hab", "replan"]})
    workers: int = field(default=2, metadata={"help": "worker processes", "min": 1})

``Literal`` and ``Enum`` annotations restrict values as well. OmegaConf does the type checking.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tpsrl.errors import UserError, nearest

T = TypeVar("T")

_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}


def load(schema: type[T], overrides: Sequence[str], yaml: str | Path | None = None) -> T:
    """Fill a configuration from its defaults, then a YAML file, then ``key=value`` words.

    Args:
        schema: dataclass, possibly with nested dataclasses; fields without a default are required.
        overrides: words such as ``"workers=2"`` or ``"ppo.clip=0.1"``; the last one wins.
        yaml: file with a mapping of the same keys.

    Returns:
        A plain instance of ``schema``.

    Raises:
        UserError: unknown key, value of the wrong type or not among the choices, missing value,
            unreadable file; the message names key and value.
    """
    config = OmegaConf.structured(schema)
    if yaml is not None:
        for key, value in _flatten(_read_yaml(yaml), schema):
            _assign(config, schema, key, value, origin=f" in {yaml}")
    for word in overrides:
        key, value = _split(word, schema)
        _assign(config, schema, key, value, origin="")
    _check_required(config)
    try:
        return cast(T, OmegaConf.to_object(config))
    except OmegaConfBaseException as error:
        raise UserError(f"the configuration is not valid: {_first_line(error)}") from error


def describe(schema: type) -> str:
    """Return one line a key: name, default, type or allowed values, and what it means."""
    rows = [(name, *_row(field, hint)) for name, field, hint in _leaves(schema)]
    if not rows:
        return "  (no keys)"
    name_width = max(len(f"{name}={default}") for name, default, _, _ in rows)
    name_width = min(name_width, 34)
    lines = []
    for name, default, kind, text in rows:
        head = f"{name}={default}".ljust(name_width)
        lines.append(f"  {head}  {kind}" + (f": {text}" if text else ""))
    return "\n".join(lines)


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass instance as nested plain values that JSON and YAML can hold."""
    container = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    return {str(key): _plain(value) for key, value in cast(dict[str, Any], container).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _read_yaml(path: str | Path) -> dict[str, Any]:
    try:
        content = OmegaConf.to_container(OmegaConf.load(path))
    except OSError as error:
        raise UserError(f"cannot read the config file {path}: {error.strerror}") from error
    except Exception as error:
        raise UserError(f"{path} is not valid YAML: {_first_line(error)}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold a mapping of keys to values, not a list")
    return {str(key): value for key, value in content.items()}


def _flatten(content: Mapping[str, Any], schema: type, prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    hints = _hints(schema)
    for key, value in content.items():
        hint = _required_type(hints.get(str(key)))
        if isinstance(value, Mapping) and dataclasses.is_dataclass(hint):
            pairs += _flatten(value, cast(type, hint), f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _split(word: str, schema: type) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    key = key.strip()
    if not equals or not key:
        raise UserError(
            f"'{word}' is not of the form key=value; keys are: "
            + ", ".join(name for name, _, _ in _leaves(schema))
        )
    return key, _parse(text, _lookup(schema, key, ""))


def _parse(text: str, hint: Any) -> Any:
    """Read the text of one value; text and paths stay as they were typed."""
    if _is_optional(hint) and text.strip().lower() in {"null", "none", ""}:
        return None
    plain = _required_type(hint)
    if plain in (str, Path) or _is_text_literal(plain):
        return text
    try:
        return OmegaConf.to_container(OmegaConf.create(f"value: {text}"))["value"]  # type: ignore[index,call-overload]
    except Exception:
        return text


def _assign(config: DictConfig, schema: type, key: str, value: Any, origin: str) -> None:
    hint = _lookup(schema, key, origin)
    plain = _required_type(hint)
    metadata = _metadata(schema, key)
    shown = f"'{value}'" if isinstance(value, str) else str(value)
    choices = metadata.get("choices")
    if choices is None and typing.get_origin(plain) is typing.Literal:
        choices = typing.get_args(plain)
    if choices is not None and value is not None and value not in choices:
        hint_text = nearest(str(value), [str(choice) for choice in choices])
        raise UserError(f"{shown} is not a value of '{key}'{origin}{hint_text}")
    if plain is Path and isinstance(value, str):
        value = Path(value)
    try:
        OmegaConf.update(config, key, value, merge=False)
    except OmegaConfBaseException as error:
        wanted = f"{key} takes {_type_name(hint)}"
        raise UserError(f"{shown} is not a value of '{key}'{origin}; {wanted}") from error
    _check_range(key, OmegaConf.select(config, key), metadata, origin)


def _check_range(key: str, value: Any, metadata: Mapping[str, Any], origin: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    low, high = metadata.get("min"), metadata.get("max")
    if value != value or (low is not None and value < low) or (high is not None and value > high):
        limits = [f"at least {low}"] if low is not None else []
        limits += [f"at most {high}"] if high is not None else []
        wanted = " and ".join(limits) or "a number"
        raise UserError(f"{value} is not a value of '{key}'{origin}; it must be {wanted}")


def _check_required(config: DictConfig) -> None:
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise UserError(f"'{missing[0]}' has no value; give {missing[0]}=...")


def _lookup(schema: type, key: str, origin: str) -> Any:
    """Return the annotation of a dotted key, or refuse the key by name."""
    hint: Any = schema
    walked: list[str] = []
    for part in key.split("."):
        owner = _required_type(hint)
        if typing.get_origin(owner) is dict or owner is dict:
            return Any
        valid = _hints(owner) if dataclasses.is_dataclass(owner) else {}
        if part not in valid:
            place = f" of '{'.'.join(walked)}'" if walked else ""
            if not valid:
                raise UserError(f"'{'.'.join(walked)}'{origin} has no keys below it: '{key}'")
            raise UserError(f"unknown key '{part}'{place}{origin}{nearest(part, valid)}")
        hint = valid[part]
        walked.append(part)
    return hint


def _metadata(schema: type, key: str) -> Mapping[str, Any]:
    owner: Any = schema
    field: dataclasses.Field[Any] | None = None
    for part in key.split("."):
        if not dataclasses.is_dataclass(owner):
            return {}
        field = next(item for item in dataclasses.fields(owner) if item.name == part)
        owner = _required_type(_hints(cast(type, owner))[part])
    return field.metadata if field is not None else {}


def _leaves(schema: type, prefix: str = "") -> list[tuple[str, dataclasses.Field[Any], Any]]:
    found: list[tuple[str, dataclasses.Field[Any], Any]] = []
    hints = _hints(schema)
    for field in dataclasses.fields(cast(Any, schema)):
        hint = hints[field.name]
        plain = _required_type(hint)
        if dataclasses.is_dataclass(plain):
            found += _leaves(cast(type, plain), f"{prefix}{field.name}.")
        else:
            found.append((prefix + field.name, field, hint))
    return found


def _row(field: dataclasses.Field[Any], hint: Any) -> tuple[str, str, str]:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        value = "???"
    if isinstance(value, enum.Enum):
        value = value.name
    default = {None: "null", "???": "(required)", True: "true", False: "false"}.get(
        value if isinstance(value, str | bool | None) else "", str(value)
    )
    choices = field.metadata.get("choices")
    kind = " | ".join(str(choice) for choice in choices) if choices else _type_name(hint)
    return default, kind, str(field.metadata.get("help", ""))


def _type_name(hint: Any) -> str:
    plain = _required_type(hint)
    if typing.get_origin(plain) is typing.Literal:
        name = " | ".join(str(value) for value in typing.get_args(plain))
    elif isinstance(plain, type) and issubclass(plain, enum.Enum):
        name = " | ".join(member.name for member in plain)
    elif typing.get_origin(plain) in (list, tuple):
        arguments = [_type_name(item) for item in typing.get_args(plain) if item is not Ellipsis]
        name = f"a list [{', '.join(arguments)}]" if arguments else "a list [...]"
    else:
        name = _TYPE_NAMES.get(plain, getattr(plain, "__name__", str(plain)))
    return f"{name}, or null" if _is_optional(hint) else name


def _hints(schema: Any) -> dict[str, Any]:
    return typing.get_type_hints(schema) if dataclasses.is_dataclass(schema) else {}


def _is_optional(hint: Any) -> bool:
    return type(None) in typing.get_args(hint) and not _is_literal(hint)


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal


def _is_text_literal(hint: Any) -> bool:
    return _is_literal(hint) and all(isinstance(value, str) for value in typing.get_args(hint))


def _required_type(hint: Any) -> Any:
    """Return ``X`` for ``X | None``, other annotations unchanged."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [item for item in typing.get_args(hint) if item is not type(None)]
        return others[0] if len(others) == 1 else hint
    return hint


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
