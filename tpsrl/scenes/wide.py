"""Layouts for learning only: the same rooms and furniture, every piece anywhere it can stand.

63 train layouts follow from three floor plans, which is few to learn driving from. These put each
piece against any wall or freely into any room and keep what passes the checks of the benchmark's
own layouts (:mod:`tpsrl.scenes.checks`). None has kitchen and fridge, or four pieces, where a val
or test layout has them. :mod:`tpsrl.scenes.draw_wide` drew them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tpsrl.scenes.description import Layout

COUNTS = {"wide": 240, "widedev": 40}
"""Layouts of each split: to learn from, and to choose by."""

FILE = Path(__file__).with_name("wide_layouts.json")

Pose = tuple[float, float, float]


def layout_name(split: str, number: int) -> str:
    """Return e.g. ``"wide_0007"``."""
    return f"{split}_{number:04d}"


@lru_cache(maxsize=1)
def wide_layouts() -> Mapping[str, Layout]:
    """Return all wide layouts by name, from the file beside this module."""
    found = {}
    for name, poses in json.loads(FILE.read_text()).items():
        split: Any = name.partition("_")[0]
        found[name] = Layout(name, split, {piece: tuple(pose) for piece, pose in poses.items()})
    return found
