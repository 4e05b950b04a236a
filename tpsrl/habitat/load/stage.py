"""The stage of a scene: walls and floor.

Habitat collides with the stage's triangles as they are. MuJoCo needs convex solids: a connected
part that is convex is one, the surface of any other is covered with boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.habitat import format as fmt
from tpsrl.habitat.load.files import Config, read_config, vector
from tpsrl.habitat.load.meshes import convex_solids, hull, mesh_parts, transformed
from tpsrl.habitat.load.objects import asset_frame, receptacles
from tpsrl.scenes.description import Receptacle, Shape
from tpsrl.scenes.geometry import shape_points

VOXEL = 0.05
"""Thickness of the boxes that cover what is not convex, m."""
CEILING = 2.2
"""Nothing above this is touched by the robot, m."""
STEP = 0.05
"""Whatever ends below this height is driven over, m."""
_CONVEX = 0.02
"""A part counts as convex if its points leave its hull by less than this fraction of its size."""
WIDEST = 250.0
"""Widest stage, m."""
_CELL = 0.1
"""Raster in which the floor is looked for, m."""


@dataclass(frozen=True)
class Stage:
    """Fixed surroundings, z up, the floor at height 0.

    Attributes:
        shapes: what is seen, and solids that are touched.
        bounds: (2, 2) xy corners of the ground that the robot may use.
        floor: height of the floor in the files, m.
        receptacles: places of the stage itself, the link's name left empty.
    """

    shapes: tuple[Shape, ...]
    bounds: np.ndarray
    floor: float
    receptacles: tuple[Receptacle, ...]


def load_stage(path: Path, placed: np.ndarray | None = None) -> Stage:
    """Read a stage configuration.

    Args:
        path: ``.stage_config.json``.
        placed: (4, 4) z-up transform of the stage in the scene, scale included.

    Raises:
        UserError: a file is missing or malformed.
    """
    config = read_config(path)
    world = np.eye(4) if placed is None else placed
    factor = config.vector("scale", (1.0, 1.0, 1.0)) * config.positive("units_to_meters", 1.0)
    matrix = world @ asset_frame(config) @ np.diag([*factor, 1.0])
    render = config.asset("render_asset")
    visual = [transformed(p, matrix) for p in mesh_parts(render)]
    solid = [transformed(p, matrix) for p in mesh_parts(config.asset("collision_asset", render))]
    _check_extent(config, solid)
    floor = floor_height(solid)
    down = np.eye(4)
    down[2, 3] = -floor
    visual = [transformed(p, down) for p in visual]
    solid = [transformed(p, down) for p in solid]
    user = config.inside("user_defined")
    described = user.raw.get(fmt.SOLIDS) if np.allclose(world, np.eye(4)) else None
    if described is not None:
        solids: Sequence[Shape] = _described(config, described, solid)
        bounds = _bounds(user)
        gaps: list[Shape] = []
    else:
        solids = [s for part in solid for s in decompose(part)]
        bounds, gaps = ground(solid)
    touched = [s for s in solids if _blocks(s)]
    places = tuple(
        replace(r, center=(r.center[0], r.center[1], r.center[2] - floor))
        for r in receptacles(user, y_up=True)
    )
    return Stage((*visual, *touched, *gaps), bounds, floor, places)


def floor_height(parts: Sequence[Shape]) -> float:
    """Return the height of the largest level surface in the lower part of a stage, m."""
    heights, areas = [], []
    for part in parts:
        corners = np.asarray(part.vertices)[np.asarray(part.faces)]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        double = np.linalg.norm(normal, axis=1)
        level = normal[:, 2] > 0.95 * np.maximum(double, 1e-12)
        heights.append(corners[level].mean(axis=1)[:, 2])
        areas.append(double[level] / 2)
    height, area = np.concatenate(heights), np.concatenate(areas)
    if not len(height):
        return 0.0
    low = height <= height.min() + 1.0
    bins = np.round(height[low] / 0.02).astype(int)
    total = np.bincount(bins - bins.min(), weights=area[low])
    chosen = bins - bins.min() == int(total.argmax())
    found = float(np.average(height[low][chosen], weights=area[low][chosen]))
    # Less than a millimetre is rounding of the file.
    return 0.0 if abs(found) < 1e-3 else found


def decompose(part: Shape) -> list[Shape]:
    """Return convex solids that together touch where one mesh does."""
    import trimesh

    mesh: Any = trimesh.Trimesh(np.asarray(part.vertices), np.asarray(part.faces), process=False)
    mesh.merge_vertices(merge_tex=True, merge_norm=True)
    out: list[Shape] = []
    for piece in mesh.split(only_watertight=False):
        solid = hull(np.asarray(piece.vertices))
        if _is_convex(piece, solid):
            out.append(solid)
        else:
            out += _boxes(piece)
    return out


def ground(parts: Sequence[Shape]) -> tuple[np.ndarray, list[Shape]]:
    """Return (2, 2) bounds of the floor, and solids where there is none inside the bounds."""
    cells = [np.zeros((0, 2))]
    for part in parts:
        corners = np.asarray(part.vertices)[np.asarray(part.faces)]
        flat = np.abs(corners[:, :, 2]).max(axis=1) < STEP
        cells += [_raster(triangle[:, :2]) for triangle in corners[flat]]
    index = np.unique(np.concatenate(cells), axis=0).astype(int)
    if not len(index):
        points = np.concatenate([np.asarray(p.vertices)[:, :2] for p in parts])
        return np.stack([points.min(axis=0), points.max(axis=0)]), []
    low, high = index.min(axis=0), index.max(axis=0) + 1
    floor = np.zeros(high - low, dtype=bool)
    floor[tuple((index - low).T)] = True
    bounds = np.stack([low, high]) * _CELL
    return bounds, [_slab(low, rectangle) for rectangle in rectangles(~floor)]


def _raster(triangle: np.ndarray) -> np.ndarray:
    """Return (k, 2) cells whose centres lie in a triangle, or that hold a corner."""
    low = np.floor(triangle.min(axis=0) / _CELL).astype(int)
    high = np.ceil(triangle.max(axis=0) / _CELL).astype(int) + 1
    i, j = np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1]), indexing="ij")
    cells = np.stack([i.ravel(), j.ravel()], axis=1)
    centers = (cells + 0.5) * _CELL
    inside = np.ones(len(cells), dtype=bool)
    edges = np.roll(triangle, -1, axis=0) - triangle
    area = edges[0, 0] * edges[1, 1] - edges[0, 1] * edges[1, 0]
    for corner, edge in zip(triangle, edges, strict=True):
        rel = centers - corner
        inside &= (edge[0] * rel[:, 1] - edge[1] * rel[:, 0]) * np.sign(area) >= -1e-9
    return cells[inside]


def rectangles(mask: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Cover the true cells of (a, b) with rectangles (i0, j0, i1, j1), ends excluded."""
    left = mask.copy()
    out = []
    for i, j in np.argwhere(mask):
        if not left[i, j]:
            continue
        row = left[i, j:]
        j1 = j + (len(row) if row.all() else int(np.argmin(row)))
        below = np.asarray(left[i:, j:j1].all(axis=1))
        i1 = i + (len(below) if below.all() else int(np.argmin(below)))
        left[i:i1, j:j1] = False
        out.append((int(i), int(j), int(i1), int(j1)))
    return out


