"""An apartment, its objects, episodes and robot as a Habitat scene dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl import __version__
from tpsrl.episodes import handles
from tpsrl.episodes.habitat_json import save_episodes
from tpsrl.episodes.types import Episode, EpisodeSet
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.geometry import frames
from tpsrl.habitat import format as fmt
from tpsrl.habitat.export.fetch import write_fetch
from tpsrl.habitat.export.glb import write_solids, write_visual
from tpsrl.habitat.export.urdf import write_furniture
from tpsrl.robot import fetch
from tpsrl.scenes.description import Apartment, Furniture, Layout, ObjectType, Shape

_Y_UP = {"up": [0.0, 1.0, 0.0], "front": [0.0, 0.0, -1.0]}
_MARGIN = 0.001
"""Habitat's own collision margin lets objects rest 4 cm above what carries them, m."""
_FRICTION = 0.8
_FLOOR = 0.199
"""Thickness of the stage's floor, m: Habitat's navigation mesh begins below it and grows in cells
of 0.2 m, so that it lies 1 mm above the floor."""
_FOLDERS = ("configs", "episodes", "furniture", "objects", "robots", "stages", "urdf")
_TURN = frames.points_to_habitat(np.eye(3)).T
"""Rotation from z up to y up."""


def export_dataset(
    out: Path,
    apartment: Apartment,
    types: Mapping[str, ObjectType],
    episodes: Mapping[str, EpisodeSet],
    robot: bool = True,
) -> list[Path]:
    """Write everything below ``out``; what is there already is replaced file by file.

    Args:
        out: folder.
        apartment: walls, furniture and layouts.
        types: movable objects.
        episodes: file name without suffix -> episodes of that file.
        robot: write Fetch's URDF, too.

    Returns:
        Paths of all files, the manifest last.

    Raises:
        UserError: the folder cannot be written, or a name cannot be used in Habitat.
    """
    out = out.resolve()
    _check_names([p.name for p in apartment.furniture])
    _write_stage(out, apartment)
    for piece in apartment.furniture:
        _write_piece(out, piece)
    for layout in apartment.benchmark.values():
        _write_scene(out, apartment, layout)
    for kind in types.values():
        _write_object(out, kind)
    unique = {
        r.name: f"{handles.furniture_handle(piece.name)}|{r.name}"
        for piece in apartment.furniture
        for r in piece.receptacles
    }
    for name, chosen in episodes.items():
        moved = tuple(_at_home(e, out, unique) for e in chosen)
        save_episodes(out / f"episodes/{name}.json.gz", replace(chosen, episodes=moved), decimals=9)
    if robot:
        write_fetch(out / "robots/hab_fetch/robots")
    _write_dataset(out)
    return _write_manifest(out, apartment)


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen or "/" in name or handles.furniture_name(name + "_:0000") != name:
            raise UserError(f"furniture '{name}': the name is taken or cannot be a Habitat handle")
        seen.add(name)


def _write_stage(out: Path, apartment: Apartment) -> None:
    low, high = np.asarray(apartment.bounds, dtype=float)
    center, half = (low + high) / 2, (high - low) / 2 + 0.5
    floor = Shape(
        "box", (half[0], half[1], _FLOOR / 2), (center[0], center[1], -_FLOOR / 2),
        rgba=(0.72, 0.62, 0.5, 1.0),
    )  # fmt: skip
    shapes = (floor, *apartment.walls)
    name = apartment.name
    write_visual(out / f"stages/{name}.glb", shapes, y_up=True)
    write_solids(out / f"stages/{name}_collision.glb", shapes, y_up=True)
    config = {
        "render_asset": f"../../stages/{name}.glb",
        "collision_asset": f"../../stages/{name}_collision.glb",
        **_Y_UP,
        "gravity": [0.0, -9.81, 0.0],
        "margin": _MARGIN,
        "friction_coefficient": _FRICTION,
        "user_defined": {
            fmt.SOLIDS: fmt.solids_to_json(shapes),
            "tpsrl_bounds": {"lower": [*map(float, low), 0.0], "upper": [*map(float, high), 0.0]},
        },
    }
    _write_json(out / f"configs/stages/{name}.stage_config.json", config)


def _write_piece(out: Path, piece: Furniture) -> None:
    if len(piece.links) > 1:
        _write_articulated(out, piece)
        return
    root = piece.links[0]
    write_visual(out / f"furniture/{piece.name}.glb", root.shapes, y_up=True)
    write_solids(out / f"furniture/{piece.name}_collision.glb", root.shapes, y_up=True)
    user = fmt.receptacles_to_json(piece.receptacles, _TURN)
    for entry in user.values():
        entry["parent_object"] = piece.name
    user[fmt.SOLIDS] = fmt.solids_to_json(root.shapes)
    user[fmt.PIECE] = {"category": piece.category, "root": root.name}
    config = {
        "render_asset": f"../../furniture/{piece.name}.glb",
        "collision_asset": f"../../furniture/{piece.name}_collision.glb",
        "mass": root.mass,
        **_rigid(),
        "user_defined": user,
    }
    _write_json(out / f"configs/objects/{piece.name}{fmt.SUFFIX['object']}", config)


