"""Fetch with a suction cup as a URDF whose link numbers are those of habitat-lab's ``FetchRobot``.

habitat-lab addresses links by number: wheels 2 and 4, torso 6, head 8 and 9, arm 15 to 21, gripper
22 and 23. Habitat numbers depth first, siblings by joint name; the empty links of the public Fetch
description stand here for their numbers alone.
"""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from tpsrl.files import write_atomically
from tpsrl.habitat.export.urdf import TO_Y_UP, origin, rpy, vector, write_xml
from tpsrl.robot import fetch
from tpsrl.robot.mjcf import add_fetch, mesh_directory

BASE = "base_link"

_TORSO = np.array([-0.0869, 0.0, 0.3774])
_HEAD_PAN = (0.0531, 0.0, 0.603)
_HEAD_TILT = (0.1425, 0.0, 0.058)
_WHEEL = (0.0013, 0.1870, 0.0554)
_CAMERA = ("head_camera", "head_camera_rgb", "head_camera_rgb_optical", "head_camera_depth",
           "head_camera_depth_optical")  # fmt: skip
_PLAIN = (0.25, 0.25, 0.27, 1.0)
_STEM, _CUP = (0.014, 0.082, 0.009), (0.024, 0.03, 0.065)
"""Radius, length and centre ahead of the gripper link, m."""


@dataclass(frozen=True)
class _Joint:
    """A link and the joint that carries it.

    Attributes:
        link, parent: names; the joint is called like the link.
        pos, quat: in the parent's frame.
        kind: URDF joint type.
        axis, limits: of a joint that moves.
        mesh: STL file of the link, ``""`` for none.
        mass, com, inertia: kg, m, kg m^2.
    """

    link: str
    parent: str
    pos: tuple[float, ...] = (0.0, 0.0, 0.0)
    quat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    kind: str = "fixed"
    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    limits: tuple[float, float] = (0.0, 0.0)
    mesh: str = ""
    mass: float = 0.05
    com: tuple[float, ...] = (0.0, 0.0, 0.0)
    inertia: tuple[float, ...] = (1e-4, 1e-4, 1e-4)


def write_fetch(folder: Path) -> Path:
    """Write ``hab_suction.urdf`` and its meshes; return the URDF's path.

    Raises:
        FileNotFoundError: the package with Fetch's meshes is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    joints = [*_body(), *_arm()]
    robot = ET.Element("robot", name="hab_suction")
    base = ET.SubElement(robot, "link", name=BASE)
    # Habitat takes the frame of mass for the robot's own; the base is moved, never pushed.
    _inertial(base, 70.0, (0.0, 0.0, 0.0), (3.0, 3.0, 3.0))
    _mesh(base, folder, "base_link_collision", turned=True)
    for item in joints:
        _add_link(robot, folder, item)
    for item in joints:
        _add_joint(robot, item)
    path = folder / "hab_suction.urdf"
    write_xml(path, robot)
    return path


def _body() -> list[_Joint]:
    x, y, z = _WHEEL
    spin = {"kind": "continuous", "axis": (0.0, 1.0, 0.0), "mass": 4.3}
    head = {"kind": "revolute", "mass": 2.2, "inertia": (0.01, 0.01, 0.01)}
    torso_pos = tuple(_TORSO)
    cameras = zip(_CAMERA, ("head_tilt_link", *(f"{c}_link" for c in _CAMERA)), strict=False)
    return [
        _Joint("bellows_link", BASE),
        _Joint("estop_link", BASE),
        _Joint("l_wheel_link", BASE, (x, y, z), **spin),  # type: ignore[arg-type]
        _Joint("laser_link", BASE),
        _Joint("r_wheel_link", BASE, (x, -y, z), **spin),  # type: ignore[arg-type]
        _Joint("torso_fixed_link", BASE, torso_pos, mesh="torso_fixed_link", mass=13.0),
        _Joint("torso_lift_link", BASE, torso_pos, kind="prismatic", limits=(0.0, 0.38615),
               mesh="torso_lift_link_collision", mass=10.8, com=(-0.0013, 0.0, 0.292),
               inertia=(0.34, 0.36, 0.06)),
        _Joint("bellows_link2", "torso_lift_link"),
        _Joint("head_pan_link", "torso_lift_link", _HEAD_PAN, limits=(-1.57, 1.57),
               mesh="head_pan_link_collision", **head),  # type: ignore[arg-type]
        _Joint("head_tilt_link", "head_pan_link", _HEAD_TILT, axis=(0.0, 1.0, 0.0),
               limits=(-0.76, 1.5708), mesh="head_tilt_link_collision",
               **head),  # type: ignore[arg-type]
        *(_Joint(f"{name}_link", parent) for name, parent in cameras),
    ]  # fmt: skip


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    """Return the MuJoCo robot alone."""
    spec = mujoco.MjSpec()
    add_fetch(spec)
    return spec.compile()


@functools.lru_cache(maxsize=1)
def _colours() -> dict[str, tuple[float, ...]]:
    model = _model()
    return {model.geom(i).name: tuple(map(float, model.geom_rgba[i])) for i in range(model.ngeom)}


def _arm() -> list[_Joint]:
    """Return the arm's links with the frames, masses and limits of the MuJoCo robot."""
    model = _model()
    lift = np.array([0.0, 0.0, fetch.TORSO_HEIGHT])
    out, parent = [], "torso_lift_link"
    for name in [f"{joint.removesuffix('_joint')}_link" for joint in fetch.ARM_JOINTS]:
        body, joint = model.body(name), model.joint(name.removesuffix("_link") + "_joint")
        pos = body.pos - (_TORSO + lift if parent == "torso_lift_link" else 0.0)
        limited = bool(model.jnt_limited[joint.id])
        out.append(
            _Joint(
                name,
                parent,
                tuple(pos),
                tuple(body.quat),
                "revolute" if limited else "continuous",
                tuple(joint.axis),
                tuple(joint.range),
                f"{name}_collision",
                float(body.mass[0]),
                tuple(body.ipos),
                tuple(body.inertia),
            )
        )
        parent = name
    body = model.body("gripper_link")
    out.append(
        _Joint("gripper_link", parent, tuple(body.pos), tuple(body.quat), mesh="gripper_link",
               mass=float(body.mass[0]), com=tuple(body.ipos), inertia=tuple(body.inertia))
    )  # fmt: skip
    # habitat-lab sets motor and position of the gripper's joint, so it must be able to move.
    out.append(_Joint("suction_link", "gripper_link", kind="prismatic", axis=(1.0, 0.0, 0.0),
                      limits=(0.0, 1e-4)))  # fmt: skip
    return out