def _slab(low: np.ndarray, rectangle: tuple[int, int, int, int]) -> Shape:
    """A kerb that keeps the base off ground that is not there."""
    corners = (np.array(rectangle).reshape(2, 2) + low) * _CELL
    (x0, y0), (x1, y1) = corners
    half = (float(x1 - x0) / 2, float(y1 - y0) / 2, STEP)
    pos = (float(x0 + x1) / 2, float(y0 + y1) / 2, STEP)
    return Shape("box", half, pos, visible=False)


def _is_convex(mesh: Any, solid: Shape) -> bool:
    """Return whether a connected mesh fills its hull: no face lies well inside it."""
    if solid.kind == "box":
        return True
    import trimesh

    around: Any = trimesh.Trimesh(solid.vertices, solid.faces, process=False)
    normals, origins = around.face_normals, around.triangles[:, 0]
    depth = (np.asarray(mesh.triangles_center)[:, None, :] - origins) * normals
    inside = -depth.sum(axis=2).max(axis=1)
    return bool(inside.max() < _CONVEX * float(np.linalg.norm(around.extents)))


def _boxes(mesh: Any) -> list[Shape]:
    """Cover a surface with boxes, neighbours joined."""
    grid = mesh.voxelized(VOXEL)
    filled = np.asarray(grid.matrix, dtype=bool)
    origin = np.asarray(grid.transform)[:3, 3] - VOXEL / 2
    top = int(np.ceil((CEILING - origin[2]) / VOXEL))
    layers = filled[:, :, : max(top, 0)]
    out, k = [], 0
    while k < layers.shape[2]:
        same = k + 1
        while same < layers.shape[2] and np.array_equal(layers[:, :, same], layers[:, :, k]):
            same += 1
        for i0, j0, i1, j1 in rectangles(layers[:, :, k]):
            low = origin + VOXEL * np.array([i0, j0, k])
            high = origin + VOXEL * np.array([i1, j1, same])
            half, center = (high - low) / 2, (high + low) / 2
            out.append(
                Shape("box", tuple(half.tolist()), tuple(center.tolist()), visible=False)  # type: ignore[arg-type]
            )
        k = same
    return out


def _described(config: Config, raw: dict[str, Any], parts: Sequence[Shape]) -> tuple[Shape, ...]:
    try:
        return fmt.solids_from_json(raw, convex_solids(parts, join=False))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return config.fail(f"user_defined.{fmt.SOLIDS}", f"does not fit the mesh ({error})")


def _check_extent(config: Config, parts: Sequence[Shape]) -> None:
    """Refuse a stage whose raster would not fit into memory, or that is flat as a wall."""
    points = np.concatenate([np.asarray(p.vertices) for p in parts])
    size = points.max(axis=0) - points.min(axis=0)
    if not (size <= WIDEST).all() or not (size[:2] > 0.0).all():
        wide = " x ".join(f"{n:.4g}" for n in size)
        config.fail("render_asset", f"is {wide} m large, not between 0 and {WIDEST:g} m")


def _bounds(user: Config) -> np.ndarray:
    raw = user.inside("tpsrl_bounds")
    ends = np.stack([vector(raw, raw.raw.get(k), 3, k) for k in _ENDS])[:, :2]
    size = ends[1] - ends[0]
    if (size <= 0.0).any() or (size > WIDEST).any():
        user.fail("tpsrl_bounds", f"is no box of up to {WIDEST:g} m")
    return ends


_ENDS = ("lower", "upper")


def _blocks(shape: Shape) -> bool:
    """Return whether the robot has to keep off: it is no floor and not out of reach."""
    heights = shape_points(shape)[:, 2]
    return bool(heights.max() > STEP and heights.min() < CEILING)
