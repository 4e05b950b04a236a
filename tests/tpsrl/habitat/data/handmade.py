"""Small files in Habitat's own formats, written by hand: what our export never writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

CABINET = """<?xml version="1.0"?>
<robot name="cabinet">
  <link name="root"/>
  <joint name="root_rotation" type="fixed">
    <origin rpy="-1.5707963 0 0" xyz="0 0.4 0"/><parent link="root"/><child link="body"/>
  </joint>
  <link name="body">
    <inertial><mass value="20"/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    <visual><geometry><box size="0.5 0.6 0.8"/></geometry></visual>
    <collision><geometry><box size="0.5 0.6 0.8"/></geometry></collision>
  </link>
  <joint name="z_drawer" type="prismatic">
    <origin rpy="0 0 0" xyz="0.3 0 0.1"/><parent link="body"/><child link="tray"/>
    <axis xyz="1 0 0"/><dynamics damping="0.01" friction="0.01"/>
    <limit effort="10" lower="0" upper="0.4" velocity="1"/>
  </joint>
  <link name="tray">
    <visual><geometry><box size="0.1 0.5 0.2"/></geometry></visual>
    <collision><geometry><box size="0.1 0.5 0.2"/></geometry></collision>
  </link>
  <joint name="grip_fixed" type="fixed">
    <origin rpy="0 0 0" xyz="0.07 0 0.02"/><parent link="tray"/><child link="grip"/>
  </joint>
  <link name="grip">
    <collision><geometry><sphere radius="0.02"/></geometry></collision>
  </link>
  <joint name="a_door" type="revolute">
    <origin rpy="0 0 0" xyz="0.25 0.3 -0.2"/><parent link="body"/><child link="door"/>
    <axis xyz="0 0 1"/><limit effort="10" lower="-1.5" upper="0" velocity="1"/>
  </joint>
  <link name="door">
    <collision><origin rpy="0 0 0" xyz="0 -0.3 0"/>
      <geometry><cylinder radius="0.05" length="0.3"/></geometry></collision>
  </link>
</robot>
"""
"""Fixed links to merge, a door that swings backwards, joint names that reverse the order."""

Y_UP = {"up": [0, 1, 0], "front": [0, 0, -1]}
"""How Habitat's own assets lie."""


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_mesh(path: Path, *parts: trimesh.Trimesh) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scene = trimesh.Scene()
    for index, part in enumerate(parts):
        scene.add_geometry(part, node_name=f"n{index}", geom_name=f"g{index}")
    path.write_bytes(scene.export(file_type=path.suffix[1:]))


def box(size: tuple[float, ...], at: tuple[float, ...] = (0.0, 0.0, 0.0)) -> trimesh.Trimesh:
    """A box in the y-up frame of Habitat's files."""
    mesh = trimesh.creation.box(extents=size)
    mesh.apply_translation(at)
    return mesh


def scene(**parts: Any) -> dict[str, Any]:
    return {"stage_instance": {"template_name": "stages/room"}, "default_lighting": "", **parts}


def placed(template: str, at: tuple[float, ...], **more: Any) -> dict[str, Any]:
    entry = {"template_name": template, "translation": list(at), "rotation": [1, 0, 0, 0]}
    return {**entry, "motion_type": "STATIC", **more}


def dataset(root: Path, floor: float = 0.0) -> Path:
    """A room of 6 m x 4 m with an L-shaped wall, a table, a shelf, a cabinet and a bowl.

    Args:
        root: folder to write.
        floor: height of the floor in the files, m.
    """
    _stage(root, floor)
    _objects(root)
    _cabinet(root)
    _scenes(root / "configs/scenes", floor)
    write_json(
        root / "room.scene_dataset_config.json",
        {
            "stages": {"paths": {".json": ["configs/stages"]}},
            "objects": {"paths": {".json": ["configs/objects"]}},
            "articulated_objects": {"paths": {".json": ["urdf/*"]}},
            "scene_instances": {"paths": {".json": ["configs/scenes"]}},
        },
    )
    return root


def _stage(root: Path, floor: float) -> None:
    """Ground, two walls in one piece and an L-shaped one, with a receptacle on the window sill."""
    ground = box((6.0, 0.1, 4.0), (0, floor - 0.05, 0))
    wall = trimesh.util.concatenate(
        [
            box((6.0, 2.4, 0.1), (0, floor + 1.2, -1.95)),
            box((0.1, 2.4, 4.0), (2.95, floor + 1.2, 0)),
        ]
    )
    corner = trimesh.creation.extrude_polygon(_l_shape(), 2.4)
    turn = trimesh.transformations.rotation_matrix(-np.pi / 2, (1, 0, 0))
    corner.apply_transform(turn)
    corner.apply_translation((-2.0, floor, 1.0))
    write_mesh(root / "stages/room.glb", ground, wall, corner)
    sill = {"position": [0, floor + 1.0, -1.8], "scale": [0.5, 0.1, 0.1]}
    write_json(
        root / "configs/stages/room.stage_config.json",
        {
            "render_asset": "../../stages/room.glb",
            **Y_UP,
            "user_defined": {"receptacle_aabb_sill": sill},
        },
    )


