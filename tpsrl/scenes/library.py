"""Reads assets of the package scene-synthesizer as our own shapes.

The package is heavy to import; it is imported inside the functions only. Its furniture fronts
face -y; a quarter turn about z brings them to our +x (its x, from left to right as seen from the
front, becomes our y).
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tpsrl.geometry.rotations import matrix_to_quat
from tpsrl.scenes.description import Shape, Vec3

QUARTER_TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class Part:
    """One named geometry of an asset, in its link's frame, turned to our axes."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class AssetLink:
    """One link of an articulated asset: parts, and the joint's origin (3,) on the corpus."""

    name: str
    parts: tuple[Part, ...]
    origin: np.ndarray


def library_version() -> str:
    """Return the installed version of scene-synthesizer."""
    return importlib.metadata.version("scene-synthesizer")


def move(shape: Shape, by: Vec3) -> Shape:
    """Return a shape moved ``by`` metres."""
    if shape.kind == "mesh":
        return replace(shape, vertices=np.round(np.asarray(shape.vertices) + by, 6))
    x, y, z = (round(a + b, 6) for a, b in zip(shape.pos, by, strict=True))
    return replace(shape, pos=(x, y, z))


def _box(extents: Any, transform: np.ndarray) -> Shape:
    rotation = QUARTER_TURN @ transform[:3, :3]
    half = np.asarray(extents, dtype=np.float64) / 2
    pos = tuple(float(v) for v in np.round(QUARTER_TURN @ transform[:3, 3], 6))
    permutation = np.round(np.abs(rotation))
    if np.allclose(np.abs(rotation), permutation, atol=1e-6):
        size = permutation @ half
        return Shape("box", tuple(float(v) for v in np.round(size, 6)), pos)  # type: ignore[arg-type]
    size = tuple(float(v) for v in np.round(half, 6))
    return Shape("box", size, pos, matrix_to_quat(rotation))  # type: ignore[arg-type]


def _mesh(mesh: Any, transform: np.ndarray) -> Shape:
    mesh.merge_vertices(merge_tex=True, merge_norm=True)
    points = np.asarray(mesh.vertices) @ transform[:3, :3].T + transform[:3, 3]
    vertices = np.round(points @ QUARTER_TURN.T, 6)
    return Shape("mesh", vertices=vertices, faces=np.asarray(mesh.faces, dtype=np.int32))


def articulated_links(asset: Any) -> dict[str, AssetLink]:
    """Return the links of a URDF asset by their names in the library.

    Raises:
        ValueError: a geometry is neither a box nor a mesh.
    """
    import trimesh

    # The library has no public access to the URDF model short of writing it to disk.
    robot = asset._model.robot
    origins = {j.child: QUARTER_TURN @ np.asarray(j.origin)[:3, 3] for j in robot.joints}
    out = {}
    for link in robot.links:
        parts = []
        for visual in link.visuals:
            if visual.geometry.box is not None:
                shape = _box(visual.geometry.box.size, visual.origin)
            elif visual.geometry.mesh is not None:
                mesh = trimesh.load(visual.geometry.mesh.filename, force="mesh", process=False)
                shape = _mesh(mesh, visual.origin)
            else:
                raise ValueError(f"geometry {visual.name!r} of {link.name!r} is no box or mesh")
            parts.append(Part(visual.name, shape))
        out[link.name] = AssetLink(link.name, tuple(parts), origins.get(link.name, np.zeros(3)))
    return out


def scene_parts(asset: Any) -> tuple[Part, ...]:
    """Return the boxes of a rigid asset (table, shelf), standing on the floor at its centre.

    Raises:
        ValueError: a geometry is not a box.
    """
    scene = asset.scene()
    parts = []
    for node in sorted(scene.graph.nodes_geometry):
        transform, name = scene.graph.get(node)
        geometry = scene.geometry[name]
        if not hasattr(geometry.primitive, "extents"):
            raise ValueError(f"geometry {name!r} is no box")
        world = np.asarray(transform) @ np.asarray(geometry.primitive.transform)
        parts.append(Part(str(node), _box(geometry.primitive.extents, world)))
    floor = min(p.shape.pos[2] - p.shape.size[2] for p in parts)
    return tuple(Part(p.name, move(p.shape, (0.0, 0.0, -floor))) for p in parts)