def _write_articulated(out: Path, piece: Furniture) -> None:
    folder = out / "urdf" / piece.name
    write_furniture(folder, piece)
    user: dict[str, Any] = {}
    for link in piece.links:
        carried = [r for r in piece.receptacles if r.link == link.name]
        for key, entry in fmt.receptacles_to_json(carried, np.eye(3)).items():
            # Link frames of a URDF are z up, and Habitat has to be told which way is up.
            user[key] = {**entry, "parent_link": link.name, "up": [0.0, 0.0, 1.0]}
    user[fmt.MARKERS] = fmt.markers_to_json(piece.markers)
    user[fmt.CONTAINERS] = fmt.containers_to_json(piece.containers)
    user[fmt.DYNAMICS] = fmt.dynamics_to_json(piece)
    user[fmt.PIECE] = {"category": piece.category, "root": piece.links[0].name}
    config = {
        "urdf_filepath": f"{piece.name}.urdf",
        "base_type": "fixed",
        "inertia_source": "urdf",
        "link_order": "tree_traversal",
        "user_defined": user,
    }
    _write_json(folder / f"{piece.name}{fmt.SUFFIX['articulated']}", config)


def _write_object(out: Path, kind: ObjectType) -> None:
    folder = out / "objects/ycb"
    write_visual(folder / f"meshes/{kind.name}.glb", kind.shapes, y_up=True)
    write_solids(folder / f"collision_meshes/{kind.name}.glb", kind.shapes, y_up=True)
    half = {"half_size": list(kind.half_size)}
    config = {
        "render_asset": f"../meshes/{kind.name}.glb",
        "collision_asset": f"../collision_meshes/{kind.name}.glb",
        "mass": kind.mass,
        **_rigid(),
        "user_defined": {fmt.SOLIDS: fmt.solids_to_json(kind.shapes), fmt.PIECE: half},
    }
    _write_json(folder / f"configs/{kind.name}{fmt.SUFFIX['object']}", config)


def _rigid() -> dict[str, Any]:
    return {
        **_Y_UP,
        "COM": [0.0, 0.0, 0.0],
        "margin": _MARGIN,
        "friction_coefficient": _FRICTION,
        "rolling_friction_coefficient": 0.001,
        "spinning_friction_coefficient": 0.005,
        "use_bounding_box_for_collision": False,
        "join_collision_meshes": False,
    }


def _write_scene(out: Path, apartment: Apartment, layout: Layout) -> None:
    rigid, articulated = [], []
    for piece in apartment.furniture:
        x, y, yaw = layout.poses[piece.name]
        quat = np.array([[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]])
        matrix = frames.to_habitat(np.array([[x, y, 0.0]]), quat)[0]
        # About Habitat's y axis by the same angle.
        turn = [float(np.cos(yaw / 2)), 0.0, float(np.sin(yaw / 2)), 0.0]
        placed = {"translation": _plain(matrix[:3, 3]), "rotation": turn}
        if len(piece.links) > 1:
            entry = {"template_name": piece.name, "translation_origin": "COM", "fixed_base": True}
            articulated.append({**entry, **placed, "motion_type": "DYNAMIC"})
        else:
            entry = {"template_name": f"objects/{piece.name}", "translation_origin": "COM"}
            rigid.append({**entry, **placed, "motion_type": "STATIC"})
    scene = {
        "stage_instance": {"template_name": f"stages/{apartment.name}"},
        "default_lighting": "",
        "object_instances": rigid,
        "articulated_object_instances": articulated,
        "user_defined": {"tpsrl": {"split": layout.split}},
    }
    _write_json(out / f"configs/scenes/{layout.name}{fmt.SUFFIX['scene']}", scene)


def _at_home(episode: Episode, out: Path, unique: Mapping[str, str]) -> Episode:
    """Return the episode with Habitat's paths of this dataset and its names of receptacles."""
    extra = {
        **episode.extra,
        "scene_id": f"{out}/configs/scenes/{episode.layout}{fmt.SUFFIX['scene']}",
        "scene_dataset_config": f"{out}/{fmt.DATASET}",
        "additional_obj_config_paths": [f"{out}/objects/ycb/configs/"],
    }
    objects = tuple(
        replace(o, receptacle=unique.get(o.receptacle, o.receptacle)) for o in episode.objects
    )
    return replace(episode, objects=objects, extra=extra)


def _write_dataset(out: Path) -> None:
    config = {
        "stages": {"paths": {".json": ["configs/stages"]}},
        "objects": {"paths": {".json": ["configs/objects", "objects/ycb/configs"]}},
        "articulated_objects": {"paths": {".json": ["urdf/*"]}},
        "scene_instances": {
            "default_attributes": {"default_lighting": ""},
            "paths": {".json": ["configs/scenes"]},
        },
    }
    _write_json(out / fmt.DATASET, config)
    navmesh = {
        "agent_radius": fetch.BASE_RADIUS,
        "agent_height": fetch.NAVIGATION_HEIGHT,
        "agent_max_climb": 0.2,
        "agent_max_slope": 45.0,
        "include_static_objects": True,
    }
    _write_json(out / "navmesh_settings.json", navmesh)


def _write_manifest(out: Path, apartment: Apartment) -> list[Path]:
    below = (p for name in _FOLDERS for p in (out / name).rglob("*"))
    files = sorted(p for p in below if p.is_file() and not p.name.startswith("."))
    files += [out / fmt.DATASET, out / "navmesh_settings.json"]
    hashes = {
        p.relative_to(out).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }
    manifest = {"version": fmt.VERSION, "tpsrl": __version__, "apartment": apartment.name}
    _write_json(out / fmt.MANIFEST, {**manifest, "files": hashes})
    return [*files, out / fmt.MANIFEST]


def _plain(values: np.ndarray) -> list[float]:
    return [float(v) + 0.0 for v in values]


def _write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
