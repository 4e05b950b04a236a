"""The 105 layouts: where each piece of furniture stands.

Five macro layouts (0-2 train, 3 val, 4 test) put the kitchen, the living room and the dining table
into different rooms or against different walls; 21 variations of each move pieces a little and
choose between places for chair, bookshelf and tables. A layout follows from its name alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tpsrl.geometry.rotations import principal
from tpsrl.scenes.description import Layout

MACROS = 5
VARIATIONS = 21
SPLITS: tuple[Literal["train", "val", "test"], ...] = ("train", "train", "train", "val", "test")
"""Split of each macro layout, as in ReplicaCAD's use by HAB."""

NORTH, EAST, SOUTH, WEST = 3.5, 4.5, -3.5, -4.5
"""Inside faces of the outer walls, m."""

PARTITION_X = 0.9
PARTITION_Y = 0.0
WALL_THICKNESS = 0.12

_QUARTER = np.pi / 2
_GAP = 0.015


@dataclass(frozen=True)
class Spot:
    """A place for a piece and how far a variation may move it.

    Attributes:
        x, y, yaw: the place, m and rad.
        slide_x, slide_y: largest move, m, along each axis.
        turn: largest turn, rad.
    """

    x: float
    y: float
    yaw: float
    slide_x: float = 0.0
    slide_y: float = 0.0
    turn: float = 0.0


_DEPTHS = {
    "kitchen_counter": (-0.32, 0.02),
    "fridge": (-0.35, 0.04),
    "sofa": (-0.42, 0.12),
    "tvstand": (-0.25, 0.10),
    "bookshelf": (-0.17, 0.12),
    "bed": (-1.05, 0.08),
}
"""Back face in the piece's own frame, m, and how far it may slide along its wall, m."""


def _against(name: str, wall: str, along: float, face: float | None = None) -> Spot:
    """Return the spot with the piece's back against a wall, ``along`` it.

    ``wall`` is the side of the room: a piece at the ``"north"`` wall faces south. ``face`` is the
    wall's coordinate where it is not an outer wall.
    """
    back, slide = _DEPTHS[name]
    inset = _GAP - back
    if wall == "north":
        y = (NORTH if face is None else face) - inset
        return Spot(along, y, -_QUARTER, slide_x=slide)
    if wall == "south":
        y = (SOUTH if face is None else face) + inset
        return Spot(along, y, _QUARTER, slide_x=slide)
    if wall == "east":
        x = (EAST if face is None else face) - inset
        return Spot(x, along, np.pi, slide_y=slide)
    x = (WEST if face is None else face) + inset
    return Spot(x, along, 0.0, slide_y=slide)


def _loose(x: float, y: float, degrees: float, slide: float = 0.10, turn: float = 5.0) -> Spot:
    """Return a spot away from the walls; the piece moves by ``slide`` m and ``turn`` degrees."""
    return Spot(x, y, float(np.radians(degrees)), slide, slide, float(np.radians(turn)))


_LIVING_SIDE = PARTITION_X - WALL_THICKNESS / 2
_TV_AT_PARTITION = _against("tvstand", "east", -0.45, face=_LIVING_SIDE)

