"""Kitchen counter with seven drawers and a sink, and the fridge: made by scene-synthesizer."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import numpy as np

from tpsrl.scenes.boxes import (
    BLACK,
    CABINET,
    STEEL,
    STONE,
    WHITE,
    bounding_box,
    box,
    painted,
    root,
    shown_only,
    surface,
)
from tpsrl.scenes.description import (
    Container,
    Furniture,
    Joint,
    Link,
    Marker,
    Receptacle,
    Shape,
    Vec3,
)
from tpsrl.scenes.library import AssetLink, articulated_links, move

COUNTER: dict[str, Any] = {
    "depth": 0.64,
    "compartment_widths": [0.56, 0.56, 0.62, 0.60, 0.46],
    "compartment_heights": [0.22, 0.22, 0.32],
    "wall": 0.018,
    "lift": 0.066,
    "top_thickness": 0.038,
    "drawer_travel": 0.5,
}
"""Sizes of the counter, m. Columns from left to right as seen from the front."""

FRIDGE: dict[str, Any] = {
    "width": 0.75,
    "depth": 0.70,
    "height": 1.70,
    "thickness": 0.05,
    "top_height": 1.05,
    "handle_length": 0.36,
    "shelf_heights": [0.30, 0.90, 1.28],
    "shelf_depth": 0.56,
    "opening": 2.1,
}
"""Sizes of the fridge, m and rad; ``shelf_heights`` are the upper faces of the shelves."""

_DRAWERS = {
    "drawer_0_0": "drawer1_top",
    "drawer_0_1": "drawer1_bottom",
    "drawer_1_0": "drawer2_top",
    "drawer_1_1": "drawer2_middle",
    "drawer_1_2": "drawer2_bottom",
    "drawer_3_0": "drawer3",
    "drawer_3_1": "drawer4",
}
"""Names of the library (column, row of the first cell) and ours, those of HAB's counter."""

_DRAWER_RECEPTACLES = {
    "drawer1_top": "drawer_left_top",
    "drawer1_bottom": "drawer_left_bottom",
    "drawer2_top": "drawer_middle_top",
    "drawer2_middle": "drawer_middle_middle",
    "drawer2_bottom": "drawer_middle_bottom",
    "drawer3": "drawer_right_top",
    "drawer4": "drawer_right_bottom",
}

_DRAWER_MARKERS = {
    "cab_push_point_7": "drawer1_top",
    "cab_push_point_6": "drawer2_top",
    "cab_push_point_5": "drawer3",
    "cab_push_point_4": "drawer4",
}

HANDLE_OFFSET: Vec3 = (0.3, 0.0, 0.0)
"""Handle of a drawer in its link's frame, as in HAB: the frame's origin is put behind it."""

_FRIDGE_HANDLE_Z = 0.2
_DOOR_GAP = 0.004


def _counter_links() -> dict[str, AssetLink]:
    from scene_synthesizer import procedural_assets

    # One number a compartment; each column has three rows, some merged.
    mask = np.array([[0, 1, 2, 3, 4], [5, 6, 2, 7, 4], [5, 8, 2, 7, 4]])
    kinds = ["drawer", "drawer", "closed", "drawer", "closed", "drawer", "drawer", "drawer"]
    asset = procedural_assets.CabinetAsset(
        width=None,
        height=None,
        depth=COUNTER["depth"],
        compartment_mask=mask,
        compartment_types=[*kinds, "drawer"],
        compartment_widths=np.array(COUNTER["compartment_widths"]),
        compartment_heights=np.array(COUNTER["compartment_heights"]),
        outer_wall_thickness=COUNTER["wall"],
        inner_wall_thickness=COUNTER["wall"],
        frontboard_overlap=0.7,
    )
    return articulated_links(asset)


