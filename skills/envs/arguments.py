"""Of which kind the arguments of a skill's environment are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skills.tasks.kinds import Kind, either, mapping, nothing, number, several, text, whole


def _path(value: Any) -> bool:
    return isinstance(value, str | Path)


def _pixels(value: Any) -> bool:
    return whole(value) and value >= 1


_paths = either(nothing, _path, several(_path))

KINDS: Mapping[str, Kind] = {
    "depth": (either(nothing, _pixels), "give pixels, 1 or more, or None for no picture"),
    "colour": (whole, "give a whole number of pixels"),
    "episodes": (_paths, "give a file, or a list of files"),
    "split": (text, "give a name, e.g. 'val'"),
    "handoff": (_paths, "give a file, or a list of files"),
    "handoff_fraction": (number, "give a share, 0 to 1"),
    "again": (either(number, text), "give 'auto', or a share from 0 to below 1, e.g. 0.35"),
    "places": (either(text, several(text)), "give kinds of places, e.g. ['open', 'drawer']"),
    "sensors": (
        either(nothing, text, several(text)),
        "give names of sensors, e.g. ['contract', 'fine']",
    ),
    "options": (mapping, "give a mapping, e.g. {'horizon': 500}"),
    "sim": (text, "give the name of an engine, e.g. 'mujoco'"),
    "path": (either(nothing, _path), "give a scene dataset or a data folder"),
    "gpu": (whole, "give the number of a GPU, or -1"),
    "habitat": (mapping, "give a mapping, e.g. {'python': 'FILE'}"),
}
"""Argument -> its kind; those that are missing are words, each with a list of its own."""
