"""The movable objects: YCB objects as primitives or simple convex shapes.

Sizes and masses are those of the YCB paper's table (Calli et al. 2015, *Benchmarking in
Manipulation Research*). Shapes stand as Habitat's ``up`` sampler places them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tpsrl.geometry.rotations import turned
from tpsrl.scenes.description import ObjectType, Shape, Vec3
from tpsrl.scenes.geometry import shape_points

Rgba = tuple[float, float, float, float]

_CANS: dict[str, tuple[float, float, float, Rgba]] = {
    "002_master_chef_can": (0.102, 0.139, 0.414, (0.13, 0.22, 0.45, 1.0)),
    "005_tomato_soup_can": (0.066, 0.101, 0.349, (0.75, 0.12, 0.10, 1.0)),
    "007_tuna_fish_can": (0.085, 0.033, 0.171, (0.25, 0.45, 0.62, 1.0)),
}
"""Diameter and height, m; mass, kg; colour."""

_BOXES: dict[str, tuple[Vec3, float, Rgba]] = {
    "003_cracker_box": ((0.060, 0.160, 0.230), 0.411, (0.78, 0.15, 0.12, 1.0)),
    "004_sugar_box": ((0.038, 0.089, 0.175), 0.514, (0.93, 0.80, 0.20, 1.0)),
    "008_pudding_box": ((0.110, 0.089, 0.035), 0.187, (0.45, 0.25, 0.14, 1.0)),
    "009_gelatin_box": ((0.085, 0.073, 0.028), 0.097, (0.80, 0.22, 0.35, 1.0)),
    "010_potted_meat_can": ((0.050, 0.097, 0.082), 0.370, (0.20, 0.30, 0.60, 1.0)),
    "026_sponge": ((0.072, 0.114, 0.014), 0.0062, (0.90, 0.78, 0.30, 1.0)),
}
"""Length, width, height, m; mass, kg; colour."""

_FRUIT: dict[str, tuple[float, float, Rgba]] = {
    "013_apple": (0.075, 0.068, (0.75, 0.10, 0.12, 1.0)),
    "015_peach": (0.059, 0.033, (0.93, 0.60, 0.38, 1.0)),
    "017_orange": (0.073, 0.047, (0.95, 0.52, 0.10, 1.0)),
    "018_plum": (0.052, 0.025, (0.35, 0.10, 0.25, 1.0)),
}
"""Diameter, m; mass, kg; colour. Spheres."""


_SIDES = 12
"""Corners of a fruit's cross-section."""


def _can(name: str) -> ObjectType:
    diameter, height, mass, rgba = _CANS[name]
    radius = diameter / 2
    shape = Shape("cylinder", (radius, height / 2, 0.0), rgba=rgba)
    return ObjectType(name, (shape,), mass, (radius, radius, height / 2))


def _box_object(name: str) -> ObjectType:
    size, mass, rgba = _BOXES[name]
    half = (size[0] / 2, size[1] / 2, size[2] / 2)
    return ObjectType(name, (Shape("box", half, rgba=rgba),), mass, half)


def _sphere(name: str) -> ObjectType:
    diameter, mass, rgba = _FRUIT[name]
    radius = diameter / 2
    shape = Shape("sphere", (radius, 0.0, 0.0), rgba=rgba)
    return ObjectType(name, (shape,), mass, (radius, radius, radius))


