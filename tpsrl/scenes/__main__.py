"""``python -m tpsrl.scenes``: prints what the apartment and the objects are made of."""

from __future__ import annotations

import time

from tpsrl.geometry.rotations import frame
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.description import Apartment, Shape
from tpsrl.scenes.geometry import find_link
from tpsrl.scenes.objects import object_types
from tpsrl.scenes.wide import COUNTS


def _triangles(shape: Shape) -> int:
    """Return how many triangles a shape costs; round primitives count as 16-sided prisms."""
    if not shape.visible:
        return 0
    if shape.faces is not None:
        return len(shape.faces)
    return {"box": 12, "cylinder": 60, "sphere": 256}[shape.kind]


def _print_furniture(apartment: Apartment) -> None:
    print(f"{'furniture':<16} {'links':>5} {'solids':>6} {'triangles':>9}")
    for piece in apartment.furniture:
        shapes = [s for link in piece.links for s in link.shapes]
        solids, triangles = sum(s.collide for s in shapes), sum(map(_triangles, shapes))
        print(f"{piece.name:<16} {len(piece.links):>5} {solids:>6} {triangles:>9}")
    shapes = [
        *apartment.walls,
        *(s for p in apartment.furniture for k in p.links for s in k.shapes),
    ]
    print(f"triangles with walls: {sum(map(_triangles, shapes))}\n")


def _print_receptacles(apartment: Apartment) -> None:
    print(f"{'receptacle':<22} {'on':<16} {'support m':>9} {'size m':>20} {'capacity':>8}")
    for piece in apartment.furniture:
        for r in piece.receptacles:
            link = find_link(piece, r.link)
            height = frame(link.pos, link.quat)[2, 3] + r.center[2] - r.half_size[2]
            size = " x ".join(f"{2 * h:.2f}" for h in r.half_size)
            limit = "-" if r.capacity is None else str(r.capacity)
            print(f"{r.name:<22} {piece.name:<16} {height:>9.3f} {size:>20} {limit:>8}")
    print()


def _print_objects() -> None:
    print(f"{'object':<22} {'mass kg':>8} {'size m':>22} {'solids':>6}")
    for kind in object_types().values():
        size = " x ".join(f"{2 * h:.3f}" for h in kind.half_size)
        solids = sum(s.collide for s in kind.shapes)
        print(f"{kind.name:<22} {kind.mass:>8.4f} {size:>22} {solids:>6}")
    print()


def main() -> None:
    """Print furniture, receptacles, objects, layouts and the time to load them from the cache."""
    load_apartment()
    start = time.perf_counter()
    apartment = load_apartment()
    object_types()
    seconds = time.perf_counter() - start
    _print_furniture(apartment)
    _print_receptacles(apartment)
    _print_objects()
    for split in ("train", "val", "test", *COUNTS):
        names = [n for n, layout in apartment.layouts.items() if layout.split == split]
        print(f"{split}: {len(names)} layouts, {names[0]} ... {names[-1]}")
    print(f"loaded from the cache in {1000 * seconds:.1f} ms")


if __name__ == "__main__":
    main()
