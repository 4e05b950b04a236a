"""What the exported files and their reader agree on beyond Habitat's own format.

Habitat ignores what it does not know under ``user_defined``; there stand the few things that its
format has no place for. A number or a vector of three is all that its parser takes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpsrl.habitat.sound import shape_problem
from tpsrl.scenes.description import Container, Furniture, Marker, Receptacle, Shape

VERSION = 3
"""Raise when the layout of the exported files changes; readers refuse newer versions."""
MANIFEST = "tpsrl_export.json"
"""At the root of an export: version and a hash of every file."""
DATASET = "tpsrl.scene_dataset_config.json"
SOLIDS, MARKERS, CONTAINERS = "tpsrl_solids", "tpsrl_markers", "tpsrl_containers"
PIECE, DYNAMICS = "tpsrl_piece", "tpsrl_dynamics"
RECEPTACLE = "receptacle_aabb_"
SUFFIX = {
    "dataset": ".scene_dataset_config.json",
    "stage": ".stage_config.json",
    "object": ".object_config.json",
    "scene": ".scene_instance.json",
    "articulated": ".ao_config.json",
}


def solids_to_json(shapes: Sequence[Shape]) -> dict[str, Any]:
    """Return the colliding solids in order; a mesh is the part of that number of the asset."""
    out: dict[str, Any] = {}
    for index, shape in enumerate(s for s in shapes if s.collide):
        out[f"{index:03d}"] = {
            "kind": shape.kind,
            "size": list(shape.size),
            "pos": list(shape.pos),
            "quat_w": shape.quat[0],
            "quat_xyz": list(shape.quat[1:]),
        }
    return out


def solids_from_json(raw: Mapping[str, Any], parts: Sequence[Shape]) -> tuple[Shape, ...]:
    """Inverse of :func:`solids_to_json`.

    Args:
        raw: what was written.
        parts: the asset's convex parts, in order.

    Raises:
        ValueError: numbers of solids and parts differ, or a field is missing.
    """
    if len(raw) != len(parts):
        raise ValueError(f"{len(raw)} solids are described and the mesh has {len(parts)} parts")
    out = []
    for index, item in enumerate(raw[key] for key in sorted(raw)):
        if item["kind"] == "mesh":
            out.append(parts[index])
            continue
        quat = (item["quat_w"], *item["quat_xyz"])
        size, pos = tuple(item["size"]), tuple(item["pos"])
        out.append(Shape(item["kind"], size, pos, quat, visible=False))
        if problem := shape_problem(out[-1]):
            raise ValueError(problem)
    return tuple(out)


def receptacles_to_json(receptacles: Sequence[Receptacle], turn: np.ndarray) -> dict[str, Any]:
    """Return Habitat's receptacle entries.

    Args:
        receptacles: of one piece.
        turn: (3, 3) rotation from the link's frame to that of the config (y up, or itself).
    """
    out = {}
    for item in receptacles:
        entry: dict[str, Any] = {
            "name": item.name,
            "position": _rounded(turn @ np.asarray(item.center)),
            "scale": _rounded(np.abs(turn) @ np.asarray(item.half_size)),
        }
        if item.capacity is not None:
            entry["tpsrl_capacity"] = item.capacity
        out[f"{RECEPTACLE}{item.name}"] = entry
    return out


def markers_to_json(markers: Sequence[Marker]) -> dict[str, Any]:
    """Return handles by name."""
    return {m.name: {"link": m.link, "offset": list(m.offset)} for m in markers}


def containers_to_json(containers: Sequence[Container]) -> dict[str, Any]:
    """Return containers by the link that opens them."""
    return {
        c.joint_link: {
            "moves": c.moves,
            "position": list(c.center),
            "scale": list(c.half_size),
        }
        for c in containers
    }


def dynamics_to_json(piece: Furniture) -> dict[str, Any]:
    """Return damping and friction of the joints by link; Habitat's own damping is a brake."""
    return {
        link.name: {"damping": link.joint.damping, "friction": link.joint.friction}
        for link in piece.links
        if link.joint is not None
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(v) for v in np.round(values, 9) + 0.0]
