"""Everything that comes from outside is read here, with limits; each refusal is one sentence.

JSON (plain or gzip), YAML, ``.npz`` and ``.safetensors``. What is returned holds no object that
could run code, no text that cannot be printed or be a file name, and is no larger than its limits.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import yaml
from omegaconf import OmegaConf

from ver_trainer.errors import UserError

MIB = 2**20
MOST_BYTES = 512 * MIB
"""Largest content, unpacked: five times the benchmark's 10,000 training episodes."""
MOST_VALUES = 40_000_000
MOST_DEPTH = 64
MOST_DIGITS = 18
"""Longest integer: what fits into 64 bits."""
MOST_MEMBERS = 4096
"""Most arrays of a file."""
MOST_YAML_VALUES = 20_000

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_ODD_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_ODD = re.compile("[\0\ud800-\udfff]")
_POINTER = b"version https://git-lfs"
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
AGAIN = "download or make it again"


def read_bytes(path: str | Path, most: int = MOST_BYTES, hint: str = AGAIN) -> bytes:
    """Return the content of a regular file.

    Args:
        path: of the file; a pipe, device or folder is refused without waiting for it.
        most: bytes that it may hold.
        hint: what to do about a file that is missing or too large, the end of the sentence.

    Raises:
        UserError: it is missing, cannot be read, is no regular file or too large.
    """
    try:
        data, size, mode = _content(path, most)
    except FileNotFoundError:
        _refuse(path, "no such file", hint)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        _refuse(path, f"cannot be read ({reason})", "check the path")
    if not stat.S_ISREG(mode):
        _refuse(path, f"cannot be read (it is a {_kind(mode)}, not a file)", hint)
    if size > most:
        _refuse(path, f"holds {size / MIB:.0f} MiB, more than the {most / MIB:.0f} allowed", hint)
    if data.startswith(_POINTER):
        _refuse(path, "is a Git LFS pointer, not the file", "run 'git lfs pull' in its repository")
    return data


def read_json(path: str | Path, most: int = MOST_BYTES, hint: str = AGAIN) -> dict[str, Any]:
    """Return the object that a JSON file holds, plain or gzip.

    Args:
        path: of the file.
        most: bytes that it may hold, unpacked.
        hint: as in :func:`read_bytes`.

    Raises:
        UserError: it cannot be read, is no JSON object, or is beyond the limits of this module.
    """
    data = read_bytes(path, most, hint)
    if data[:2] == b"\x1f\x8b":
        data = _unzipped(path, data, most, hint)
    return parse_json(data, path, hint)


def parse_json(data: bytes, where: str | Path, hint: str = AGAIN) -> dict[str, Any]:
    """Return the object of a JSON text; ``where`` names it in a refusal.

    Raises:
        UserError: as in :func:`read_json`.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(where, "is no JSON text (neither JSON text nor gzip)", hint)
    _check_size(data, where, hint)
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno} ({error.msg})"
        _refuse(where, f"is not valid JSON at {at}", f"it may be truncated, {hint}")
    except (ValueError, RecursionError) as error:
        _refuse(where, str(error), "correct the file")
    if not isinstance(content, dict):
        _refuse(where, f"holds no JSON object but {_name(content)}", hint)
    if _ODD_ESCAPE.search(data):
        for place, text in _texts(content):
            if _ODD.search(text):
                what = "text with a NUL or half a character (a lone surrogate)"
                _refuse(where, f"holds {what} at {place or 'its top'}", "correct the file")
    return content


def read_yaml(path: str | Path, hint: str = "give another file") -> dict[str, Any]:
    """Return the mapping that a YAML file holds; ``${...}`` stays as it is written.

    Raises:
        UserError: it cannot be read, is no mapping, uses tags, or is beyond the limits.
    """
    data = read_bytes(path, MIB // 4, hint)
    try:
        text = data.decode("utf-8-sig")
        if _ODD.search(text):
            _refuse(path, "holds a NUL", "correct the file")
        _check_yaml(path, text)
        content = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=False)
    except UserError:
        raise
    except UnicodeDecodeError:
        _refuse(path, "is no YAML text", hint)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        _refuse(path, f"is not valid YAML{at}: {error.problem or error.context}", "correct it")
    except Exception as error:  # OmegaConf's and the resolvers' own types
        _refuse(path, f"is not valid YAML: {_first(error)}", "correct it")
    if not isinstance(content, dict):
        _refuse(path, "must hold a mapping of keys to values, not a list", "correct it")
    for place, found in _texts(content):
        if _ODD.search(found):
            _refuse(path, f"holds text with a NUL or half a character at {place}", "correct it")
    return {str(key): value for key, value in content.items()}


def read_npz(path: str | Path, hint: str = AGAIN) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file; none of them holds Python objects.

    Raises:
        UserError: it cannot be read, is damaged or something else, or beyond the limits.
    """
    data = read_bytes(path, hint=hint)
    if data.startswith(b"\x93NUMPY"):
        _refuse(path, "is a single array (.npy), not an .npz file", hint)
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = file.infolist()
            if len(members) > MOST_MEMBERS or sum(m.file_size for m in members) > MOST_BYTES:
                _refuse(path, "unpacks to more than is allowed", hint)
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    _refuse(path, f"holds array '{name}' twice", hint)
                arrays[name] = _array(name, file.read(member))
    except UserError:
        raise
    except Exception as error:  # zipfile and zlib raise whatever the damage makes them raise
        _refuse(path, f"is no .npz file or a damaged one ({_first(error)})", hint)
    return arrays


