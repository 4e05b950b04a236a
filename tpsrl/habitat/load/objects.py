"""Rigid object configurations: YCB objects and ReplicaCAD's fixed furniture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tpsrl.errors import UserError
from tpsrl.geometry.frames import points_from_habitat
from tpsrl.habitat import format as fmt
from tpsrl.habitat.load.files import Config, read_config, vector
from tpsrl.habitat.load.meshes import convex_solids, hull, mesh_parts, transformed, vec3
from tpsrl.scenes.description import ObjectType, Receptacle, Shape
from tpsrl.scenes.geometry import shape_points

HEADROOM = 0.35
"""Height of the box above a receptacle that is given as a surface, m."""
_UNSUPPORTED_SIZE = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class RigidAsset:
    """A rigid object in its own z-up frame, whose origin is the centre of mass.

    Attributes:
        name: of the template.
        shapes: visible meshes that do not collide, then invisible solids that do.
        mass: kg.
        com: (3,) the centre of mass in the frame of the asset's files, z up, m.
        receptacles: with the link's name left empty.
        user: what the config has under ``user_defined``.
    """

    name: str
    shapes: tuple[Shape, ...]
    mass: float
    com: np.ndarray
    receptacles: tuple[Receptacle, ...]
    user: Config


def load_object(path: Path, scale: np.ndarray | None = None) -> RigidAsset:
    """Read an object configuration.

    Args:
        path: ``.object_config.json``.
        scale: (3,) of the instance along Habitat's axes, on top of the config's own.

    Raises:
        UserError: a file is missing or malformed, or uses what tpsrl cannot read.
    """
    config = read_config(path)
    if not np.array_equal(config.vector("collision_asset_size", _UNSUPPORTED_SIZE), np.ones(3)):
        config.fail("collision_asset_size", "scales the collision mesh, which tpsrl cannot read")
    instance = np.ones(3) if scale is None else np.asarray(scale, dtype=float)
    size = config.vector("scale", (1.0, 1.0, 1.0)) * config.positive("units_to_meters", 1.0)
    if not size.all():
        config.fail("scale", "must not be 0")
    to_link = asset_frame(config) @ np.diag([*(size * instance), 1.0])
    render = config.asset("render_asset")
    visual = [transformed(p, to_link) for p in mesh_parts(render)]
    if "COM" in config.raw:
        com = points_from_habitat(config.vector("COM", (0.0, 0.0, 0.0)) * size * instance)
    else:
        com = _box_center(visual)
    shift = np.eye(4)
    shift[:3, 3] = -com
    solids = _solids(config, render, shift @ to_link, instance)
    user = config.inside("user_defined")
    return RigidAsset(
        name=path.name.removesuffix(fmt.SUFFIX["object"]),
        shapes=(*(transformed(p, shift) for p in visual), *solids),
        mass=config.positive("mass", 1.0),
        com=com,
        receptacles=receptacles(user, y_up=True),
        user=user,
    )


def object_type(asset: RigidAsset) -> ObjectType:
    """Return a movable object; it is seen as its render mesh and touched as its solids."""
    piece = asset.user.inside(fmt.PIECE)
    if "half_size" in piece.raw:
        half = vector(piece, piece.raw["half_size"], 3, "half_size")
        if (half <= 0.0).any():
            piece.fail("half_size", "must be positive")
    else:
        half = np.abs(np.concatenate([shape_points(s) for s in asset.shapes])).max(axis=0)
    if not any(s.collide for s in asset.shapes):
        raise UserError(f"object '{asset.name}' has no collision geometry and cannot be moved")
    x, y, z = (float(v) for v in half)
    # A surface that is seen and a solid of the same object must not be told apart by their order.
    shapes = sorted(asset.shapes, key=lambda s: not s.visible)
    return ObjectType(asset.name, tuple(shapes), asset.mass, (x, y, z))


def asset_frame(config: Config) -> np.ndarray:
    """Return the (4, 4) rotation from the frame of the config's assets to z up.

    ``up`` and ``front`` say how the files are turned; Habitat's own world is y up, front -z.

    Raises:
        UserError: they are not perpendicular.
    """
    up = config.vector("up", (0.0, 1.0, 0.0))
    front = config.vector("front", (0.0, 0.0, -1.0))
    lengths = np.linalg.norm(up), np.linalg.norm(front)
    if min(lengths) == 0 or abs(up @ front) > 1e-3 * lengths[0] * lengths[1]:
        config.fail("up", "and 'front' must be perpendicular directions")
    up, front = up / lengths[0], front / lengths[1]
    out = np.eye(4)
    # Rows: where the asset's right, up and back lie; then from y up to z up.
    out[:3, :3] = points_from_habitat(np.stack([np.cross(front, up), up, -front]).T).T
    return out


def receptacles(user: Config, y_up: bool) -> tuple[Receptacle, ...]:
    """Return boxes and surfaces on which objects can lie.

    Args:
        user: ``user_defined`` of a configuration.
        y_up: positions are Habitat's (rigid objects, stages); links of a URDF are z up.

    Raises:
        UserError: an entry is malformed.
    """
    found: list[Receptacle] = []
    for key in user.raw:
        if not key.startswith("receptacle_"):
            continue
        entry = user.inside(key)
        for field in ("position", "scale"):
            if field not in entry.raw:
                entry.fail(field, "is missing")
        name, link = entry.text("name", key), entry.text("parent_link", "")
        if "receptacle_mesh_" in key:
            found += _surfaces(entry, name, link, y_up)
        elif "receptacle_aabb_" in key:
            found.append(_box(entry, name, link, y_up))
        else:
            user.fail(key, "is neither a receptacle_aabb_ nor a receptacle_mesh_")
    return tuple(found)


def _box(entry: Config, name: str, link: str, y_up: bool) -> Receptacle:
    center, half = entry.vector("position", (0.0,) * 3), entry.vector("scale", (1.0,) * 3)
    if y_up:
        center, half = points_from_habitat(center), np.abs(points_from_habitat(half))
    if not half.all():
        entry.fail("scale", "must not be 0")
    capacity = entry.raw.get("tpsrl_capacity")
    if capacity is not None and (type(capacity) is not int or capacity < 0):
        entry.fail("tpsrl_capacity", "is no whole number")
    return Receptacle(name, link, vec3(center), vec3(np.abs(half)), capacity)


def _surfaces(entry: Config, name: str, link: str, y_up: bool) -> list[Receptacle]:
    """A mesh receptacle: each of its parts becomes the box that stands on it."""
    out = []
    for index, part in enumerate(mesh_parts(entry.asset("mesh_filepath"))):
        points = np.asarray(part.vertices)
        points = points_from_habitat(points) if y_up else points
        low, high = points.min(axis=0), points.max(axis=0)
        half = np.maximum((high - low) / 2, 1e-3)
        center = (low + high) / 2
        half[2] = HEADROOM / 2
        center[2] = high[2] + half[2]
        out.append(Receptacle(f"{name}.{index:04d}", link, vec3(center), vec3(half)))
    return out


def _solids(
    config: Config, render: Path, to_link: np.ndarray, scale: np.ndarray
) -> tuple[Shape, ...]:
    if not config.flag("is_collidable", True):
        return ()
    files = mesh_parts(config.asset("collision_asset", render))
    parts = [transformed(p, to_link) for p in files]
    if config.flag("use_bounding_box_for_collision", False):
        return (hull(_box_corners(parts)),)
    described = config.section("user_defined").get(fmt.SOLIDS)
    plain = convex_solids(parts, config.flag("join_collision_meshes", False))
    if described is None or not np.allclose(scale, 1.0):
        return plain
    try:
        return fmt.solids_from_json(described, plain)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return config.fail(f"user_defined.{fmt.SOLIDS}", f"does not fit the mesh ({error})")


def _box_center(parts: list[Shape]) -> np.ndarray:
    points = np.concatenate([np.asarray(p.vertices) for p in parts])
    return (points.min(axis=0) + points.max(axis=0)) / 2


def _box_corners(parts: list[Shape]) -> np.ndarray:
    points = np.concatenate([np.asarray(p.vertices) for p in parts])
    ends = np.stack([points.min(axis=0), points.max(axis=0)])
    return np.array([[ends[i, 0], ends[j, 1], ends[k, 2]] for i in (0, 1) for j in (0, 1)
                     for k in (0, 1)])  # fmt: skip