def _drawer(link: AssetLink, name: str) -> tuple[Link, Receptacle, Container]:
    boards = [p.shape for p in link.parts if "_board_" in p.name]
    handle = [p.shape for p in link.parts if "_handle_" in p.name]
    bar = max(handle, key=lambda s: s.size[1])
    # The frame's origin goes behind the handle's bar, so that HAB's marker offset holds.
    shift = tuple(h - b for h, b in zip(HANDLE_OFFSET, bar.pos, strict=True))
    boards = [move(s, shift) for s in boards]  # type: ignore[arg-type]
    handle = [move(s, shift) for s in handle]  # type: ignore[arg-type]
    grip = bounding_box(move(bar, shift))  # type: ignore[arg-type]
    front, bottom, left, right, back = boards
    low = (
        back.pos[0] + back.size[0],
        left.pos[1] + left.size[1],
        bottom.pos[2] + bottom.size[2],
    )
    high = (front.pos[0] - front.size[0], right.pos[1] - right.size[1], left.pos[2] + left.size[2])
    pos = link.origin - np.array(shift) + np.array([0.0, 0.0, COUNTER["lift"]])
    moving = Link(
        name,
        (
            *painted(boards, CABINET),
            *(shown_only(s) for s in painted(handle, STEEL)),
            grip,
        ),
        pos=tuple(float(v) for v in np.round(pos, 6)),  # type: ignore[arg-type]
        joint=Joint("slide", (1.0, 0.0, 0.0), COUNTER["drawer_travel"], 10.0, 1.0),
        mass=3.0,
    )
    # Objects lie in the front of the drawer, which comes out from under the counter top.
    inset = 0.03
    place = surface(
        _DRAWER_RECEPTACLES[name],
        name,
        (high[0] - 0.40, low[1] + inset, low[2]),
        (high[0] - inset, high[1] - inset, high[2]),
    )
    inside = box(low, high)
    return moving, place, Container(name, True, inside.pos, inside.size)


def _columns() -> list[tuple[float, float]]:
    """Return each column's span along y, left to right as seen from the front."""
    widths = COUNTER["compartment_widths"]
    edges = np.concatenate([[0.0], np.cumsum(widths)]) - sum(widths) / 2
    return [(float(a), float(b)) for a, b in itertools.pairwise(edges)]


def _counter_top(top: float, half_width: float) -> tuple[list[Shape], list[Receptacle]]:
    """Slab with a hole for the sink, and the three receptacles on it."""
    low, high = top, top + COUNTER["top_thickness"]
    back, front = -COUNTER["depth"] / 2, COUNTER["depth"] / 2
    sink = _columns()[2]
    y0, y1 = sink[0] + 0.06, sink[1] - 0.06
    x0, x1 = -0.12, front - 0.06
    side = half_width + 0.01
    shapes = [
        box((back, -side, low), (front, y0, high), STONE),
        box((back, y1, low), (front, side, high), STONE),
        box((x1, y0, low), (front, y1, high), STONE),
        box((back, y0, low), (x0, y1, high), STONE),
        box((x0, y0, low), (x1, y1, low + 0.004), STEEL),
        box((-0.20, -0.015 + (y0 + y1) / 2, high), (-0.17, 0.015 + (y0 + y1) / 2, high + 0.22)),
        box(
            (-0.20, -0.012 + (y0 + y1) / 2, high + 0.20),
            (-0.06, 0.012 + (y0 + y1) / 2, high + 0.22),
        ),
    ]
    shapes[5:] = painted(shapes[5:], STEEL)
    reach = front - 0.05 - 0.42
    places = [
        surface(
            "counter_left", "counter", (reach, -side + 0.06, high), (front - 0.05, y0 - 0.06, 1.25)
        ),
        surface(
            "counter_right", "counter", (reach, y1 + 0.06, high), (front - 0.05, side - 0.06, 1.25)
        ),
        surface("sink", "counter", (0.0, y0 + 0.03, low + 0.004), (x1 - 0.03, y1 - 0.03, 1.25), 2),
    ]
    return shapes, places


def kitchen_counter() -> Furniture:
    """Return the counter: seven drawers in three columns, a sink, a closed end, a stone top."""
    links = _counter_links()
    lift: Vec3 = (0.0, 0.0, COUNTER["lift"])
    wall = COUNTER["wall"]
    half_width = sum(COUNTER["compartment_widths"]) / 2 + wall
    top = sum(COUNTER["compartment_heights"]) + 2 * wall + COUNTER["lift"]
    half_depth = COUNTER["depth"] / 2
    shapes = []
    for part in links["corpus"].parts:
        shape = move(part.shape, lift)
        inner = part.name.startswith(("separator", "surface"))
        shapes.append(shown_only(shape) if inner else shape)
    plinth = box((-half_depth, -half_width, 0.0), (half_depth - 0.05, half_width, lift[2]), BLACK)
    walls = [
        box(
            (-half_depth, y - wall / 2, lift[2]),
            (half_depth - 0.03, y + wall / 2, top),
            visible=False,
        )
        for _, y in _columns()[:-1]
    ]
    # Solid behind a closed front, of 2 cm: what a fast base presses on it went through, and stayed.
    closed = [
        box(
            (-half_depth + 0.02, y0 + wall / 2, lift[2]),
            (half_depth - 0.02, y1 - wall / 2, top - wall),
            visible=False,
        )
        for y0, y1 in (_columns()[2], _columns()[4])
    ]
    slab, places = _counter_top(top, half_width)
    corpus = root("counter", [*painted(shapes, CABINET), plinth, *walls, *closed, *slab])
    drawers = [_drawer(links[theirs], ours) for theirs, ours in _DRAWERS.items()]
    return Furniture(
        "kitchen_counter",
        "counter",
        (corpus, *(d[0] for d in drawers)),
        (*places, *(d[1] for d in drawers)),
        tuple(Marker(m, link, HANDLE_OFFSET) for m, link in _DRAWER_MARKERS.items()),
        tuple(d[2] for d in drawers),
    )


