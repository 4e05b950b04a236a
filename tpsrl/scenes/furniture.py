"""The fixed set of furniture of the apartment.

Kitchen counter, fridge, tables, TV stand and bookshelf come from the package scene-synthesizer
(through a cache on disk, so that the package is imported once a machine); chair, sofa and bed,
which it lacks, are boxes.
"""

from __future__ import annotations

from typing import Any

from tpsrl.scenes import boxes, description, kitchen, library
from tpsrl.scenes.boxes import (
    BLACK,
    CUSHION,
    DARK_WOOD,
    FABRIC,
    LINEN,
    RED,
    WHITE,
    WOOD,
    Rgba,
    box,
    painted,
    root,
    shown_only,
    surface,
)
from tpsrl.scenes.cache import cached_furniture, sources_digest
from tpsrl.scenes.description import Furniture
from tpsrl.scenes.library import library_version, scene_parts

_BUILDERS = (boxes, description, kitchen, library)

HEADROOM = 0.35
"""Height of the receptacle boxes above their support, m."""

TABLES: dict[str, dict[str, Any]] = {
    "table_01": {"width": 1.30, "depth": 0.80, "height": 0.74, "leg_thickness": 0.06},
    "table_02": {"width": 1.00, "depth": 0.60, "height": 0.46, "leg_thickness": 0.05},
}
"""``table_01`` is the dining table, ``table_02`` the coffee table."""

SHELVES: dict[str, dict[str, Any]] = {
    "tvstand": {"width": 1.50, "depth": 0.48, "height": 0.52, "num_boards": 3},
    "bookshelf": {"width": 0.90, "depth": 0.32, "height": 1.70, "num_boards": 5},
}


def _table(name: str, rgba: Rgba) -> Furniture:
    from scene_synthesizer import procedural_assets

    size = TABLES[name]
    asset = procedural_assets.TableAsset(**size, thickness=0.035, leg_margin=0.12, leg_as_box=True)
    shapes = [p.shape for p in scene_parts(asset)]
    x, y, z = size["depth"] / 2 - 0.05, size["width"] / 2 - 0.05, size["height"]
    place = surface(name, name, (-x, -y, z), (x, y, z + HEADROOM))
    return Furniture(name, "table", (root(name, painted(shapes, rgba)),), (place,))


def _shelf(name: str, rgba: Rgba, verticals: int) -> list[Any]:
    from scene_synthesizer import procedural_assets

    asset = procedural_assets.ShelfAsset(
        **SHELVES[name],
        num_side_columns=float("inf"),
        cylindrical_columns=False,
        num_vertical_boards=verticals,
        backboard_thickness=0.01,
    )
    return list(painted([p.shape for p in scene_parts(asset)], rgba))


def _tvstand() -> Furniture:
    size = SHELVES["tvstand"]
    x, y, z = size["depth"] / 2, size["width"] / 2, size["height"]
    screen = [
        box((-x, -0.55, z + 0.06), (-x + 0.05, 0.55, z + 0.70), BLACK),
        box((-x, -0.15, z), (-x + 0.08, 0.15, z + 0.06), BLACK),
    ]
    place = surface(
        "tvstand", "tvstand", (-x + 0.13, -y + 0.05, z), (x - 0.04, y - 0.05, z + HEADROOM)
    )
    shapes = [*_shelf("tvstand", DARK_WOOD, 2), *screen]
    return Furniture("tvstand", "tvstand", (root("tvstand", shapes),), (place,))


def _bookshelf() -> Furniture:
    books = []
    colours = (RED, FABRIC, LINEN, DARK_WOOD, CUSHION)
    for row, z in enumerate((0.03, 0.4475, 0.865, 1.2825)):
        for k in range(5):
            y = -0.40 + 0.155 * k + 0.02 * (row % 2)
            books.append(
                shown_only(
                    box(
                        (-0.14, y, z),
                        (0.06, y + 0.13, z + 0.22 + 0.02 * ((k + row) % 3)),
                        colours[(k + 2 * row) % len(colours)],
                    )
                )
            )
    shapes = [*_shelf("bookshelf", WOOD, 0), *books]
    return Furniture("bookshelf", "bookshelf", (root("bookshelf", shapes),))


def _library_pieces() -> tuple[Furniture, ...]:
    return (
        kitchen.kitchen_counter(),
        kitchen.fridge(),
        _table("table_01", WOOD),
        _table("table_02", DARK_WOOD),
        _tvstand(),
        _bookshelf(),
    )


def chair() -> Furniture:
    """Return an easy chair with a low seat and a back; receptacle ``chair`` (HAB's Chr1)."""
    shapes = [
        box((-0.27, -0.30, 0.34), (0.29, 0.30, 0.44), CUSHION),
        box((-0.35, -0.30, 0.34), (-0.27, 0.30, 0.92), FABRIC),
        *(
            box((x, y, 0.0), (x + 0.05, y + 0.05, 0.34), DARK_WOOD)
            for x in (-0.33, 0.22)
            for y in (-0.28, 0.23)
        ),
    ]
    place = surface("chair", "chair", (-0.20, -0.24, 0.44), (0.24, 0.24, 0.44 + HEADROOM), 2)
    return Furniture("chair", "chair", (root("chair", shapes),), (place,))


def sofa() -> Furniture:
    """Return a sofa with a back and two arms."""
    shapes = [
        box((-0.40, -0.95, 0.08), (0.40, 0.95, 0.30), FABRIC),
        *(box((-0.20, y, 0.30), (0.42, y + 0.785, 0.43), CUSHION) for y in (-0.79, 0.005)),
        box((-0.42, -0.95, 0.08), (-0.20, 0.95, 0.85), FABRIC),
        *(box((-0.20, y, 0.08), (0.40, y + 0.16, 0.60), FABRIC) for y in (-0.95, 0.79)),
        *(
            box((x, y, 0.0), (x + 0.06, y + 0.06, 0.08), BLACK)
            for x in (-0.38, 0.30)
            for y in (-0.92, 0.86)
        ),
    ]
    place = surface("sofa", "sofa", (-0.08, -0.72, 0.43), (0.36, 0.72, 0.43 + HEADROOM))
    return Furniture("sofa", "sofa", (root("sofa", shapes),), (place,))


def bed() -> Furniture:
    """Return a bed, its head at -x; no receptacle."""
    shapes = [
        box((-1.00, -0.70, 0.06), (1.00, 0.70, 0.28), DARK_WOOD),
        box((-0.97, -0.67, 0.28), (0.98, 0.67, 0.48), LINEN),
        box((-1.05, -0.72, 0.0), (-1.00, 0.72, 0.95), DARK_WOOD),
        box((-0.50, -0.69, 0.44), (1.00, 0.69, 0.50), RED),
        *(box((-0.92, y, 0.48), (-0.58, y + 0.52, 0.58), WHITE) for y in (-0.60, 0.08)),
        *(
            box((x, y, 0.0), (x + 0.08, y + 0.08, 0.06), BLACK)
            for x in (-0.98, 0.90)
            for y in (-0.68, 0.60)
        ),
    ]
    return Furniture("bed", "bed", (root("bed", shapes),))


def load_furniture() -> tuple[Furniture, ...]:
    """Return all pieces; those of scene-synthesizer from the cache, or built and then cached."""
    parameters = {
        "sources": sources_digest(__file__, *(str(m.__file__) for m in _BUILDERS)),
        "library": library_version(),
    }
    return (*cached_furniture(parameters, _library_pieces), chair(), sofa(), bed())
