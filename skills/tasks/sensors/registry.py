"""The names of observations, and how a sensor is entered among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from skills.tasks.state import View
from tpsrl.geometry.arrays import Array

DEPTH = "head_depth"
COURSE = ("way", "way_gap")
"""Sensors that are read from the course."""
COLOUR = {"head_rgb": "head", "third_rgb": "third_person"}
"""Colour picture -> camera of the engine that takes it."""
PICTURES = (DEPTH, *COLOUR)


class Sensor(NamedTuple):
    """Attributes: ``size``, number of values; ``read``, the function of a view."""

    size: int
    read: Callable[[View], Array]


SENSORS: dict[str, Sensor] = {}
"""Name -> sensor (facts: docs/sensors.md)."""


def sensor(size: int, *aliases: str) -> Callable[[Callable[[View], Array]], Any]:
    """Make a function a sensor of its own name, and of further ones.

    Args:
        size: values it returns a world.
        aliases: other names.
    """

    def enter(read: Callable[[View], Array]) -> Callable[[View], Array]:
        for name in (read.__name__, *aliases):
            SENSORS[name] = Sensor(size, read)
        return read

    return enter


def shows_course(sensors: Iterable[str]) -> bool:
    """Tell whether one of these sensors is read from the course."""
    return any(name in COURSE for name in sensors)


def observe(view: View, sensors: Sequence[str]) -> dict[str, Array]:
    """Return the named observations, each (n, size) float32; pictures are left out."""
    xp, read = view.xp, [name for name in sensors if name not in PICTURES]
    return {name: xp.astype(SENSORS[name].read(view), xp.float32) for name in read}