_SPOTS: tuple[Mapping[str, tuple[Spot, ...]], ...] = (
    {
        "kitchen_counter": (_against("kitchen_counter", "east", 1.90),),
        "fridge": (_against("fridge", "north", 1.60),),
        "table_01": (_loose(-2.3, 2.1, 0), _loose(-2.3, 2.1, 90)),
        "table_02": (_loose(-2.2, -0.6, 0),),
        "sofa": (_against("sofa", "west", -0.6),),
        "tvstand": (_TV_AT_PARTITION,),
        "chair": (_loose(-3.6, -2.75, 45, turn=20), _loose(-0.2, 2.95, -120, turn=15)),
        "bookshelf": (_against("bookshelf", "south", -1.6), _against("bookshelf", "north", -3.7)),
        "bed": (_against("bed", "east", -2.5),),
    },
    {
        "kitchen_counter": (_against("kitchen_counter", "north", 2.47),),
        "fridge": (_against("fridge", "east", 1.40),),
        "table_01": (_loose(-1.7, -1.9, 0), _loose(-1.7, -1.9, 90)),
        "table_02": (_loose(-3.0, 1.3, -90),),
        "sofa": (_against("sofa", "north", -3.0),),
        "tvstand": (_against("tvstand", "west", -0.6),),
        "chair": (_loose(-3.7, -2.8, 45, turn=20), _loose(0.0, 2.85, -120, turn=15)),
        "bookshelf": (
            _against("bookshelf", "east", -0.4, face=_LIVING_SIDE),
            _against("bookshelf", "south", -0.6),
        ),
        "bed": (_against("bed", "south", 3.6),),
    },
    {
        "kitchen_counter": (_against("kitchen_counter", "east", -1.90),),
        "fridge": (_against("fridge", "south", 2.10),),
        "table_01": (_loose(-2.0, 2.0, 90), _loose(-1.4, 2.0, 0)),
        "table_02": (_loose(-2.9, -1.25, 90),),
        "sofa": (_against("sofa", "south", -2.9),),
        "tvstand": (_TV_AT_PARTITION,),
        "chair": (_loose(-3.95, 0.6, 0, turn=15), _loose(1.75, 2.9, -60, turn=15)),
        "bookshelf": (_against("bookshelf", "north", -3.6), _against("bookshelf", "north", -0.1)),
        "bed": (_against("bed", "north", 3.5),),
    },
    {
        "kitchen_counter": (_against("kitchen_counter", "north", -2.95),),
        "fridge": (_against("fridge", "north", -0.75),),
        "table_01": (_loose(2.62, 1.87, 0, 0.05), _loose(2.62, 1.87, 90, 0.05)),
        "table_02": (_loose(-0.95, -1.25, 90),),
        "sofa": (_against("sofa", "south", -0.95),),
        "tvstand": (_against("tvstand", "west", -0.65),),
        "chair": (_loose(3.95, -0.65, -135, turn=15), _loose(-3.7, -2.75, 45, turn=15)),
        "bookshelf": (_against("bookshelf", "east", 0.75), _against("bookshelf", "west", 1.0)),
        "bed": (_against("bed", "east", -2.6),),
    },
    {
        "kitchen_counter": (_against("kitchen_counter", "west", 1.75),),
        "fridge": (_against("fridge", "north", -1.60),),
        "table_01": (_loose(-2.1, -1.8, 90), _loose(-2.1, -1.8, 0)),
        "table_02": (_loose(2.3, 1.8, 0, slide=0.06),),
        "sofa": (_against("sofa", "east", 1.8),),
        "tvstand": (_TV_AT_PARTITION,),
        "chair": (_loose(-3.9, -2.8, 45, turn=20), _loose(1.5, -0.85, -45, turn=15)),
        "bookshelf": (_against("bookshelf", "south", -0.6), _against("bookshelf", "west", -1.0)),
        "bed": (_against("bed", "south", 3.6),),
    },
)


def layout_name(macro: int, variation: int) -> str:
    """Return e.g. ``"sc3_staging_07"``."""
    return f"sc{macro}_staging_{variation:02d}"


def make_layout(macro: int, variation: int) -> Layout:
    """Return one layout; equal arguments give equal poses.

    Args:
        macro: 0-4.
        variation: 0-20; 0 is the macro layout itself, unmoved.

    Raises:
        ValueError: there is no such layout.
    """
    if not (0 <= macro < MACROS and 0 <= variation < VARIATIONS):
        raise ValueError(
            f"no layout sc{macro}_staging_{variation:02d}: macro goes from 0 to {MACROS - 1}, "
            f"variation from 0 to {VARIATIONS - 1}"
        )
    rng = np.random.default_rng([macro, variation])
    poses = {}
    for name, spots in _SPOTS[macro].items():
        choice, *move = (float(u) for u in rng.random(4))
        spot = spots[int(choice * len(spots)) if variation else 0]
        dx, dy, turn = ((2.0 * u - 1.0) * (variation > 0) for u in move)
        poses[name] = (
            round(spot.x + dx * spot.slide_x, 4),
            round(spot.y + dy * spot.slide_y, 4),
            round(principal(spot.yaw + turn * spot.turn), 4),
        )
    return Layout(layout_name(macro, variation), SPLITS[macro], poses)


def all_layouts() -> dict[str, Layout]:
    """Return all 105 layouts by name."""
    layouts = (make_layout(m, v) for m in range(MACROS) for v in range(VARIATIONS))
    return {layout.name: layout for layout in layouts}
