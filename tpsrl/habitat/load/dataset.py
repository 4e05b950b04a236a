"""A Habitat scene dataset as an apartment with layouts, and its movable objects."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tpsrl.episodes.handles import furniture_name
from tpsrl.episodes.types import RigidObject
from tpsrl.errors import UserError, nearest
from tpsrl.geometry.frames import points_from_habitat
from tpsrl.geometry.rotations import frame, matrix_to_quat, quat_to_matrix
from tpsrl.habitat import format as fmt
from tpsrl.habitat.load.articulated import ArticulatedAsset, load_articulated
from tpsrl.habitat.load.files import Catalog, Config, read_config
from tpsrl.habitat.load.objects import RigidAsset, load_object, object_type
from tpsrl.habitat.load.stage import STEP, Stage, load_stage
from tpsrl.scenes.description import (
    Apartment,
    Furniture,
    Layout,
    Link,
    ObjectType,
    Receptacle,
    Shape,
)
from tpsrl.scenes.geometry import shape_points

PARKED = 90.0
"""Furniture that a layout does not have stands out here, m."""
_MACRO = re.compile(r"sc(\d+)_staging")
_SPLITS: dict[int, Literal["train", "val", "test"]] = {3: "val", 4: "test"}
"""Macro layouts of the benchmark; all others are for training."""
_SAME_POSE = 2e-3
"""Heights and tilts of one piece that differ by less between layouts count as equal."""


@dataclass(frozen=True)
class Dataset:
    """What a scene dataset holds, in tpsrl's terms.

    Attributes:
        apartment: walls, furniture, the layouts that were asked for.
        types: movable objects by template name.
        source: the dataset's configuration.
        floor: height of the files' floor, which is 0 here, m.
        order: articulated furniture -> its links in the order of Habitat's link ids.
        hosts: articulated furniture -> URDF link -> (link it belongs to, (4, 4) pose there).
        receptacles: Habitat's unique name -> ours.
        loose: layout -> movable objects that the scene itself brings along.
    """

    apartment: Apartment
    types: Mapping[str, ObjectType]
    source: Path
    floor: float
    order: Mapping[str, tuple[str, ...]]
    hosts: Mapping[str, Mapping[str, tuple[str, np.ndarray]]]
    receptacles: Mapping[str, str]
    loose: Mapping[str, tuple[RigidObject, ...]]


@dataclass
class _Found:
    """What is collected while scenes are read."""

    pieces: dict[str, Furniture] = field(default_factory=dict)
    stands: dict[str, tuple[float, np.ndarray, object]] = field(default_factory=dict)
    poses: dict[str, dict[str, tuple[float, float, float]]] = field(default_factory=dict)
    articulated: dict[str, ArticulatedAsset] = field(default_factory=dict)
    loose: dict[str, list[RigidObject]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    assets: dict[tuple[Path, tuple[float, ...]], RigidAsset] = field(default_factory=dict)
    trees: dict[tuple[Path, float], ArticulatedAsset] = field(default_factory=dict)
    stage: tuple[str, str, Stage] | None = None

    def articulated_asset(self, path: Path, scale: float) -> ArticulatedAsset:
        """Return an articulated asset, read once."""
        if (path, scale) not in self.trees:
            self.trees[path, scale] = load_articulated(path, scale)
        return self.trees[path, scale]

    def asset(self, path: Path, scale: np.ndarray) -> RigidAsset:
        """Return a rigid asset, read once."""
        key = (path, tuple(float(s) for s in scale))
        if key not in self.assets:
            self.assets[key] = load_object(path, scale)
        return self.assets[key]


def load_dataset(
    path: Path, layouts: Collection[str] | None = None, objects: Collection[str] | None = None
) -> Dataset:
    """Read a scene dataset.

    Args:
        path: its ``.scene_dataset_config.json``, the folder of that, or a Habitat data folder.
        layouts: scene instances to read, ``None`` for all.
        objects: movable objects to read, ``None`` for all that are listed and not fixed.

    Raises:
        UserError: one sentence about the first file that is missing, malformed or not readable.
    """
    catalog = Catalog(Path(path))
    wanted = sorted(catalog.scenes if layouts is None else layouts)
    if not wanted:
        raise UserError(f"{catalog.config.path}: lists no scene instances")
    found, splits = _Found(), {}
    for name in wanted:
        if name not in catalog.scenes:
            hint = nearest(name, catalog.scenes)
            raise UserError(f"{catalog.config.path}: lists no scene instance '{name}'{hint}")
        scene = read_config(catalog.scenes[name])
        splits[name] = _read_scene(catalog, scene, name, found)
    assert found.stage is not None
    stage = found.stage[2]
    furniture, receptacles = _unique_receptacles(
        [*_stage_piece(stage, found), *found.pieces.values()]
    )
    poses = {name: _with_parked(found, name) for name in wanted}
    apartment = Apartment(
        name=found.stage[0],
        bounds=stage.bounds,
        walls=stage.shapes,
        furniture=tuple(furniture),
        layouts={name: Layout(name, splits[name], poses[name]) for name in wanted},
    )
    types = _types(catalog, found, objects)
    return Dataset(
        apartment, types, catalog.config.path, stage.floor,
        {name: asset.order for name, asset in found.articulated.items()},
        {name: asset.hosts for name, asset in found.articulated.items()},
        receptacles, {name: tuple(items) for name, items in found.loose.items()},
    )  # fmt: skip


def split_of(layout: str) -> Literal["train", "val", "test"]:
    """Return the split that the benchmark puts a layout in, ``"train"`` for any other name."""
    match = _MACRO.search(layout)
    return _SPLITS.get(int(match.group(1)), "train") if match else "train"


def _read_scene(
    catalog: Catalog, scene: Config, name: str, found: _Found
) -> Literal["train", "val", "test"]:
    stage = scene.inside("stage_instance")
    template = stage.text("template_name")
    matrix = _placed(stage)
    key = f"{template} {matrix.tobytes()!r}"
    if found.stage is None:
        path = catalog.find("stage", template, scene.path)
        found.stage = (path.name.removesuffix(fmt.SUFFIX["stage"]), key, load_stage(path, matrix))
    elif found.stage[1] != key:
        scene.fail("stage_instance", f"differs from that of {found.stage[0]}; layouts of one"
                   " apartment share one stage, so load them one by one")  # fmt: skip
    found.poses[name], found.loose[name] = {}, []
    counts: dict[str, int] = {}
    for item in scene.items("object_instances"):
        _read_rigid(catalog, item, name, found, counts)
    for item in scene.items("articulated_object_instances"):
        _read_articulated(catalog, item, name, found, counts)
    split = scene.inside("user_defined").inside("tpsrl").text("split", split_of(name))
    if split not in ("train", "val", "test"):
        scene.fail("user_defined.tpsrl.split", "is not train, val or test")
    return split  # type: ignore[return-value]


def _handle(counts: dict[str, int], template: str) -> str:
    """Return the handle that Habitat gives the next instance of a template."""
    counts[template] = counts.get(template, -1) + 1
    return f"{template}_:{counts[template]:04d}"


def _read_rigid(
    catalog: Catalog, item: Config, layout: str, found: _Found, counts: dict[str, int]
) -> None:
    path = catalog.find("object", item.text("template_name"), item.path)
    template = path.name.removesuffix(fmt.SUFFIX["object"])
    handle = _handle(counts, template)
    scale = _scale(item)
    pose = _placed(item, scaled=False)
    motion = item.text("motion_type", "DYNAMIC").upper()
    if motion == "DYNAMIC":
        if not np.allclose(scale, 1.0):
            item.fail("uniform_scale", f"scales the movable '{template}', which tpsrl cannot read")
        pose = _from_asset(item, pose, found.asset(path, scale))
        found.kinds.add(template)
        floor = 0.0 if found.stage is None else found.stage[2].floor
        found.loose[layout].append(
            RigidObject(template, handle, pose[:3, 3] - [0.0, 0.0, floor],
                        np.array(matrix_to_quat(pose[:3, :3])))
        )  # fmt: skip
        return
    if motion not in ("STATIC", "KINEMATIC"):
        item.fail("motion_type", "is not STATIC, KINEMATIC or DYNAMIC")
    asset = found.asset(path, scale)
    _stand(found, layout, handle, _from_asset(item, pose, asset), tuple(scale), asset)


def _from_asset(item: Config, pose: np.ndarray, asset: RigidAsset) -> np.ndarray:
    """Return the pose of the centre of mass; scene files may give that of the asset's origin."""
    kind = item.text("translation_origin", "COM").lower()
    if kind not in ("com", "asset_local", "unknown"):
        item.fail("translation_origin", "is not COM or asset_local")
    out = pose.copy()
    if kind == "asset_local":
        out[:3, 3] += pose[:3, :3] @ asset.com
    return out


