"""Observations by their names in habitat-lab, as functions of a :class:`~skills.tasks.state.View`.

All are float32 of shape (n, size). Pictures are not here: the engine renders them.
"""

from skills.tasks.sensors import body, handles, objects, ways
from skills.tasks.sensors.registry import (
    COLOUR,
    DEPTH,
    PICTURES,
    SENSORS,
    Sensor,
    observe,
    sensor,
    shows_course,
)

__all__ = [
    "COLOUR",
    "DEPTH",
    "PICTURES",
    "SENSORS",
    "Sensor",
    "body",
    "handles",
    "objects",
    "observe",
    "sensor",
    "shows_course",
    "ways",
]
