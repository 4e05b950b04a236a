"""Furniture on disk: what a heavy library once built is read back in milliseconds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.scenes.description import Container, Furniture, Joint, Link, Marker, Receptacle, Shape
from ver_trainer.reading import read_bytes

FORMAT = 2
"""Raise when the layout of a cached file changes: older ones are then unused."""

_log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Return the folder for cached files: ``$XDG_CACHE_HOME/tpsrl`` or ``~/.cache/tpsrl``.

    A user without a home has one among the temporary files.
    """
    if root := os.environ.get("XDG_CACHE_HOME"):
        return Path(root) / "tpsrl"
    try:
        return Path.home() / ".cache" / "tpsrl"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"tpsrl-{os.getuid()}"


def cache_key(parameters: Mapping[str, Any]) -> str:
    """Return a short hash of JSON-serialisable parameters."""
    text = json.dumps(parameters, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sources_digest(*files: str) -> str:
    """Return a short hash of source files: what they built before an edit is not used after it."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]


def cached_furniture(
    parameters: Mapping[str, Any], build: Callable[[], tuple[Furniture, ...]]
) -> tuple[Furniture, ...]:
    """Return the furniture that ``build`` makes, from disk if it was built before.

    A file that is missing, cut off or of another format is built anew. A folder that cannot be
    written costs a warning and the time of building, nothing else.

    Args:
        parameters: everything that the result depends on, JSON-serialisable.
        build: makes the pieces.
    """
    path = cache_dir() / f"furniture-{FORMAT}-{cache_key(parameters)}.json"
    try:
        digest, _, body = read_bytes(path).partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ValueError("its digest is another")
        return _decode(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if os.path.exists(path):  # Path.exists() raises where a folder above may not be entered
            _log.warning("furniture cache %s is unreadable (%s): building it anew", path, error)
    pieces = build()
    try:
        body = json.dumps([_encode(piece) for piece in pieces]).encode()
        write_atomically(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    except UserError as error:
        _log.warning("cannot write the furniture cache %s (%s); set XDG_CACHE_HOME", path, error)
    return pieces


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    return value


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}


def _shape(data: dict[str, Any]) -> Shape:
    fields = _tuples(data)
    if data["vertices"] is not None:
        fields["vertices"] = np.array(data["vertices"], dtype=np.float64).reshape(-1, 3)
        fields["faces"] = np.array(data["faces"], dtype=np.int32).reshape(-1, 3)
    return Shape(**fields)


def _link(data: dict[str, Any]) -> Link:
    fields = _tuples(data)
    fields["shapes"] = tuple(_shape(s) for s in data["shapes"])
    fields["joint"] = None if data["joint"] is None else Joint(**_tuples(data["joint"]))
    return Link(**fields)


def _decode(data: list[dict[str, Any]]) -> tuple[Furniture, ...]:
    return tuple(
        Furniture(
            name=piece["name"],
            category=piece["category"],
            links=tuple(_link(link) for link in piece["links"]),
            receptacles=tuple(Receptacle(**_tuples(r)) for r in piece["receptacles"]),
            markers=tuple(Marker(**_tuples(m)) for m in piece["markers"]),
            containers=tuple(Container(**_tuples(c)) for c in piece["containers"]),
        )
        for piece in data
    )
