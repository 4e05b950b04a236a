"""Files from outside: each limit is one plain sentence that names the file, at once."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tpsrl.errors import UserError, printable
from ver_trainer.reading import read_bytes, read_json, read_npz, read_safetensors, read_yaml

Write = Callable[[Path], object]

JSON: dict[str, tuple[bytes, str]] = {
    "deep list": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deeper than 64 levels"),
    "deep object": (b'{"a":' * 100 + b"1" + b"}" * 100, "deeper than 64 levels"),
    "long integer": (b'{"a": ' + b"1" * 5000 + b"}", "integer of 5000 digits"),
    "integer beyond float": (b'{"a": ' + b"1" * 400 + b"}", "integer of 400 digits"),
    "NUL": (b'{"a": [1, {"b": "x\\u0000"}]}', r"NUL.*at a\[1\].b"),
    "surrogate": (b'{"a\\ud800": 1}', "half a character"),
    "surrogate bytes": (b'{"a": "\xed\xa0\x80"}', "no JSON text"),
    "list": (b"[]", "no JSON object but a list"),
    "null": (b"null", "no JSON object but null"),
    "twice": (b'{"a": 1, "a": 2}', "key 'a' stands twice"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "no JSON text"),
    "cut": (b'{"a": ', "not valid JSON at line 1"),
    "empty": (b"", "not valid JSON at line 1"),
    "bad quotes": (b'"' + b'\\"' * 200_000, "not valid JSON"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
    "cut gzip": (gzip.compress(b"{}" * 1000)[:-4], "truncated or damaged"),
    "bomb": (gzip.compress(b" " * 2**26), "unpacks to more than 1 MiB"),
    "large": (b" " * 2**21, "2 MiB, more than the 1 allowed"),
}


@pytest.mark.parametrize("case", JSON)
def test_json_beyond_a_limit(case: str, tmp_path: Path) -> None:
    content, words = JSON[case]
    path = tmp_path / "x.json"
    path.write_bytes(content)
    started = time.monotonic()
    with pytest.raises(UserError, match=f"x.json: .*{words}.*; ") as error:
        read_json(path, 2**20)
    assert time.monotonic() - started < 3.0
    assert len(str(error.value)) < 1000 and str(error.value).isprintable()


def test_json_within_the_limits_is_as_it_was(tmp_path: Path) -> None:
    content = {"a": [1, -2.5, None, True, "ä\\u0000", "[[[", '"', "\U0001f600"], "deep": [[[[]]]]}
    for ascii_only in (True, False):
        text = json.dumps(content, ensure_ascii=ascii_only).encode()
        for data in (text, gzip.compress(text), b"\xef\xbb\xbf" + text):
            (tmp_path / "x.json").write_bytes(data)
            assert read_json(tmp_path / "x.json") == content


PLACES: dict[str, tuple[Write, str]] = {
    "pipe": (os.mkfifo, "a pipe, not a file"),
    "folder": (lambda p: p.mkdir(), "a folder, not a file"),
    "device": (lambda p: p.symlink_to("/dev/zero"), "a device, not a file"),
    "loop": (lambda p: p.symlink_to(p), "cannot be read"),
    "nothing": (lambda p: None, "no such file"),
    "huge": (lambda p: (p.touch(), os.truncate(p, 2**40)), "MiB, more than"),
}


@pytest.mark.parametrize("case", PLACES)
def test_what_is_no_file_is_refused_without_waiting(case: str, tmp_path: Path) -> None:
    make, words = PLACES[case]
    make(tmp_path / "x")
    for read in (read_bytes, read_json, read_yaml, read_npz, read_safetensors):
        with pytest.raises(UserError, match=words):
            read(tmp_path / "x")
    with pytest.raises(UserError, match="cannot be read"):
        read_bytes("a\0b")


YAML = {
    "alias of nothing": ("a: *x", r"alias"),
    "alias of itself": ("a: &x [*x]", r"alias \*x at line 1"),
    "billion laughs": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in zip("abcd", "bcde", strict=True)
        ),
        "20000 values at line 5",
    ),
    "chain of aliases": (
        "a0: &a0 [1]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}]\n" for k in range(1, 99)),
        "64 levels",
    ),
    "tag": ("a: !!python/object/apply:os.getpid []", "line 1"),
    "deep": ("a: " + "[" * 3000 + "]" * 3000, "64 levels"),
    "list": ("- 1", "mapping"),
    "twice": ("a: 1\na: 2", "duplicate key"),
    "digits": ("a: " + "9" * 400, "400 digits"),
    "hexadecimal": ("a: 0x" + "f" * 400, "402 digits"),
    "nul": ('a: "\\0"', "NUL"),
    "many": ("a: [" + "1," * 30_000 + "]", "20000 values"),
    "tab": ("a:\n\tb: 1", "line 2"),
}


@pytest.mark.parametrize("case", YAML)
def test_yaml_beyond_a_limit(case: str, tmp_path: Path) -> None:
    content, words = YAML[case]
    (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(UserError, match=f"x.yaml.*{words}"):
        read_yaml(tmp_path / "x.yaml")


def test_our_own_configurations_are_read() -> None:
    files = sorted(Path(__file__).parents[2].glob("configs/**/*.yaml"))
    assert len(files) > 10
    for file in files:
        assert read_yaml(file) == yaml.safe_load(file.read_text()) or "e-" in file.read_text()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, body in members.items():
            file.writestr(f"{name}.npy", body)
    return out.getvalue()


def npy(array: np.ndarray, change: Callable[[bytes], bytes] = lambda data: data) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return change(out.getvalue())


def huge(data: bytes) -> bytes:
    return data.replace(b"(3,), }" + b" " * 15, b"(1" + b"0" * 15 + b",), }")


NPZ = {
    ".npy": (npy(np.zeros(3)), r"single array \(.npy\)"),
    "text": (b"hello", "no .npz file"),
    "cut": (npz(a=np.zeros(300))[:-30], "no .npz file or a damaged one"),
    "objects": (npz(a=np.array([None])), "Python objects"),
    "room": (zipped(a=npy(np.zeros(3), lambda d: d[:-8])), "bytes it has room for"),
    "huge shape": (zipped(a=npy(np.zeros(3), huge)), "damaged"),
    "no array": (zipped(a=b"x"), "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", NPZ)
def test_npz_beyond_a_limit(case: str, tmp_path: Path) -> None:
    content, words = NPZ[case]
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UserError, match=f"x.npz: .*{words}"):
        read_npz(tmp_path / "x.npz")


def test_npz_gives_what_was_written(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array("text"), "c": np.zeros((0, 3))}
    (tmp_path / "x.npz").write_bytes(npz(**arrays))
    found = read_npz(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def tensors(header: dict[str, Any] | bytes, body: bytes = bytes(12)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12], **changes}}


TENSORS = {
    "short": (b"abc", "truncated"),
    "announced": (struct.pack("<Q", 2**60) + b"{}", "truncated"),
    "cut": (tensors(entry())[:-1], "lacks a part"),
    "more": (tensors(entry()) + b"x", "belong to no tensor"),
    "type": (tensors(entry(dtype="F99")), "type F99"),
    "negative": (tensors(entry(data_offsets=[-12, 0])), "wrongly"),
    "shape": (tensors(entry(shape=[4])), "wrongly"),
    "float shape": (tensors(entry(shape=[3.0])), "wrongly"),
    "no table": (tensors(b"[1]"), "no JSON object"),
    "nested": (tensors(b'{"a":' * 200 + b"1" + b"}" * 200), "deeper"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_safetensors_beyond_a_limit(case: str, tmp_path: Path) -> None:
    content, words = TENSORS[case]
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=f"x.safetensors: .*{words}"):
        read_safetensors(tmp_path / "x.safetensors")


def test_safetensors_gives_what_the_library_wrote(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array([1, 2])}
    save_file({**arrays, "c": np.zeros((0, 2))}, tmp_path / "x", {"who": "ä"})
    found, metadata = read_safetensors(tmp_path / "x")
    assert metadata == {"who": "ä"} and found["c"].shape == (0, 2)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_reaches_the_terminal_is_plain_and_short() -> None:
    text = str(UserError("a.json: '\x1b[31m\x00\r\n" + "x" * 10**6 + "' is wrong; correct it"))
    assert len(text) < 2000 and text.isprintable()
    assert text.startswith("a.json: ") and text.endswith("is wrong; correct it")
    assert printable("ä 'b' ok") == "ä 'b' ok"
    assert str(UserError(UserError("as gymnasium hands it on"))) == "as gymnasium hands it on"
