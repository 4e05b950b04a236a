"""Mesh files as shapes, converted once: the cache is addressed by content and checked."""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.habitat.sound import LARGEST
from tpsrl.scenes.cache import cache_dir
from tpsrl.scenes.description import Shape, Vec3
from ver_trainer.reading import read_bytes

FORMAT = 1
"""Raise when the conversion changes: older cache files are then unused."""
MOST_PARTS = 5000
_GREY = (0.7, 0.7, 0.7, 1.0)
_THIN = 1e-3
"""A solid thinner than this gets this thickness, m: a flat one has no hull."""

_log = logging.getLogger(__name__)


def mesh_parts(path: Path) -> tuple[Shape, ...]:
    """Return the triangles of a mesh file, a shape for each part, in the file's frame.

    Colours are those of materials; textures give their mean colour.

    Args:
        path: GLB, OBJ, STL, PLY or DAE.

    Raises:
        UserError: the file is missing or damaged, or holds no triangles.
    """
    data = _read(path)
    key = hashlib.sha256(f"mesh {FORMAT} {path.suffix}".encode() + data).hexdigest()
    return _cached(key, lambda: _convert(path, data))


def convex_solids(parts: Sequence[Shape], join: bool) -> tuple[Shape, ...]:
    """Return each part as a solid (the convex hull of a mesh collides), or all as one."""
    clouds = [np.asarray(p.vertices) for p in parts]
    if join and clouds:
        clouds = [np.concatenate(clouds)]
    return tuple(hull(cloud) for cloud in clouds)


def hull(points: np.ndarray) -> Shape:
    """Return the invisible convex solid around (k, 3) points."""
    import trimesh

    low, high = points.min(axis=0), points.max(axis=0)
    if np.min(high - low) >= _THIN:
        try:
            mesh: Any = trimesh.Trimesh(points, process=False).convex_hull
            vertices = np.asarray(mesh.vertices, dtype=np.float64)
            faces = np.asarray(mesh.faces, dtype=np.int32)
            return Shape("mesh", visible=False, vertices=vertices, faces=faces)
        except Exception as error:  # qhull says no in many words and exception types
            _log.warning("a solid has no convex hull (%s): its box is taken", error)
    half = np.maximum((high - low) / 2, _THIN / 2)
    return Shape("box", vec3(half), vec3((low + high) / 2), visible=False)


def transformed(shape: Shape, matrix: np.ndarray) -> Shape:
    """Return a mesh shape whose vertices went through a (4, 4) transform (scale allowed)."""
    assert shape.vertices is not None and shape.faces is not None
    vertices = np.asarray(shape.vertices) @ matrix[:3, :3].T + matrix[:3, 3]
    faces = np.asarray(shape.faces)
    if np.linalg.det(matrix[:3, :3]) < 0:
        faces = faces[:, ::-1]
    return Shape(
        "mesh", rgba=shape.rgba, collide=shape.collide, visible=shape.visible,
        vertices=vertices, faces=faces,
    )  # fmt: skip


def vec3(values: np.ndarray) -> Vec3:
    """Return (3,) numbers as a tuple."""
    x, y, z = (float(v) for v in values)
    return (x, y, z)


def _read(path: Path) -> bytes:
    return read_bytes(path, hint="download the dataset again")


def _resolver(path: Path) -> Any:
    """Return what finds the textures and materials that a mesh names."""
    from trimesh.resolvers import FilePathResolver

    class Beside(FilePathResolver):
        def get(self, name: str) -> bytes:
            beside = Path(name.strip()).name
            found = [p for p in map(self.absolute, (name, beside)) if p.exists()]
            return read_bytes(found[0] if found else self.absolute(name))

    return Beside(str(path))


def _convert(path: Path, data: bytes) -> tuple[Shape, ...]:
    import trimesh

    try:
        kind = path.suffix.removeprefix(".").lower()
        loaded: Any = trimesh.load(io.BytesIO(data), file_type=kind, resolver=_resolver(path))
        scene = loaded if isinstance(loaded, trimesh.Scene) else trimesh.Scene(loaded)
        nodes = sorted(scene.graph.nodes_geometry)
        if len(nodes) > MOST_PARTS:
            raise ValueError(f"it has {len(nodes)} parts, more than the {MOST_PARTS} allowed")
        parts = [_part(scene, node) for node in nodes]
    except Exception as error:  # readers raise whatever the damage makes them raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path}: is damaged or no mesh that can be read ({reason}); download it again"
        ) from None
    parts = [p for p in parts if p.faces is not None and len(p.faces)]
    if not parts:
        raise UserError(f"{path}: holds no triangles")
    return tuple(parts)


def _part(scene: Any, node: str) -> Shape:
    matrix, name = scene.graph.get(node)
    mesh = scene.geometry[name]
    vertices = np.asarray(mesh.vertices, dtype=np.float64)
    vertices = vertices @ np.asarray(matrix)[:3, :3].T + np.asarray(matrix)[:3, 3]
    faces = np.asarray(mesh.faces, dtype=np.int32).reshape(-1, 3)
    if not (np.abs(vertices) <= LARGEST).all():
        raise ValueError(f"a vertex is NaN or farther away than {LARGEST:g} m")
    if len(faces) and not (faces.min() >= 0 and faces.max() < len(vertices)):
        raise ValueError("a triangle has a corner that is not there")
    return Shape("mesh", rgba=_colour(mesh), collide=False, vertices=vertices, faces=faces)


def _colour(mesh: Any) -> tuple[float, float, float, float]:
    try:
        material = getattr(mesh.visual, "material", None)
        texture = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
        if texture is not None:
            rgb = np.asarray(texture.convert("RGB").resize((1, 1)))[0, 0] / 255.0
        else:
            source = mesh.visual if material is None else material
            rgb = np.asarray(source.main_color)[:3] / 255.0
        red, green, blue = (round(float(c), 4) for c in rgb)
    except (AttributeError, ValueError, TypeError):
        return _GREY
    return (red, green, blue, 1.0)


def _cached(key: str, make: Any) -> tuple[Shape, ...]:
    """Return shapes from the cache; a file that fails its checksum is made anew."""
    path = cache_dir() / "meshes" / f"{key}.npz"
    try:
        data = path.read_bytes()
        digest, body = data[:64], data[64:]
        if hashlib.sha256(body).hexdigest().encode() == digest:
            return _decode(body)
        _log.warning("the cached mesh %s is damaged: it is converted anew", path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError) as error:
        _log.warning("the cached mesh %s is unreadable (%s): it is converted anew", path, error)
    shapes: tuple[Shape, ...] = make()
    body = _encode(shapes)
    try:
        write_atomically(path, hashlib.sha256(body).hexdigest().encode() + body)
    except UserError as error:
        _log.warning("%s; set XDG_CACHE_HOME", error)
    return shapes


def _encode(shapes: Sequence[Shape]) -> bytes:
    arrays: dict[str, Any] = {"count": np.array(len(shapes))}
    for index, shape in enumerate(shapes):
        arrays[f"v{index}"], arrays[f"f{index}"] = shape.vertices, shape.faces
        arrays[f"c{index}"] = np.array(shape.rgba)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _decode(body: bytes) -> tuple[Shape, ...]:
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        return tuple(
            Shape(
                "mesh", rgba=tuple(float(c) for c in arrays[f"c{k}"]), collide=False,  # type: ignore[arg-type]
                vertices=arrays[f"v{k}"], faces=arrays[f"f{k}"],
            )
            for k in range(int(arrays["count"]))
        )  # fmt: skip
