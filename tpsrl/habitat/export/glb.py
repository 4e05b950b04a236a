"""Shapes as glTF files: one mesh a colour for pictures, one mesh a solid for contacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.files import write_atomically
from tpsrl.geometry.frames import points_to_habitat
from tpsrl.geometry.rotations import quat_to_matrix
from tpsrl.scenes.description import Shape

_RING = 32
"""Corners of a round solid."""


def write_visual(path: Path, shapes: Sequence[Shape], y_up: bool) -> None:
    """Write the visible shapes, a mesh for each colour.

    Args:
        path: ``.glb`` file.
        shapes: of one rigid part.
        y_up: turn to Habitat's frame (objects and stages); links of a URDF stay z up.
    """
    visible = [s for s in shapes if s.visible]
    colours = dict.fromkeys(s.rgba for s in visible)
    same = [[s for s in visible if s.rgba == rgba] for rgba in colours]
    _write(path, [_coloured(_join(group, y_up), group[0].rgba) for group in same])


def write_solids(path: Path, shapes: Sequence[Shape], y_up: bool) -> None:
    """Write each colliding shape as a convex mesh of its own, in order."""
    solid = [s for s in shapes if s.collide]
    _write(path, [_coloured(_join([s], y_up), s.rgba) for s in solid])


def shape_mesh(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return (v, 3) vertices and (f, 3) faces of a shape in the frame of its link."""
    import trimesh

    if shape.kind == "mesh":
        assert shape.vertices is not None and shape.faces is not None
        vertices, faces = np.asarray(shape.vertices), np.asarray(shape.faces)
    else:
        make = trimesh.creation
        if shape.kind == "box":
            mesh = make.box(extents=2.0 * np.asarray(shape.size))
        elif shape.kind == "cylinder":
            mesh = make.cylinder(shape.size[0], 2.0 * shape.size[1], sections=_RING)
        else:
            mesh = make.uv_sphere(shape.size[0], count=(_RING // 2, _RING))
        vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    return vertices @ quat_to_matrix(shape.quat).T + np.asarray(shape.pos), faces


def _join(shapes: Sequence[Shape], y_up: bool) -> tuple[np.ndarray, np.ndarray]:
    parts = [shape_mesh(s) for s in shapes]
    starts = np.cumsum([0, *(len(v) for v, _ in parts)])
    vertices = np.concatenate([v for v, _ in parts])
    faces = np.concatenate([f + start for (_, f), start in zip(parts, starts, strict=False)])
    return (points_to_habitat(vertices) if y_up else vertices), faces


def _coloured(mesh: tuple[np.ndarray, np.ndarray], rgba: Sequence[float]) -> Any:
    import trimesh

    # Flat shading: corners of a box must not share normals.
    vertices = mesh[0][mesh[1]].reshape(-1, 3)
    faces = np.arange(len(vertices)).reshape(-1, 3)
    material = trimesh.visual.material.PBRMaterial(
        baseColorFactor=[round(255 * c) for c in rgba], metallicFactor=0.0, roughnessFactor=0.9
    )
    visual = trimesh.visual.TextureVisuals(material=material)
    return trimesh.Trimesh(vertices, faces, visual=visual, process=False)


def _write(path: Path, meshes: Sequence[Any]) -> None:
    import trimesh

    scene = trimesh.Scene()
    for index, mesh in enumerate(meshes):
        name = f"part{index:03d}"
        scene.add_geometry(mesh, geom_name=name, node_name=name)
    write_atomically(path, scene.export(file_type="glb", include_normals=True))
