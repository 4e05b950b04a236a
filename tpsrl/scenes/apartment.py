"""The apartment: walls, furniture, layouts.

Seen from above, x to the right, y up, 9 m x 7 m inside::

    +--------------------+--------------+
    |                    |              |
    |                    .  north-east  |
    |     large room     .     room     |
    |                    +.....---------+
    |                    |              |
    |                    |  south-east  |
    |                    .     room     |
    |                    .              |
    +--------------------+--------------+
"""

from __future__ import annotations

import numpy as np

from tpsrl.scenes.boxes import CUSHION, DARK_WOOD, FABRIC, LINEN, RED, SKY, WALL, box
from tpsrl.scenes.description import Apartment, Shape
from tpsrl.scenes.furniture import load_furniture
from tpsrl.scenes.layouts import (
    EAST,
    NORTH,
    PARTITION_X,
    PARTITION_Y,
    SOUTH,
    WALL_THICKNESS,
    WEST,
    all_layouts,
)
from tpsrl.scenes.wide import wide_layouts

APARTMENT_NAME = "apartment_v1"
WALL_HEIGHT = 2.4
DOORWAYS_X = ((-3.3, -1.8), (0.9, 2.5))
"""Openings in the wall at ``PARTITION_X``: spans along y, m."""
DOORWAY_Y = (0.96, 2.4)
"""Opening in the wall at ``PARTITION_Y``: span along x, m."""


def _outer_walls() -> list[Shape]:
    t = WALL_THICKNESS
    return [
        box((WEST - t, NORTH, 0.0), (EAST + t, NORTH + t, WALL_HEIGHT), WALL),
        box((WEST - t, SOUTH - t, 0.0), (EAST + t, SOUTH, WALL_HEIGHT), WALL),
        box((WEST - t, SOUTH, 0.0), (WEST, NORTH, WALL_HEIGHT), WALL),
        box((EAST, SOUTH, 0.0), (EAST + t, NORTH, WALL_HEIGHT), WALL),
    ]


def _partitions() -> list[Shape]:
    half = WALL_THICKNESS / 2
    x0, x1 = PARTITION_X - half, PARTITION_X + half
    edges = [SOUTH, *(y for doorway in DOORWAYS_X for y in doorway), NORTH]
    shapes = [
        box((x0, low, 0.0), (x1, high, WALL_HEIGHT), WALL)
        for low, high in zip(edges[::2], edges[1::2], strict=True)
    ]
    shapes.append(
        box(
            (DOORWAY_Y[1], PARTITION_Y - half, 0.0),
            (EAST, PARTITION_Y + half, WALL_HEIGHT),
            WALL,
        )
    )
    return shapes


def _decoration() -> list[Shape]:
    """Windows and pictures: flat on the outer walls, seen by cameras, touched by nothing."""
    t = 0.012
    spans = [
        *(((x - 0.6, NORTH - t, 1.0), (x + 0.6, NORTH, 2.0), SKY) for x in (-2.2, 2.7)),
        *(((EAST - t, y - 0.5, 1.0), (EAST, y + 0.5, 2.0), SKY) for y in (-1.9, 1.6)),
        *(
            ((x - 0.35, SOUTH, 1.3), (x + 0.35, SOUTH + t, 1.8), rgba)
            for x, rgba in ((-3.2, RED), (-0.4, CUSHION), (2.6, DARK_WOOD))
        ),
        *(
            ((WEST, y - 0.35, 1.3), (WEST + t, y + 0.35, 1.8), rgba)
            for y, rgba in ((-1.5, FABRIC), (1.2, LINEN))
        ),
    ]
    return [box(low, high, rgba, collide=False) for low, high, rgba in spans]


def load_apartment() -> Apartment:
    """Return the apartment with its fixed furniture, the 105 layouts and those for learning only.

    The first call on a machine builds furniture with scene-synthesizer (about a second) and caches
    it; later calls take milliseconds and import neither that package nor trimesh.
    """
    return Apartment(
        name=APARTMENT_NAME,
        bounds=np.array([[WEST, SOUTH], [EAST, NORTH]]),
        walls=(*_outer_walls(), *_partitions(), *_decoration()),
        furniture=load_furniture(),
        layouts={**all_layouts(), **wide_layouts()},
    )
