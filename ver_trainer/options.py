"""Typed options: a dataclass is the schema, YAML files and ``key=value`` words fill it.

Fields say more of themselves through their metadata, which :func:`option` writes::

    executor: str = option("hab", "what runs the plan", choices=("hab", "replan"))
    workers: int = option(2, "worker processes", min=1)

``min`` and ``max`` may be reached, ``above`` and ``below`` may not; numbers are finite; with
``open=True`` a ``package.module:Class`` may stand beside the choices. A section with
``word="engine"`` in its metadata takes a word of its own: ``launch=ray`` is
``launch.engine=ray``. ``Literal`` and ``Enum`` annotations restrict values as well. OmegaConf does
the type checking. Nothing here imports torch.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import enum
import math
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ver_trainer.annotations import hints_of, is_optional, required, type_name
from ver_trainer.errors import ConfigError, UserError, nearest
from ver_trainer.reading import read_yaml

T = TypeVar("T")
Pair = tuple[str, Any, str]
"""A dotted key, its value, and where it stands (``" in FILE"``)."""

HELP_WORDS = frozenset({"-h", "--help", "help"})
_LIMITS = {"min": "at least", "above": "greater than", "max": "at most", "below": "less than"}


def option(default: Any, text: str, **metadata: Any) -> Any:
    """Return a dataclass field with a help sentence.

    Args:
        default: a list or a mapping is copied for each configuration.
        text: what the key means.
        **metadata: limits and choices, see :mod:`ver_trainer.options`.
    """
    metadata["help"] = text
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def load(
    schema: type[T],
    words: Sequence[str] = (),
    *,
    defaults: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    folders: Sequence[Path] = (),
) -> T:
    """Fill a configuration: ``defaults``, then YAML files, then words, then ``values``.

    A file may name another that it changes: ``base: FILE``, beside it or one of ``folders``.

    Args:
        schema: dataclass, possibly with nested dataclasses; fields without a default are required.
        words: such as ``"workers=2"`` or ``"ppo.clip=0.1"``, the last one wins; ``config=FILE``
            reads a file, and may be repeated.
        defaults: dotted keys that replace the schema's own defaults.
        values: dotted keys that win over everything.
        folders: of files that ``config=NAME`` and ``base: NAME`` know without path and suffix.

    Returns:
        A plain instance of ``schema``.

    Raises:
        ConfigError: unknown key, value of the wrong type, outside its limits or not among the
            choices, missing value, unreadable file; the message names key, value and place.
    """
    files, pairs = [], []
    for word in words:
        key, value = _split(word, schema)
        if key == "config":
            files.append(_find(value, folders, None, f"config={value}"))
        else:
            pairs.append((key, value, ""))
    content = [pair for file in files for pair in _of_file(file, schema, folders, ())]
    first, last = (_flatten(layer or {}, schema, "") for layer in (defaults, values))
    config = OmegaConf.structured(schema)
    for key, value, origin in (*first, *content, *pairs, *last):
        _assign(config, schema, key, value, origin)
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise ConfigError(f"'{missing[0]}' has no value; give {missing[0]}=...")
    try:
        return cast(T, OmegaConf.to_object(config))
    except OmegaConfBaseException as error:
        raise ConfigError(f"the configuration is not valid: {_first_line(error)}") from error


def named(words: Sequence[str], key: str, *, folders: Sequence[Path] = ()) -> str | None:
    """Return what is given for a key before it is known which schema has all the others.

    Args:
        words: as of :func:`load`; they win over the files that they name.
        key: without a dot.
        folders: as of :func:`load`.

    Returns:
        The text of its value, ``None`` where nothing or null is given.

    Raises:
        ConfigError: a file cannot be read.
    """
    given: list[Any] = []
    in_files: list[Any] = []
    for name, _, text in (word.partition("=") for word in words):
        if name.strip() == key:
            given.append(text)
        elif name.strip() == "config":
            file = _find(text, folders, None, f"config={text}")
            pairs = _of_file(file, _AnySchema, folders, ())
            in_files += [value for found, value, _ in pairs if found == key]
    last = [None, *in_files, *given][-1]
    return None if last is None else str(last)


@dataclasses.dataclass
class _AnySchema:
    """Has no section, so that all keys of a file stay as they are."""


def parse_or_help(schema: type[T], words: Sequence[str], about: str | None) -> T:
    """Return what ``load`` does, for a program: help is printed, mistakes end it.

    Args:
        schema: its options.
        words: of the command line.
        about: what the program does.

    Raises:
        SystemExit: with 0 after help, with 2 after a sentence on bad input.
    """
    if HELP_WORDS & set(words):
        print(help_text(about or "", schema))
        raise SystemExit(0)
    try:
        return load(schema, words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def help_text(about: str, *schemas: type) -> str:
    """Return what a program does, and one table of keys for each of ``schemas``."""
    parts = [about.strip()]
    for schema in schemas:
        title = (schema.__doc__ or "").partition("\n")[0].rstrip(".").replace("``", "")
        parts.append(f"{title or 'Keys'} (with their defaults):\n{describe(schema)}")
    return "\n\n".join(parts)


def describe(schema: type) -> str:
    """Return one line a key: name, default, type or allowed values, limits, and what it means."""
    rows = [(f"{name}={default}", kind, text) for name, default, kind, text in table(schema)]
    width = min(max((len(head) for head, _, _ in rows), default=0), 34)
    lines = (f"  {head.ljust(width)}  {kind}" + (f": {t}" if t else "") for head, kind, t in rows)
    return "\n".join(lines) or "  (no keys)"


def table(schema: type) -> list[tuple[str, str, str, str]]:
    """Return of every key its dotted name, its default, what it takes, and what it means."""
    return [(name, _default(field), *_row(field, h)) for name, field, h in _leaves(schema)]


def keys(schema: type) -> list[str]:
    """Return all dotted keys, sections included."""
    found = dict.fromkeys(
        ".".join(parts[: depth + 1])
        for parts in (name.split(".") for name, _, _ in _leaves(schema))
        for depth in range(len(parts))
    )
    return list(found)


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


def _find(name: str, folders: Sequence[Path], beside: Path | None, asked: str) -> Path:
    shipped = [folder / f"{name}.yaml" for folder in folders]
    near = [] if beside is None else [beside / name, beside / f"{name}.yaml"]
    for path in (*near, *shipped, *([Path(name)] if beside is None else [])):
        if path.exists():
            return path.resolve()
    known = [path.stem for folder in folders for path in sorted(folder.glob("*.yaml"))]
    raise ConfigError(f"{asked}: no such file{nearest(Path(name).stem, known) if known else ''}")


def _of_file(
    path: Path, schema: type, folders: Sequence[Path], above: tuple[Path, ...]
) -> Iterator[Pair]:
    """Yield the keys of a file's base, of its base's base, ... and its own last."""
    if path in above:
        raise ConfigError(f"{above[-1]}: base: {path.name} leads back to itself; leave it out")
    content = _read_yaml(path)
    base = content.pop("base", None)
    if base is not None:
        below = _find(str(base), folders, path.parent, f"{path}: base: {base}")
        yield from _of_file(below, schema, folders, (*above, path))
    yield from _flatten(content, schema, f" in {path}")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = OmegaConf.to_container(OmegaConf.create(read_yaml(path)), resolve=True)
    except UserError as error:
        raise ConfigError(str(error)) from None
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path} is not valid: {_first_line(error)}") from error
    return {str(key): value for key, value in cast(dict[str, Any], content).items()}


def _flatten(content: Mapping[str, Any], schema: type, origin: str, at: str = "") -> list[Pair]:
    pairs: list[Pair] = []
    hints = hints_of(schema)
    for key, value in content.items():
        hint = required(hints.get(str(key)))
        if isinstance(value, Mapping) and dataclasses.is_dataclass(hint):
            pairs += _flatten(value, cast(type, hint), origin, f"{at}{key}.")
        else:
            pairs.append((f"{at}{key}", value, origin))
    return pairs


def _split(word: str, schema: type) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    key = key.strip()
    if not equals or not key:
        close = difflib.get_close_matches(word, names := keys(schema), n=1, cutoff=0) or names
        raise ConfigError(f"'{word}' is not of the form key=value, for example {close[0]}=...")
    return key, text if key == "config" else _parse(text, _lookup(schema, key, "")[0])


def _parse(text: str, hint: Any) -> Any:
    """Read the text of one value; text and paths stay as they were typed."""
    if is_optional(hint) and text.strip().lower() in {"null", "none", ""}:
        return None
    plain = required(hint)
    literal = typing.get_args(plain) if typing.get_origin(plain) is typing.Literal else (None,)
    if plain in (str, Path) or all(isinstance(value, str) for value in literal):
        return text
    try:
        return OmegaConf.to_container(OmegaConf.create(f"value: {text}"))["value"]  # type: ignore[index,call-overload]
    except Exception:
        return text


def _assign(config: DictConfig, schema: type, key: str, value: Any, origin: str) -> None:
    hint, metadata = _lookup(schema, key, origin)
    if "word" in metadata and not isinstance(value, Mapping):
        return _assign(config, schema, f"{key}.{metadata['word']}", value, origin)
    plain = required(hint)
    shown = f"'{value}'" if isinstance(value, str) else str(value)
    choices = metadata.get("choices")
    if choices is None and typing.get_origin(plain) is typing.Literal:
        choices = typing.get_args(plain)
    foreign = metadata.get("open", False) and ":" in str(value)
    if choices is not None and value is not None and value not in choices and not foreign:
        hint_text = nearest(str(value), [str(choice) for choice in choices])
        raise ConfigError(f"{shown} is not a value of '{key}'{origin}{hint_text}")
    if plain is Path and isinstance(value, str):
        value = Path(value)
    try:
        OmegaConf.update(config, key, value, merge=isinstance(value, Mapping))
    except (OmegaConfBaseException, OverflowError) as error:
        wanted = f"{key} takes {type_name(hint)}"
        raise ConfigError(f"{shown} is not a value of '{key}'{origin}; {wanted}") from error
    stored = value if hint is Any else OmegaConf.select(config, key)
    _check_range(key, _plain(stored), metadata, origin)


def _check_range(key: str, value: Any, metadata: Mapping[str, Any], origin: str) -> None:
    for name, number in _numbers(key, value):
        odd = not math.isfinite(number)
        low, high = metadata.get("min", -math.inf), metadata.get("max", math.inf)
        above, below = metadata.get("above"), metadata.get("below")
        inside = low <= number <= high
        inside = inside and (above is None or number > above) and (below is None or number < below)
        if odd or not inside:
            wanted = ("a finite number, " if odd else "") + (_limits(metadata) or "without limits")
            raise ConfigError(f"{number} is not a value of '{name}'{origin}; it must be {wanted}")


def _numbers(key: str, value: Any) -> Iterator[tuple[str, int | float]]:
    """Yield the numbers of a value, also those within lists and mappings, and where they stand."""
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in inner:
            yield from _numbers(f"{key}.{name}", item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield key, value


def _limits(metadata: Mapping[str, Any]) -> str:
    return " and ".join(f"{word} {metadata[k]}" for k, word in _LIMITS.items() if k in metadata)


def _lookup(schema: type, key: str, origin: str) -> tuple[Any, Mapping[str, Any]]:
    """Return annotation and metadata of a dotted key, or refuse the key by name."""
    hint: Any = schema
    metadata: Mapping[str, Any] = {}
    walked: list[str] = []
    for part in key.split("."):
        owner = required(hint)
        if typing.get_origin(owner) is dict or owner is dict:
            return Any, {}
        if not dataclasses.is_dataclass(owner):
            raise ConfigError(f"'{'.'.join(walked)}'{origin} has no keys below it: '{key}'")
        field = {field.name: field for field in dataclasses.fields(owner)}.get(part)
        if field is None:
            raise ConfigError(f"unknown key '{key}'{origin}{_instead(schema, key, walked)}")
        hint, metadata = hints_of(owner)[part], field.metadata
        walked.append(part)
    return hint, metadata


def _instead(schema: type, key: str, walked: list[str]) -> str:
    """Return what an unknown key should have been: the nearest, or its siblings."""
    section = "".join(f"{part}." for part in walked)
    names = {n.removeprefix(section): n for n in keys(schema) if n.startswith(section)}
    # epochs= is ppo.epochs=, but a key with its section is looked for in that section
    tails = {} if walked else {name.rpartition(".")[2]: name for name in reversed(names)}
    known = {**tails, **names}
    close = difflib.get_close_matches(key.removeprefix(section), known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{known[close[0]]}'?"
    return f"; valid ones are: {', '.join(n for short, n in names.items() if '.' not in short)}"


def _leaves(schema: type, prefix: str = "") -> list[tuple[str, dataclasses.Field[Any], Any]]:
    found: list[tuple[str, dataclasses.Field[Any], Any]] = []
    hints = hints_of(schema)
    for field in dataclasses.fields(cast(Any, schema)):
        hint = hints[field.name]
        plain = required(hint)
        if dataclasses.is_dataclass(plain):
            section, word = f"{prefix}{field.name}", field.metadata.get("word")
            inner = _leaves(cast(type, plain), f"{section}.")
            found += [(section if n == f"{section}.{word}" else n, f, h) for n, f, h in inner]
        else:
            found.append((prefix + field.name, field, hint))
    return found


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING or value == "???":
        return "(required)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value.name if isinstance(value, enum.Enum) else str(value)


def _row(field: dataclasses.Field[Any], hint: Any) -> tuple[str, str]:
    choices, limits = field.metadata.get("choices"), _limits(field.metadata)
    kind = " | ".join(map(str, choices)) if choices else type_name(required(hint))
    kind += " | package.module:Class" if field.metadata.get("open") else ""
    kind += f" {limits}" if limits else ""
    kind += ", or null" if is_optional(hint) else ""
    return kind, str(field.metadata.get("help", ""))


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
