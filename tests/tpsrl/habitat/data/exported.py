"""A small apartment, exported once a test session; and helpers to damage copies of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tpsrl.sim import small
from tpsrl.episodes.types import EpisodeSet
from tpsrl.habitat.export.dataset import export_dataset
from tpsrl.scenes.description import Apartment


def apartment() -> Apartment:
    """The engine tests' apartment; handles stand in its furniture."""
    return small.apartment()


def episodes() -> EpisodeSet:
    """One episode a layout, closed joints; the start is fixed."""
    found = []
    for layout in ("a", "b"):
        one = small.episode(layout)
        objects = tuple(sorted(one.objects, key=lambda o: o.type))
        names = [o.instance for o in objects]
        target = dataclasses.replace(one.targets[0], object_index=names.index("box_:0000"))
        found.append(
            dataclasses.replace(one, episode_id=layout, objects=objects, targets=(target,))
        )
    return EpisodeSet(tuple(found))


def export(folder: Path, robot: bool = False) -> Path:
    """Write the dataset and return its folder."""
    export_dataset(folder, apartment(), small.types(), {"small_val": episodes()}, robot)
    return folder


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