def _add_link(robot: ET.Element, folder: Path, item: _Joint) -> None:
    element = ET.SubElement(robot, "link", name=item.link)
    _inertial(element, item.mass, item.com, item.inertia)
    if item.mesh:
        _mesh(element, folder, item.mesh)
    if item.link == "suction_link":
        for radius, length, center in (_STEM, _CUP):
            for tag in ("visual", "collision"):
                part = ET.SubElement(element, tag)
                origin(part, (center, 0.0, 0.0), "0 1.5707963267948966 0")
                geometry = ET.SubElement(part, "geometry")
                size = {"radius": repr(radius), "length": repr(length)}
                ET.SubElement(geometry, "cylinder", size)
                if tag == "visual":
                    material = ET.SubElement(part, "material", name=f"suction{center:g}")
                    ET.SubElement(material, "color", rgba=vector(_PLAIN))


def _add_joint(robot: ET.Element, item: _Joint) -> None:
    joint = ET.SubElement(robot, "joint", name=item.link, type=item.kind)
    if item.parent == BASE:
        x, y, z = item.pos
        ET.SubElement(joint, "origin", rpy=TO_Y_UP, xyz=vector((x, z, -y)))
    else:
        ET.SubElement(joint, "origin", rpy=rpy(item.quat), xyz=vector(item.pos))
    ET.SubElement(joint, "parent", link=item.parent)
    ET.SubElement(joint, "child", link=item.link)
    if item.kind == "fixed":
        return
    ET.SubElement(joint, "axis", xyz=vector(item.axis))
    limit = {"effort": "500", "velocity": "10"}
    if item.kind != "continuous":
        lower, upper = item.limits
        limit |= {"lower": repr(float(lower)), "upper": repr(float(upper))}
    ET.SubElement(joint, "limit", limit)


def _inertial(
    link: ET.Element, mass: float, com: tuple[float, ...], inertia: tuple[float, ...]
) -> None:
    block = ET.SubElement(link, "inertial")
    origin(block, com)
    ET.SubElement(block, "mass", value=repr(mass))
    values = dict(zip(("ixx", "iyy", "izz"), (repr(float(v)) for v in inertia), strict=True))
    ET.SubElement(block, "inertia", {**values, "ixy": "0", "ixz": "0", "iyz": "0"})


def _mesh(link: ET.Element, folder: Path, name: str, turned: bool = False) -> None:
    """Add an STL of Fetch as GLB, seen and touched; ``turned`` for the y-up root."""
    import trimesh

    mesh: Any = trimesh.load(mesh_directory() / f"{name}.stl", force="mesh")
    rgba = [round(255 * c) for c in _colours().get(f"robot/{name}", _PLAIN)]
    material = trimesh.visual.material.PBRMaterial(
        baseColorFactor=rgba, metallicFactor=0.0, roughnessFactor=0.9
    )
    mesh.visual = trimesh.visual.TextureVisuals(material=material)
    for tag, body, suffix in (("visual", mesh, ""), ("collision", mesh.convex_hull, "_hull")):
        write_atomically(
            folder / f"{name}{suffix}.glb", trimesh.Scene(body).export(file_type="glb")
        )
        part = ET.SubElement(link, tag)
        origin(part, (0.0, 0.0, 0.0), TO_Y_UP if turned else "0 0 0")
        geometry = ET.SubElement(part, "geometry")
        ET.SubElement(geometry, "mesh", filename=f"{name}{suffix}.glb", scale="1.0 1.0 1.0")