def read_safetensors(
    path: str | Path, hint: str = AGAIN
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the tensors and the metadata of a ``.safetensors`` file.

    Raises:
        UserError: it cannot be read, is damaged or something else, or beyond the limits.
    """
    data = read_bytes(path, hint=hint)
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= size <= len(data) - 8:
        _refuse(path, "is no .safetensors file or a truncated one", hint)
    header = parse_json(data[8 : 8 + size], f"{path}: its header", hint)
    metadata = header.pop("__metadata__", {})
    plain = isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    if not plain or len(header) > MOST_MEMBERS:
        _refuse(path, "has a header that is no table of tensors", hint)
    body, tensors, end = memoryview(data)[8 + size :], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: _begin(item[1])):
        dtype, shape, begin, stop = _tensor(path, name, entry, hint)
        count = math.prod(shape)
        if begin != end or stop - begin != count * dtype.itemsize or stop > len(body):
            _refuse(path, f"places tensor '{name}' wrongly or lacks a part of it", hint)
        end = stop
        tensors[name] = np.frombuffer(body[begin:stop], dtype).reshape(shape).copy()
    if end != len(body):
        _refuse(path, "holds bytes that belong to no tensor", hint)
    return tensors, metadata


def _content(path: str | Path, most: int) -> tuple[bytes, int, int]:
    """Return the content of a regular file, its size and its mode."""
    # Without O_NONBLOCK, opening a pipe waits until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return b"", found.st_size, found.st_mode
        with open(descriptor, "rb", closefd=False) as file:
            # Some files of the kernel would make one wait for their content: they give None.
            data = file.read(most + 1) or b""
        return data, max(found.st_size, len(data)), found.st_mode
    finally:
        os.close(descriptor)


def _refuse(where: str | Path, problem: str, hint: str) -> NoReturn:
    raise UserError(f"{where}: {problem}; {hint}") from None


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    return "pipe" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else "device"


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _name(value: Any) -> str:
    names = {list: "a list", str: "a text", type(None): "null"}
    return names.get(type(value), "a number")


def _unzipped(path: str | Path, data: bytes, most: int, hint: str) -> bytes:
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while part := file.read(MIB):
                parts.append(part)
                size += len(part)
                if size > most:
                    _refuse(path, f"unpacks to more than {most / MIB:.0f} MiB", hint)
    except (EOFError, zlib.error, OSError):
        _refuse(path, "the gzip data is truncated or damaged", hint)
    return b"".join(parts)


def _check_size(data: bytes, where: str | Path, hint: str) -> None:
    """Refuse what would cost the parser its stack or the machine its memory."""
    plain = _STRING.sub(b"", data)
    if plain.count(b",") + plain.count(b"[") + plain.count(b"{") > MOST_VALUES:
        _refuse(where, f"holds more than {MOST_VALUES} values", hint)
    marks = np.frombuffer(plain, np.uint8)
    opening = (marks == ord("[")) | (marks == ord("{"))
    closing = (marks == ord("]")) | (marks == ord("}"))
    depth = np.cumsum(opening.astype(np.int32) - closing)
    deep = np.flatnonzero(depth > MOST_DEPTH)
    if len(deep):
        line = plain[: int(deep[0])].count(b"\n") + 1
        _refuse(where, f"nests deeper than {MOST_DEPTH} levels at line {line}", hint)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        twice = Counter(k for k, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key '{twice}' stands twice in one object")
    return out


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS + 1:
        raise ValueError(f"holds an integer of {len(digits)} digits, {digits[:12]}...")
    return int(digits)


def _texts(content: Any) -> Iterator[tuple[str, str]]:
    """Yield every key and text with its place."""
    left: list[tuple[str, Any]] = [("", content)]
    while left:
        place, value = left.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, dict):
            for key, item in value.items():
                inner = f"{place}.{key}" if place else str(key)
                yield inner, str(key)
                left.append((inner, item))
        elif isinstance(value, list):
            left += [(f"{place}[{index}]", item) for index, item in enumerate(value)]


def _check_yaml(path: str | Path, text: str) -> None:
    """Refuse by its events what would unfold without end; the parser itself does not recurse."""
    open_ones: list[list[Any]] = []  # of each collection: its anchor, values before it, its height
    anchors: dict[str, tuple[int, int]] = {}  # values and height of what an alias stands for
    values = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line, height = f"at line {event.start_mark.line + 1}", 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_ones.append([event.anchor, values, 0])
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before, height = open_ones.pop()
            height += 1
            if anchor:
                anchors[anchor] = (values - before, height)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                _refuse(path, f"uses the alias *{event.anchor} {line}", "write the value out")
            values, height = values + anchors[event.anchor][0], anchors[event.anchor][1]
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor:
                anchors[event.anchor] = (1, 0)
            if _long_number(event):
                _refuse(path, f"holds a number of {len(event.value)} digits {line}", "shorten it")
        if open_ones:
            open_ones[-1][2] = max(open_ones[-1][2], height)
        if len(open_ones) + height > MOST_DEPTH or values > MOST_YAML_VALUES:
            limit = f"{MOST_DEPTH} levels or {MOST_YAML_VALUES} values"
            _refuse(path, f"holds more than {limit} {line}", "shorten it")


def _long_number(event: Any) -> bool:
    digits = event.value.replace("_", "").lstrip("+-")
    return event.style is None and len(digits) > MOST_DIGITS and digits[:2].isalnum() and (
        digits.isdigit() or digits.lower().startswith(("0x", "0b", "0o")) or ":" in digits
    )  # fmt: skip


def _array(name: str, data: bytes) -> np.ndarray:
    """Return the array of an ``.npy`` text: no larger than its bytes, and no Python objects."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array '{name}' has format {version}")
    read = np.lib.format.read_array_header_1_0
    shape, fortran, dtype = (
        read(file) if version == (1, 0) else np.lib.format.read_array_header_2_0(file)
    )
    rest = data[file.tell() :]
    if dtype.hasobject or any(n < 0 for n in shape):
        raise ValueError(f"array '{name}' holds Python objects, which could run code")
    if math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError(f"array '{name}' has other than the {len(rest)} bytes it has room for")
    if not rest:
        return np.zeros(shape, dtype)
    flat = np.frombuffer(rest, dtype).copy()
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _begin(entry: Any) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    first = offsets[0] if isinstance(offsets, list) and offsets else 0
    return first if isinstance(first, int) else 0


def _tensor(
    path: str | Path, name: str, entry: Any, hint: str
) -> tuple[np.dtype[Any], list[int], int, int]:
    """Return dtype, shape, begin and end of a tensor in a header."""
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, place = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        _refuse(path, f"gives tensor '{name}' the type {dtype}, which is not read here", hint)
    for numbers, count in ((shape, None), (place, 2)):
        good = isinstance(numbers, list) and (count is None or len(numbers) == count)
        if not good or any(type(n) is not int or n < 0 for n in numbers):
            _refuse(path, f"describes tensor '{name}' wrongly", hint)
    return np.dtype(_DTYPES[dtype]), shape, place[0], place[1]
