"""Small helpers to write furniture as boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tpsrl.scenes.description import Link, Receptacle, Shape, Vec3
from tpsrl.scenes.geometry import shape_points

Rgba = tuple[float, float, float, float]

WOOD: Rgba = (0.66, 0.47, 0.30, 1.0)
DARK_WOOD: Rgba = (0.36, 0.25, 0.18, 1.0)
WHITE: Rgba = (0.90, 0.90, 0.88, 1.0)
CABINET: Rgba = (0.80, 0.83, 0.80, 1.0)
STONE: Rgba = (0.35, 0.36, 0.38, 1.0)
STEEL: Rgba = (0.72, 0.74, 0.76, 1.0)
BLACK: Rgba = (0.08, 0.08, 0.09, 1.0)
FABRIC: Rgba = (0.30, 0.42, 0.52, 1.0)
CUSHION: Rgba = (0.40, 0.53, 0.63, 1.0)
LINEN: Rgba = (0.86, 0.83, 0.76, 1.0)
RED: Rgba = (0.62, 0.25, 0.22, 1.0)
SKY: Rgba = (0.72, 0.84, 0.93, 1.0)
WALL: Rgba = (0.93, 0.91, 0.86, 1.0)


def box(
    low: Vec3, high: Vec3, rgba: Rgba = WOOD, *, collide: bool = True, visible: bool = True
) -> Shape:
    """Return the upright box between two corners, m."""
    center, half = [], []
    for a, b in zip(low, high, strict=True):
        center.append(round((a + b) / 2, 6))
        half.append(round((b - a) / 2, 6))
    return Shape("box", tuple(half), tuple(center), rgba=rgba, collide=collide, visible=visible)  # type: ignore[arg-type]


def bounding_box(shape: Shape) -> Shape:
    """Return the invisible, colliding, upright box around a shape."""
    points = shape_points(shape)
    low, high = points.min(axis=0), points.max(axis=0)
    return box(
        (float(low[0]), float(low[1]), float(low[2])),
        (float(high[0]), float(high[1]), float(high[2])),
        shape.rgba,
        visible=False,
    )


def painted(shapes: Iterable[Shape], rgba: Rgba) -> tuple[Shape, ...]:
    """Return the shapes in another colour."""
    return tuple(replace(shape, rgba=rgba) for shape in shapes)


def shown_only(shape: Shape) -> Shape:
    """Return a shape that is rendered and takes no part in contacts."""
    return replace(shape, collide=False)


def surface(name: str, link: str, low: Vec3, high: Vec3, capacity: int | None = None) -> Receptacle:
    """Return the receptacle between two corners in the link's frame; ``low`` has the support."""
    frame = box(low, high)
    return Receptacle(name, link, frame.pos, frame.size, capacity)


def root(name: str, shapes: Iterable[Shape]) -> Link:
    """Return the fixed link of a piece."""
    return Link(name, tuple(shapes), mass=30.0)
