"""Names in Habitat's episode files and the names tpsrl uses for the same things.

Habitat calls an instance ``"fridge_:0000"`` and a link by its number; tpsrl calls the furniture
``"fridge"`` and the joint that moves a link ``"fridge/top_door"``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

LINK_IDS: dict[str, tuple[str, ...]] = {
    "kitchen_counter": (
        "counter",
        "drawer1_bottom",
        "drawer1_top",
        "drawer2_bottom",
        "drawer2_middle",
        "drawer2_top",
        "drawer3",
        "drawer4",
    ),
    "fridge": ("fridge_body", "top_door", "bottom_door"),
}
"""Links of the two articulated pieces; the index is the link id in ``ao_states``."""

OBJECT_SUFFIX = ".object_config.json"
SCENE_SUFFIX = ".scene_instance.json"
SCENE_PREFIX = "tpsrl/apartment_v1/"

_INSTANCE = re.compile(r"_:\d{4}$")
_NUMBERED_LINK = re.compile(r"^link_(\d+)$")


def furniture_name(handle: str) -> str:
    """``"fridge_:0000"`` -> ``"fridge"``; second and later copies keep their suffix."""
    return handle.removesuffix("_:0000")


def furniture_handle(name: str) -> str:
    """Inverse of `furniture_name`."""
    return name if _INSTANCE.search(name) else f"{name}_:0000"


def link_name(furniture: str, link_id: int) -> str:
    """Name of a link, ``"link_7"`` where its furniture is not in `LINK_IDS`."""
    names = LINK_IDS.get(furniture, ())
    return names[link_id] if 0 <= link_id < len(names) else f"link_{link_id}"


def link_id(furniture: str, name: str) -> int | None:
    """Inverse of `link_name`; ``None`` for a link that has no number."""
    names = LINK_IDS.get(furniture, ())
    if name in names:
        return names.index(name)
    match = _NUMBERED_LINK.match(name)
    return int(match.group(1)) if match else None


def layout_name(scene_id: str) -> str:
    """Layout that a scene id names: its last part, less the file suffix."""
    return scene_id.rsplit("/", 1)[-1].removesuffix(SCENE_SUFFIX)


def instance_handles(types: Sequence[str]) -> list[str]:
    """Instance handles of objects given in the file's (sorted) order."""
    seen: Counter[str] = Counter()
    handles = []
    for name in types:
        handles.append(f"{name}_:{seen[name]:04d}")
        seen[name] += 1
    return handles
