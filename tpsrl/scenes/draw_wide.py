"""Draws the layouts for learning only: ``python -m tpsrl.scenes.draw_wide`` makes the same again.

Each piece stands against any wall or freely in any room; what passes the checks of the benchmark's
own layouts (:mod:`tpsrl.scenes.checks`) is kept.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from shapely import affinity
from shapely.geometry import Polygon, box
from shapely.ops import unary_union

from tpsrl.files import write_atomically
from tpsrl.geometry.rotations import principal
from tpsrl.scenes.apartment import DOORWAY_Y, DOORWAYS_X, load_apartment
from tpsrl.scenes.checks import OPEN_ANGLES, LayoutCheck
from tpsrl.scenes.description import Apartment, Furniture, Layout
from tpsrl.scenes.geometry import find_link, link_footprint, link_footprints, wall_footprints
from tpsrl.scenes.layouts import (
    EAST,
    NORTH,
    PARTITION_X,
    PARTITION_Y,
    SOUTH,
    SPLITS,
    VARIATIONS,
    WALL_THICKNESS,
    WEST,
    make_layout,
)
from tpsrl.scenes.wide import COUNTS, FILE, Pose, layout_name

_SEED = 2026
_HALF = WALL_THICKNESS / 2
_ROOMS = (
    (WEST, SOUTH, PARTITION_X - _HALF, NORTH),
    (PARTITION_X + _HALF, PARTITION_Y + _HALF, EAST, NORTH),
    (PARTITION_X + _HALF, SOUTH, EAST, PARTITION_Y - _HALF),
)
"""Low x, low y, high x, high y inside of each room, m; the large one first."""
_WEIGHTS = (0.55, 0.225, 0.225)
_GAP, _APART, _DOORWAY, _FRONT = 0.015, 0.03, 0.5, 1.21
_TRIES = 40
_NEAR, _TURNED = 0.6, 0.5
"""A piece stands where another layout has it if it is this near, m and rad."""
_ORDER = (
    "kitchen_counter",
    "fridge",
    "bed",
    "sofa",
    "tvstand",
    "bookshelf",
    "table_01",
    "table_02",
    "chair",
)
_AT_WALL = {
    "kitchen_counter": 1.0,
    "fridge": 1.0,
    "bed": 0.9,
    "sofa": 0.7,
    "tvstand": 0.9,
    "bookshelf": 1.0,
    "chair": 0.2,
}
"""Probability of standing with the back against a wall."""


@dataclass(frozen=True)
class _Outline:
    """A piece at the origin: what it stands on, and what must stay free, as polygons."""

    solid: Any
    free: Any
    back: float
    side: float


class WideDrawer:
    """Draws layouts of an apartment.

    Args:
        apartment: walls and furniture; its layouts are not used.
    """

    def __init__(self, apartment: Apartment) -> None:
        self.apartment = apartment
        self._outlines = {piece.name: _outline(piece) for piece in apartment.furniture}
        self._walls = unary_union([Polygon(p) for p in wall_footprints(apartment)])
        x, y = PARTITION_X, PARTITION_Y
        ways = [box(x - _DOORWAY, low, x + _DOORWAY, high) for low, high in DOORWAYS_X]
        ways.append(box(DOORWAY_Y[0], y - _DOORWAY, DOORWAY_Y[1], y + _DOORWAY))
        self._doorways = unary_union(ways)

    def layout(self, split: str, number: int) -> Layout:
        """Return a layout that passes all checks; equal arguments give equal poses."""
        name, attempt = layout_name(split, number), 0
        while True:
            rng = np.random.default_rng([_SEED, list(COUNTS).index(split), number, attempt])
            attempt += 1
            poses = self.draw(rng)
            if poses is None or resembles_held_out(poses):
                continue
            kind: Any = split
            layout = Layout(name, kind, poses)
            if not any(LayoutCheck(self.apartment, layout).steps()):
                return layout

    def draw(self, rng: np.random.Generator) -> dict[str, Pose] | None:
        """Return poses of all pieces that overlap nothing, ``None`` where one found no place."""
        poses: dict[str, Pose] = {}
        solid, free = Polygon(), self._doorways
        room = int(rng.choice(len(_ROOMS), p=_WEIGHTS))
        for name in _ORDER:
            for _ in range(_TRIES):
                if name != "kitchen_counter" and not (name == "fridge" and rng.random() < 0.8):
                    room = int(rng.choice(len(_ROOMS), p=_WEIGHTS))
                pose = self._candidate(rng, name, _ROOMS[room])
                if pose is None:
                    continue
                outline = self._outlines[name]
                here, clear = _moved(outline.solid, pose), _moved(outline.free, pose)
                if self._fits(here, clear, solid, free):
                    poses[name] = pose
                    solid, free = solid.union(here), free.union(clear)
                    break
            else:
                return None
        return poses

    def _fits(self, here: Any, clear: Any, solid: Any, free: Any) -> bool:
        """Return whether a piece, and what it needs free, go with the ``solid`` ones before."""
        low_x, low_y, high_x, high_y = here.bounds
        inside = low_x > WEST and high_x < EAST and low_y > SOUTH and high_y < NORTH
        if not inside or here.intersects(self._walls) or here.intersects(free):
            return False
        if not solid.is_empty and here.distance(solid) < _APART:
            return False
        return not (clear.intersects(solid) or clear.intersects(self._walls))

    def _candidate(
        self, rng: np.random.Generator, name: str, room: tuple[float, ...]
    ) -> Pose | None:
        low_x, low_y, high_x, high_y = room
        outline = self._outlines[name]
        if rng.random() >= _AT_WALL.get(name, 0.0):
            x, y = rng.uniform(low_x, high_x), rng.uniform(low_y, high_y)
            turn = rng.uniform(-np.pi, np.pi) if rng.random() < 0.2 else rng.normal(0.0, 0.08)
            return _rounded(x, y, rng.integers(4) * np.pi / 2 + turn)
        side, inset = int(rng.integers(4)), outline.back + _GAP
        low, high = ((low_y, high_y), (low_x, high_x))[side % 2]
        if high - low < 2 * outline.side + 2 * _APART:
            return None
        along = rng.uniform(low + outline.side + _APART, high - outline.side - _APART)
        yaw = side * np.pi / 2
        places = (
            (low_x + inset, along),
            (along, low_y + inset),
            (high_x - inset, along),
            (along, high_y - inset),
        )
        return _rounded(*places[side], yaw)


@lru_cache(maxsize=1)
def _held_out() -> tuple[Mapping[str, Pose], ...]:
    macros = [macro for macro, split in enumerate(SPLITS) if split != "train"]
    return tuple(make_layout(m, v).poses for m in macros for v in range(VARIATIONS))


def resembles_held_out(poses: Mapping[str, Pose]) -> bool:
    """Return whether kitchen and fridge, or four pieces, stand as in a val or test layout."""
    for other in _held_out():
        same = {name for name in poses if _same(poses[name], other[name])}
        if len(same) >= 4 or {"kitchen_counter", "fridge"} <= same:
            return True
    return False


def _same(a: Pose, b: Pose) -> bool:
    turn = abs(principal(a[2] - b[2]))
    return bool(np.hypot(a[0] - b[0], a[1] - b[1]) < _NEAR and turn < _TURNED)


def _rounded(x: float, y: float, yaw: float) -> Pose:
    turn = principal(yaw)
    return round(float(x), 4), round(float(y), 4), round(turn, 4)


def _moved(polygon: Any, pose: Pose) -> Any:
    turned = affinity.rotate(polygon, pose[2], origin=(0.0, 0.0), use_radians=True)
    return affinity.translate(turned, pose[0], pose[1])


def _outline(piece: Furniture) -> _Outline:
    origin = (0.0, 0.0, 0.0)
    solid = unary_union([Polygon(p) for link in piece.links for p in link_footprints(link, origin)])
    low_x, low_y, high_x, high_y = solid.bounds
    clear: list[Any] = []
    if piece.name == "kitchen_counter":
        sides = [(link.pos[1] - 0.3, link.pos[1] + 0.3) for link in piece.links[1:]]
        clear = [box(high_x, a, high_x + _FRONT, b) for a, b in sides]
    elif piece.name == "fridge":
        door = find_link(piece, "top_door")
        swept = [link_footprint(door, origin, angle) for angle in OPEN_ANGLES]
        clear = [Polygon(p).buffer(0.06) for p in swept if p is not None]
        clear.append(box(high_x, -0.375, high_x + _FRONT, 0.375))
    return _Outline(solid, unary_union(clear), -low_x, max(high_y, -low_y))


@lru_cache(maxsize=1)
def _drawer() -> WideDrawer:
    return WideDrawer(load_apartment())


def _draw_one(task: tuple[str, int]) -> Layout:
    return _drawer().layout(*task)


def main() -> None:
    """Draw all wide layouts, in two processes, and write the file."""
    tasks = [(split, number) for split, count in COUNTS.items() for number in range(count)]
    lines, start = list[str](), time.monotonic()
    with ProcessPoolExecutor(2) as executor:
        for layout in executor.map(_draw_one, tasks, chunksize=5):
            poses = {name: list(pose) for name, pose in layout.poses.items()}
            lines.append(f"{json.dumps(layout.name)}: {json.dumps(poses)}")
            if len(lines) % 20 == 0:
                seconds = time.monotonic() - start
                left = seconds / len(lines) * (len(tasks) - len(lines))
                text = f"{len(lines)}/{len(tasks)} layouts, {seconds:.0f} s, {left:.0f} s left"
                print(text, file=sys.stderr, flush=True)
    write_atomically(FILE, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    print(f"{FILE}: {len(lines)} layouts")


if __name__ == "__main__":
    main()
