"""Ways to damage a file, drawn from a seed."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

_RAW = "@@raw@@"
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 99, 10**17, 1e300, -1e300, 1e-300, 1e9, float("nan"),
    float("inf"), -float("inf"), "", "x", "\0", "\ud800", "\x1b[31mred\x1b[0m", "../../x",
    "/dev/stdin", "x" * 100_000, "x" * 300, "²", "--5", "1e5", "nan", [], {}, [[]], [{}], [None],
    [0.0] * 3, [float("nan")] * 3, [1e300] * 3, [0.0] * 4, [0.5] * 4, {"": None}, {"x": {}},
    [["x", 1]], [1, "x"], [None, None], list(range(1000)),
)  # fmt: skip
_TEXTS = (
    "1" * 5000, "-" + "9" * 400, "1e99999", "0." + "3" * 100_000, "[" * 500 + "]" * 500,
    "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 3000, "NaN",
    "Infinity", "01", "+1", ".5", "'x'", '"\\ud83d"', '"\\u0000"', '"\t"', "tru", "undefined", "",
)  # fmt: skip
"""What JSON's own writer does not write."""


def damage_bytes(data: bytes, rng: Random) -> bytes:
    """Return bytes that were flipped, cut, filled, moved or wrapped."""
    at = rng.randrange(len(data)) if data else 0
    size = rng.choice([1, 4, 64, 1024])
    flipped = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3, 30])):
        if data:
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    choices: list[Callable[[], bytes]] = [
        lambda: bytes(flipped),
        lambda: bytes(flipped),
        lambda: data[:at],
        lambda: data[: max(len(data) - size, 0)],
        lambda: data[at:],
        lambda: data[:at] + data[at + size :],
        lambda: data[:at] + rng.randbytes(size) + data[at:],
        lambda: data[:at] + bytes(size) + data[at + size :],
        lambda: data + data,
        lambda: data + rng.randbytes(size),
        lambda: data[at:] + data[:at],
        lambda: wrong_container(data, rng),
    ]
    return rng.choice(choices)()


def wrong_container(data: bytes, rng: Random) -> bytes:
    """Return the content in another format, or other content."""
    array, zipped = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(3))
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("a.txt", data)
    bomb = gzip.compress(b"[" + b" " * 600 * 2**20, 1) if rng.random() < 0.05 else b"\x1f\x8b"
    text = data.decode("latin-1")
    return rng.choice([
        array.getvalue(), zipped.getvalue(), gzip.compress(data), gzip.compress(data)[:-5], bomb,
        b"", b"\0" * 4096, b"\xef\xbb\xbf" + data, text.encode("utf-16"), text.encode("utf-32"),
        b"\xff\xfe" + data, b"\x89PNG\r\n\x1a\n" + data, b"version https://git-lfs.github.com",
        b"null", b"[]", b"3", b'"x"', b"{}", b"<xml/>", b"---\n- 1\n",
    ])  # fmt: skip


def damage_place(path: Path, rng: Random) -> None:
    """Put something else than a file where a file is."""
    data = path.read_bytes()
    path.unlink()
    kind = rng.randrange(6)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path)
    elif kind == 3:
        path.symlink_to(rng.choice(["/dev/zero", "/dev/stdin", "/dev/full", "/proc/kmsg"]))
    elif kind == 4:
        path.write_bytes(data)
        os.truncate(path, 2**34)