def _fridge_links(folder: str) -> dict[str, AssetLink]:
    from scene_synthesizer import procedural_assets

    asset = procedural_assets.RefrigeratorAsset(
        width=FRIDGE["width"],
        depth=FRIDGE["depth"],
        height=FRIDGE["height"],
        thickness=FRIDGE["thickness"],
        freezer_compartment_height=FRIDGE["top_height"],
        num_shelves=0,
        num_door_shelves=0,
        door_shelf_depth=0.0,
        handle_length=FRIDGE["handle_length"],
        handle_offset=(0.03, 0.12, 0.03),
        handle_shape_args={
            "straight_ratio": 0.5,
            "curvature_ratio": 0.8,
            "num_segments_curvature": 4,
            "num_segments_cross_section": 6,
            "aspect_ratio_cross_section": 0.5,
            "tmp_mesh_dir": folder,
        },
        door_shape_args={
            "straight_ratio": 0.9,
            "curvature_ratio": 0.9,
            "num_segments": 3,
            "tmp_mesh_dir": folder,
        },
    )
    return articulated_links(asset)


def _fridge_door(link: AssetLink, name: str, mass: float) -> tuple[Link, Vec3]:
    """Return the door and the middle of its handle in the door's frame."""
    panel, handle = (p.shape for p in link.parts)
    grip = bounding_box(handle)
    lift = grip.pos[2] - _FRIDGE_HANDLE_Z
    down = (0.0, 0.0, -lift)
    shapes = [
        shown_only(s)
        for s in (*painted([move(panel, down)], WHITE), *painted([move(handle, down)], STEEL))
    ]
    solid = [bounding_box(move(s, down)) for s in (panel, handle)]
    x, y, z = (float(v) for v in np.round(link.origin, 6))
    door = Link(
        name,
        (*shapes, *solid),
        pos=(round(x + _DOOR_GAP, 6), y, round(z + lift, 6)),
        joint=Joint("hinge", (0.0, 0.0, 1.0), FRIDGE["opening"], 2.0, 0.5),
        mass=mass,
    )
    outer = grip.pos[0] + grip.size[0]
    return door, (round(outer, 6), grip.pos[1], _FRIDGE_HANDLE_Z)


def fridge() -> Furniture:
    """Return the fridge; its large upper door covers the compartment with the middle shelf."""
    with tempfile.TemporaryDirectory() as folder:
        links = _fridge_links(folder)
    # The library has its shelves in the lower compartment; ours follow HAB and are in the upper.
    corpus = [p.shape for p in links["corpus"].parts if not p.name.startswith("shelf")]
    thickness, half_width = FRIDGE["thickness"], FRIDGE["width"] / 2 - FRIDGE["thickness"]
    back = -FRIDGE["depth"] / 2 + thickness
    front = back + FRIDGE["shelf_depth"]
    shelves = [
        box((back, -half_width, z - 0.012), (front, half_width, z), STEEL)
        for z in FRIDGE["shelf_heights"]
    ]
    top_door, handle = _fridge_door(links["freezer_door"], "top_door", 12.0)
    bottom_door, _ = _fridge_door(links["door"], "bottom_door", 8.0)
    z = FRIDGE["shelf_heights"][1]
    shelf = surface(
        "fridge_middle",
        "fridge_body",
        (front - 0.40, -half_width + 0.04, z),
        (front - 0.03, half_width - 0.04, z + 0.34),
    )
    inside = box(
        (back, -half_width, thickness),
        (FRIDGE["depth"] / 2 - thickness, half_width, FRIDGE["height"] - thickness),
    )
    return Furniture(
        "fridge",
        "fridge",
        (root("fridge_body", [*painted(corpus, WHITE), *shelves]), top_door, bottom_door),
        (shelf,),
        (Marker("fridge_push_point", "top_door", handle),),
        (Container("top_door", False, inside.pos, inside.size),),
    )