def _read_articulated(
    catalog: Catalog, item: Config, layout: str, found: _Found, counts: dict[str, int]
) -> None:
    if item.raw.get("non_uniform_scale") is not None:
        item.fail("non_uniform_scale", "of articulated furniture cannot be read")
    if not item.flag("fixed_base", True):
        item.fail("fixed_base", "is false; articulated furniture has to stand fixed")
    path = catalog.find("articulated", item.text("template_name"), item.path)
    template = path.name.removesuffix(".urdf").removesuffix(fmt.SUFFIX["articulated"])
    handle, scale = _handle(counts, template), item.positive("uniform_scale", 1.0)
    name = furniture_name(handle)
    if name not in found.articulated:
        found.articulated[name] = found.articulated_asset(path, scale)
    _stand(found, layout, handle, _placed(item, scaled=False), scale, found.articulated[name])


def _stand(
    found: _Found, layout: str, handle: str, pose: np.ndarray, scale: object,
    asset: RigidAsset | ArticulatedAsset,
) -> None:  # fmt: skip
    """Add a piece at a pose; one that stands otherwise than before is another piece."""
    yaw = float(np.arctan2(pose[1, 0] - pose[0, 1], pose[0, 0] + pose[1, 1]))
    turn = quat_to_matrix((np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)))
    tilt = turn.T @ pose[:3, :3]
    name, tries = furniture_name(handle), 1
    height = float(pose[2, 3]) - (found.stage[2].floor if found.stage else 0.0)
    while name in found.stands and not _alike(found.stands[name], (height, tilt, scale)):
        if isinstance(asset, ArticulatedAsset):
            raise UserError(
                f"layout '{layout}': articulated furniture '{handle}' stands at another height,"
                " tilt or scale than in other layouts, which episodes could not tell apart"
            )
        tries += 1
        name = f"{furniture_name(handle)}~{tries}"
    if name not in found.stands:
        found.stands[name] = (height, tilt, scale)
        raised = frame((0, 0, height), matrix_to_quat(tilt))
        if isinstance(asset, ArticulatedAsset):
            found.pieces[name] = _articulated_piece(name, asset, raised)
        else:
            found.pieces[name] = _rigid_piece(name, asset, raised)
        found.names[name] = handle
    found.poses[layout][name] = (float(pose[0, 3]), float(pose[1, 3]), yaw)