def _cabinet(root: Path) -> None:
    """The cabinet with receptacles on top and in the drawer."""
    write_json(
        root / "urdf/cabinet/cabinet.ao_config.json",
        {
            "urdf_filepath": "cabinet.urdf",
            "user_defined": {
                "receptacle_aabb_tray": {"parent_link": "tray", "position": [0, 0, 0.15],
                                         "scale": [0.04, 0.2, 0.05], "up": [0, 0, 1]},
                "receptacle_aabb_top": {"name": "cabinet_top", "parent_link": "body",
                                        "position": [0, 0, 0.5], "scale": [0.2, 0.25, 0.1]},
            },
        },
    )  # fmt: skip
    (root / "urdf/cabinet/cabinet.urdf").write_text(CABINET)


def _scenes(folder: Path, floor: float) -> None:
    """A full room, and one with two tables of other sizes and the cabinet elsewhere."""
    table = placed("objects/table", (1.0, floor, 0.0))
    small = placed("objects/table", (-1.0, floor, 0.5), uniform_scale=0.5)
    wide = placed("objects/table", (-1.0, floor, 0.5), non_uniform_scale=[1.0, 2.0, 1.0])
    fixed = {"fixed_base": True, "motion_type": "DYNAMIC"}
    write_json(
        folder / "v3_sc3_staging_00.scene_instance.json",
        scene(
            object_instances=[
                table,
                small,
                placed("objects/shelf", (0.0, floor + 1.0, 1.5), translation_origin="asset_local"),
                placed("objects/rug", (0.0, floor, 0.0)),
                placed("objects/bowl", (1.0, floor + 0.83, 0.0), motion_type="DYNAMIC"),
            ],
            articulated_object_instances=[
                placed("cabinet", (0.0, floor, -1.5), uniform_scale=1.0, **fixed)
            ],
        ),
    )
    write_json(
        folder / "v3_sc0_staging_00.scene_instance.json",
        scene(
            object_instances=[table, wide],
            articulated_object_instances=[placed("cabinet", (0.5, floor, -1.5), **fixed)],
        ),
    )


def _objects(root: Path) -> None:
    configs = root / "configs/objects"
    _table(root, configs)
    write_mesh(root / "objects/shelf.glb", box((0.8, 0.04, 0.3), (0.4, 0.02, 0.0)))
    write_json(configs / "shelf.object_config.json", {"render_asset": "../../objects/shelf.glb"})
    write_mesh(root / "objects/rug.glb", box((1.5, 0.01, 1.0), (0, 0.005, 0)))
    write_json(
        configs / "rug.object_config.json",
        {"render_asset": "../../objects/rug.glb", "COM": [0, 0, 0]},
    )
    _bowl(root, configs)


def _table(root: Path, configs: Path) -> None:
    """A table with a surface mesh of its own and a second receptacle at its foot."""
    top, leg = box((1.0, 0.04, 0.6), (0, 0.78, 0)), box((0.1, 0.76, 0.1), (0, 0.38, 0))
    write_mesh(root / "objects/table.glb", top, leg)
    surface = [box((0.4, 0.001, 0.5), (x, 0.8, 0)) for x in (-0.25, 0.25)]
    write_mesh(root / "objects/table_surface.glb", *surface)
    write_json(
        configs / "table.object_config.json",
        {
            "render_asset": "../../objects/table.glb", **Y_UP, "COM": [0, 0, 0], "mass": 12,
            "user_defined": {
                "receptacle_mesh_table": {"name": "table_mesh", "position": [0, 0, 0],
                                          "scale": [1, 1, 1],
                                          "mesh_filepath": "../../objects/table_surface.glb"},
                "receptacle_aabb_foot": {"name": "table_foot", "position": [0.3, 0.1, 0.1],
                                         "scale": [0.15, 0.1, 0.05]},
            },
        },
    )  # fmt: skip


def _bowl(root: Path, configs: Path) -> None:
    """Four walls and a bottom, whose files are z up and in centimetres."""
    walls = [box((0.02, 0.06, 0.1), (s * 0.05, 0, 0)) for s in (-1, 1)]
    walls += [box((0.1, 0.06, 0.02), (0, 0, s * 0.05)) for s in (-1, 1)]
    parts = [*walls, box((0.1, 0.01, 0.1), (0, -0.025, 0))]
    write_mesh(root / "objects/bowl.glb", *parts)
    turn = trimesh.transformations.rotation_matrix(np.pi / 2, (1, 0, 0))
    for part in parts:
        part.apply_transform(turn)
        part.apply_scale(100.0)
    write_mesh(root / "objects/bowl_cm.glb", *parts)
    write_json(
        configs / "bowl.object_config.json",
        {
            "render_asset": "../../objects/bowl_cm.glb", "up": [0, 0, 1], "front": [0, 1, 0],
            "units_to_meters": 0.01, "mass": 0.2,
        },
    )  # fmt: skip


def _l_shape():  # type: ignore[no-untyped-def]
    from shapely.geometry import Polygon

    return Polygon([(0, 0), (1.0, 0), (1.0, 0.2), (0.2, 0.2), (0.2, 0.8), (0, 0.8)])