def damage_tree(tree: Any, rng: Random) -> str:
    """Return the JSON text of a tree in which one thing was changed."""
    tree = {"": copy.deepcopy(tree)}
    places = list(_places(tree))
    holder, key = rng.choice(places)
    raw = rng.choice(_TEXTS)
    value, kind = holder[key], rng.randrange(10)
    if kind < 3:
        holder[key] = rng.choice(_VALUES)
    elif kind == 3:
        holder[key] = _RAW
    elif kind == 4 and isinstance(holder, dict):
        holder[key], raw = _RAW, f"{_dump(value)}, {json.dumps(key)}: {_dump(value)}"
    elif kind == 5 and isinstance(holder, dict):
        name = rng.choice([key + "x", key.upper(), "", "\0", "__class__", "x" * 5000])
        holder[name] = holder.pop(key)
    elif kind == 6:
        del holder[key]
    elif kind == 7 and isinstance(value, list) and value:
        holder[key] = value * rng.choice([2, 1000 // len(value) + 1])
    elif kind == 8 and isinstance(value, int | float):
        factor = rng.choice([-1, 1e3, 1e30, 1e-30])
        holder[key] = value * factor if not isinstance(value, bool) else 2
    else:
        other, name = rng.choice(places)
        holder[key] = copy.deepcopy(other[name]) if name in _keys(other) else None
    text = json.dumps(tree.get(""), default=str)
    return text.replace(json.dumps(_RAW), raw)


def damage_text(text: str, rng: Random) -> str:
    """Return text (XML, YAML) in which a word, number or line was changed."""
    words = list(re.finditer(r"[A-Za-z_0-9.+-]+", text))
    word = rng.choice(words)
    new = rng.choice([
        "nan", "inf", "-1", "0", "1e300", "-1e300", "", "x", "null", "9" * 400, "\x1b[31m", "\0",
        "1 2", "0 0 0", "nan nan nan", "../../x", "/dev/stdin", "[" * 3000, "&a", "*a", "!!python",
        "<x>" * 500, "{a: " * 400, rng.choice(words).group(), "&lt;", "<!DOCTYPE a>", "${x}", "\t",
        "!!python/object/apply:os.getpid []", "? ? ?", "- - -", "'", '"', "x" * 100_000,
    ])  # fmt: skip
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    choices = [text[: word.start()] + new + text[word.end() :]] * 6 + [
        "".join(lines[:at] + lines[at + 1 :]),
        "".join(lines[:at] + [lines[at]] * 2 + lines[at + 1 :]),
        "".join(lines[:at] + [rng.choice(lines)] + lines[at:]),
        text[: word.start()],
    ]
    return rng.choice(choices)


def damage_arrays(arrays: dict[str, np.ndarray], rng: Random) -> dict[str, np.ndarray]:
    """Return arrays of which one has another value, shape or type, or is gone."""
    out = dict(arrays)
    name = rng.choice([n for n in out if n != "meta"])
    array = out[name]
    number = rng.choice([np.nan, np.inf, 1e300, -1e300, 99, -2, 1e4, 40.0])
    kinds: list[Any] = [np.float64, np.float32, array.dtype]
    changed = array.astype(rng.choice(kinds))
    with np.errstate(all="ignore"):
        if changed.size:
            changed.reshape(-1)[rng.randrange(changed.size)] = np.float64(number).astype(
                changed.dtype
            )
    choices: list[Any] = [
        changed, changed, changed, array[:0], array[..., None], array.T, array.ravel(), array[:1],
        np.array(["x"] * array.size).reshape(array.shape), array.astype(object), np.array(3.0),
        array.astype(complex), array.astype(bool), np.zeros((10**6, 3)), array.astype("f2"),
    ]  # fmt: skip
    out[name] = rng.choice(choices)
    if rng.random() < 0.1:
        del out[name]
    return out


def damage_zip(data: bytes, rng: Random) -> bytes:
    """Return an archive with a member that is doubled, misnamed, encrypted by name or a lie."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            body = old.read(name)
            if name == chosen:
                lies = [body[:-8], body + b"x", body[:6] + b"\xff\xff" + body[8:],
                        b"\x93NUMPY\x03\0" + body[8:], body.replace(b"), }", b"0000), }", 1),
                        body.replace(b"'<f8'", b"'|O'  ", 1), b""]  # fmt: skip
                body = rng.choice(lies)
            new.writestr(name, body)
    return out.getvalue()


def pack_safetensors(header: str, body: bytes) -> bytes:
    """Return a ``.safetensors`` file with this header."""
    text = header.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + body


def _dump(value: Any) -> str:
    return json.dumps(value, default=str)


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _places(tree: Any) -> Any:
    """Yield holder and key of every value; long lists are sampled."""
    left = [tree]
    while left:
        holder = left.pop()
        keys = list(_keys(holder))
        for key in keys if len(keys) < 60 else keys[:20]:
            yield holder, key
            if isinstance(holder[key], dict | list):
                left.append(holder[key])