def _alike(a: tuple[float, np.ndarray, object], b: tuple[float, np.ndarray, object]) -> bool:
    same = abs(a[0] - b[0]) < _SAME_POSE and np.abs(a[1] - b[1]).max() < _SAME_POSE
    return bool(same) and np.allclose(np.asarray(a[2], float), np.asarray(b[2], float))


def _rigid_piece(name: str, asset: RigidAsset, stand: np.ndarray) -> Furniture:
    user = asset.user.inside(fmt.PIECE)
    root = user.text("root", asset.name)
    shapes = _low_is_driven_over(tuple(_moved(s, stand) for s in asset.shapes))
    places = tuple(_moved_receptacle(r, root, stand) for r in asset.receptacles)
    link = Link(root, shapes, mass=asset.mass)
    return Furniture(name, user.text("category", asset.name), (link,), places)


def _articulated_piece(name: str, asset: ArticulatedAsset, stand: np.ndarray) -> Furniture:
    root = asset.links[0].name
    links = [replace(asset.links[0], shapes=tuple(_moved(s, stand) for s in asset.links[0].shapes))]
    for link in asset.links[1:]:
        at = stand @ frame(link.pos, link.quat)
        pos = tuple(at[:3, 3].tolist())
        links.append(replace(link, pos=pos, quat=matrix_to_quat(at[:3, :3])))  # type: ignore[arg-type]
    places = tuple(
        _moved_receptacle(r, root, stand) if r.link == root else r for r in asset.receptacles
    )
    return Furniture(
        name, asset.category or asset.name, tuple(links), places, asset.markers, asset.containers
    )


def _moved(shape: Shape, by: np.ndarray) -> Shape:
    if np.allclose(by, np.eye(4), atol=1e-12):
        return shape
    at = by @ frame(shape.pos, shape.quat)
    pos = tuple(at[:3, 3].tolist())
    return replace(shape, pos=pos, quat=matrix_to_quat(at[:3, :3]))  # type: ignore[arg-type]