def _lathe(profile: list[tuple[float, float]], sides: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (v, 3) and faces (f, 3) of a convex solid of revolution about z.

    Args:
        profile: (radius, z) from bottom to top; all radii positive.
        sides: corners of each ring.
    """
    angle = np.arange(sides) * 2 * np.pi / sides
    rings = [
        np.column_stack([r * np.cos(angle), r * np.sin(angle), np.full(sides, z)])
        for r, z in profile
    ]
    faces = []
    for k in range(len(profile) - 1):
        for i in range(sides):
            a, b = k * sides + i, k * sides + (i + 1) % sides
            faces += [(a, b, b + sides), (a, b + sides, a + sides)]
    top = (len(profile) - 1) * sides
    for i in range(1, sides - 1):
        faces += [(0, i + 1, i), (top, top + i, top + i + 1)]
    return np.concatenate(rings), np.array(faces, dtype=np.int32)


def _rest_slope(profile: list[tuple[float, float]]) -> float:
    """Return the slope of the cone on which a convex solid of revolution comes to rest."""
    slices = np.linspace(profile[0][1], profile[-1][1], 400)
    radius, z = np.array(profile).T
    weight = np.interp(slices, z, radius) ** 2
    center = np.sum(weight * slices) / np.sum(weight)
    slopes = np.diff(radius) / np.diff(z)
    height = (radius[:-1] + slopes * (center - z[:-1])) / np.sqrt(1 + slopes**2)
    return float(slopes[int(np.argmin(height))])


def _lying(name: str, profile: list[tuple[float, float]], mass: float, rgba: Rgba) -> ObjectType:
    """Return a solid of revolution about its long axis, lying as it comes to rest."""
    vertices, faces = _lathe(profile, _SIDES)
    # A face and not an edge points down, and the published diameter is that across faces.
    turn = np.pi / _SIDES
    spin = np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    vertices = vertices @ spin / [np.cos(turn), np.cos(turn), 1.0]
    vertices = vertices[:, [2, 0, 1]]
    tilt = -float(np.arctan(_rest_slope(profile)))
    c, s = np.cos(tilt), np.sin(tilt)
    vertices = vertices @ np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    half = tuple(float(v) for v in (high - low) / 2)
    shape = Shape("mesh", rgba=rgba, vertices=vertices - (low + high) / 2, faces=faces)
    return ObjectType(name, (shape,), mass, half)  # type: ignore[arg-type]


def _ring(
    bottom: float, top: float, height: float, thickness: float, sides: int, rgba: Rgba
) -> list[Shape]:
    """Return boxes round the z axis, their outer faces on a cone.

    Args:
        bottom: radius of the outer faces at -height/2, m.
        top: radius of the outer faces at height/2, m.
        height: of the ring, m.
        thickness: of the boxes, m.
        sides: number of boxes.
        rgba: colour.
    """
    lean = float(np.arctan2(top - bottom, height))
    half_height = (height - thickness * np.sin(lean)) / 2 / np.cos(lean)
    half_width = float((bottom + top) / 2 * np.tan(np.pi / sides))
    radius = (bottom + top) / 2 - thickness / 2 * np.cos(lean)
    tilt = np.array([np.cos(lean / 2), 0.0, np.sin(lean / 2), 0.0])
    return [
        Shape(
            "box",
            (thickness / 2, half_width, float(half_height)),
            (float(radius * np.cos(a)), float(radius * np.sin(a)), 0.0),
            turned(float(a), tilt),
            rgba,
        )
        for a in np.arange(sides) * 2 * np.pi / sides
    ]


def _half_size(shapes: Iterable[Shape]) -> Vec3:
    points = np.concatenate([shape_points(s) for s in shapes])
    x, y, z = (float(v) for v in np.abs(points).max(axis=0))
    return (x, y, z)


def _hidden(shapes: Iterable[Shape]) -> list[Shape]:
    return [replace(shape, visible=False) for shape in shapes]


def _shell(profile: list[tuple[float, float]], rgba: Rgba) -> Shape:
    """Return what cameras see of a hollow object: a mesh of revolution that nothing touches."""
    vertices, faces = _lathe(profile, 16)
    return Shape("mesh", rgba=rgba, collide=False, vertices=vertices, faces=faces)


def _bowl() -> ObjectType:
    """Eight leaning boxes on a bottom, hollow; shown as one mesh."""
    half, top, foot, wall = 0.053 / 2, 0.159 / 2, 0.050, 0.007
    rgba = (0.75, 0.25, 0.20, 1.0)
    bottom = Shape("cylinder", (foot, 0.004, 0.0), (0.0, 0.0, 0.004 - half), rgba=rgba)
    solid = [bottom, *_ring(foot, top, 2 * half, wall, 8, rgba)]
    shell = _shell([(foot, -half), (top, half), (top - wall, half), (foot, 0.008 - half)], rgba)
    return ObjectType("024_bowl", (*_hidden(solid), shell), 0.147, (top, top, half))


def _mug() -> ObjectType:
    """Eight boxes on a bottom, hollow, shown as one mesh; a handle at +x that is 32 mm long."""
    radius, half, wall, handle = 0.080 / 2, 0.082 / 2, 0.006, 0.032
    rgba = (0.70, 0.12, 0.12, 1.0)
    bottom = Shape("cylinder", (radius - wall, 0.004, 0.0), (0.0, 0.0, 0.004 - half), rgba=rgba)
    solid = [bottom, *_ring(radius, radius, 2 * half, wall, 8, rgba)]
    inner = radius - wall
    profile = [(radius, -half), (radius, half), (inner, half), (inner, 0.008 - half)]
    grip = Shape("box", (handle / 2, 0.006, 0.025), (radius + handle / 2, 0.0, 0.0), rgba=rgba)
    shapes = [*_hidden(solid), _shell(profile, rgba), grip]
    centred = tuple(replace(s, pos=(s.pos[0] - handle / 2, *s.pos[1:])) for s in shapes)
    return ObjectType("025_mug", centred, 0.118, (radius + handle / 2, radius, half))


def _banana() -> ObjectType:
    """Four boxes along an arc, 0.19 m from end to end and 36 mm thick, lying flat."""
    rgba = (0.95, 0.82, 0.20, 1.0)
    thickness, bend = 0.036, 0.9
    angles = (np.arange(4) - 1.5) * bend / 4
    radius = (0.190 / 2 - 0.008) / np.sin(bend / 2)
    half = (float(radius * bend / 8 + 0.004), thickness / 2, thickness / 2)
    shapes = [
        Shape(
            "box",
            half,
            (float(radius * np.sin(a)), float(radius * np.cos(a)), 0.0),
            turned(float(-a), np.array([1.0, 0.0, 0.0, 0.0])),
            rgba,
        )
        for a in angles
    ]
    points = np.concatenate([shape_points(s) for s in shapes])
    shift = (points.min(axis=0) + points.max(axis=0)) / 2
    centred = tuple(
        replace(s, pos=(s.pos[0] - float(shift[0]), s.pos[1] - float(shift[1]), 0.0))
        for s in shapes
    )
    return ObjectType("011_banana", centred, 0.066, _half_size(centred))


def _bleach() -> ObjectType:
    """A body 65 mm x 98 mm and a neck; 0.250 m high."""
    rgba = (0.92, 0.92, 0.88, 1.0)
    body = Shape("box", (0.0325, 0.049, 0.0925), (0.0, 0.0, -0.0325), rgba=rgba)
    neck = Shape("cylinder", (0.020, 0.0325, 0.0), (0.0, 0.0, 0.0925), rgba=(0.2, 0.35, 0.7, 1.0))
    return ObjectType("021_bleach_cleanser", (body, neck), 1.131, (0.0325, 0.049, 0.125))


def _build() -> dict[str, ObjectType]:
    yellow: Rgba = (0.95, 0.85, 0.20, 1.0)
    green: Rgba = (0.60, 0.75, 0.30, 1.0)
    red: Rgba = (0.85, 0.12, 0.15, 1.0)
    lemon = [(0.007, -0.034), (0.020, -0.024), (0.027, -0.008)]
    lemon += [(r, -z) for r, z in reversed(lemon)]
    pear = [(0.016, -0.050), (0.032, -0.036), (0.0331, -0.016), (0.024, 0.016), (0.010, 0.050)]
    strawberry = [(0.006, -0.0275), (0.018, -0.008), (0.02195, 0.010), (0.012, 0.0275)]
    objects = [
        *(_can(name) for name in _CANS),
        *(_box_object(name) for name in _BOXES),
        *(_sphere(name) for name in _FRUIT),
        _bowl(),
        _mug(),
        _banana(),
        _bleach(),
        _lying("012_strawberry", strawberry, 0.018, red),
        _lying("014_lemon", lemon, 0.029, yellow),
        _lying("016_pear", pear, 0.049, green),
    ]
    return {o.name: o for o in sorted(objects, key=lambda o: o.name)}


def object_types() -> Mapping[str, ObjectType]:
    """Return all object types by YCB name, sorted."""
    return MappingProxyType(_build())