def _moved_receptacle(item: Receptacle, root: str, by: np.ndarray) -> Receptacle:
    center = by[:3, :3] @ np.asarray(item.center) + by[:3, 3]
    half = np.abs(by[:3, :3]) @ np.asarray(item.half_size)
    x, y, z = (float(v) for v in center)
    a, b, c = (float(v) for v in half)
    return replace(item, link=root, center=(x, y, z), half_size=(a, b, c))


def _low_is_driven_over(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Carpets are no obstacles."""
    solid = [s for s in shapes if s.collide]
    if not solid or max(shape_points(s)[:, 2].max() for s in solid) > STEP:
        return shapes
    return tuple(s for s in shapes if not s.collide)


def _scale(item: Config) -> np.ndarray:
    uniform = item.number("uniform_scale", 1.0)
    scale: np.ndarray = uniform * item.vector("non_uniform_scale", (1.0, 1.0, 1.0))
    if np.any(scale <= 0):
        item.fail("uniform_scale", "must be positive")
    return scale


def _placed(item: Config, scaled: bool = True) -> np.ndarray:
    """Return the (4, 4) z-up transform of an instance."""
    quat = item.vector("rotation", (1.0, 0.0, 0.0, 0.0))
    if abs(np.linalg.norm(quat) - 1.0) > 1e-2:
        item.fail("rotation", "is not a unit quaternion")
    out = np.eye(4)
    # z-up basis of a y-up rotation: turn back, rotate, turn.
    rotation = quat_to_matrix(quat)
    out[:3, :3] = points_from_habitat(points_from_habitat(rotation).T).T
    out[:3, 3] = points_from_habitat(item.vector("translation", (0.0, 0.0, 0.0)))
    if scaled:
        size = np.abs(points_from_habitat(_scale(item)))
        out[:3, :3] = out[:3, :3] @ np.diag(size)
    return out


def _with_parked(found: _Found, layout: str) -> dict[str, tuple[float, float, float]]:
    """Return the poses of all pieces; those that the layout lacks stand far away."""
    out = dict(found.poses[layout])
    missing = [name for name in found.pieces if name not in out]
    for index, name in enumerate(missing):
        out[name] = (PARKED + 10.0 * index, PARKED, 0.0)
    if found.stage is not None and found.stage[2].receptacles:
        out["stage"] = (0.0, 0.0, 0.0)
    return {**{k: out[k] for k in found.pieces}, **{k: v for k, v in out.items()}}


def _stage_piece(stage: Stage, found: _Found) -> list[Furniture]:
    if not stage.receptacles:
        return []
    found.names["stage"] = ""
    places = tuple(replace(r, link="stage") for r in stage.receptacles)
    return [Furniture("stage", "stage", (Link("stage", ()),), places)]


def _unique_receptacles(
    pieces: list[Furniture],
) -> tuple[list[Furniture], dict[str, str]]:
    """Return the pieces with receptacle names that are unique, and Habitat's names for them."""
    count: dict[str, int] = {}
    for piece in pieces:
        for item in piece.receptacles:
            count[item.name] = count.get(item.name, 0) + 1
    out, names = [], {}
    for piece in pieces:
        handle = piece.name if "_:" in piece.name else f"{piece.name}_:0000"
        renamed = []
        for item in piece.receptacles:
            name = item.name if count[item.name] == 1 else f"{piece.name}|{item.name}"
            names[f"{handle}|{item.name}" if piece.name != "stage" else item.name] = name
            renamed.append(replace(item, name=name))
        out.append(replace(piece, receptacles=tuple(renamed)))
    return out, names


def _types(
    catalog: Catalog, found: _Found, objects: Collection[str] | None
) -> dict[str, ObjectType]:
    fixed = {furniture_name(h).split("_:")[0] for h in found.names.values()}
    names = [n for n in catalog.objects if n not in fixed] if objects is None else objects
    out = {}
    for name in sorted({*names, *found.kinds}):
        if name not in catalog.objects:
            hint = nearest(name, catalog.objects)
            raise UserError(
                f"{catalog.config.path}: lists no object '{name}'{hint}; its configs belong in"
                f" {catalog.root.parent / 'objects/ycb/configs'}"
            )
        out[name] = object_type(load_object(catalog.objects[name]))
    return out
