"""Articulated furniture as a URDF, in the manner of ReplicaCAD.

The root link is empty and y up; a fixed joint turns to the z-up frame of the body. Habitat numbers
links depth first, siblings by the names of their joints; these begin with the number that the
link has in episode files.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from tpsrl.episodes.handles import link_id
from tpsrl.files import write_atomically
from tpsrl.habitat.export.glb import shape_mesh, write_visual
from tpsrl.robot import fetch
from tpsrl.scenes.description import Furniture, Joint, Link, Shape

ROOT = "root"
"""Name of the y-up root link."""
TO_Y_UP = "-1.5707963267948966 0 0"
"""Roll, pitch, yaw of a z-up frame in a y-up one."""
_GROUP = "1"
"""Habitat's group of things that collide with all others. Without it a URDF counts as a robot, and
what is held or was let go a moment ago passes through robots."""
_MAX_EFFORT, _MAX_SPEED = "100", "10"
_USUAL_SPEED = {"slide": 0.3, "hinge": 0.5}
"""Of furniture that a robot opens, m/s or rad/s."""


def write_furniture(folder: Path, piece: Furniture) -> Path:
    """Write ``NAME.urdf`` and the meshes of its links.

    Args:
        folder: made if it is missing.
        piece: with at least one moving link.

    Returns:
        Path of the URDF.
    """
    folder.mkdir(parents=True, exist_ok=True)
    robot = ET.Element("robot", name=piece.name)
    ET.SubElement(robot, "link", name=ROOT)
    body = piece.links[0].name
    _joint(robot, f"{ROOT}_rotation", "fixed", ROOT, body, TO_Y_UP, "0 0 0")
    for link in piece.links:
        _link(robot, folder, link)
    for link in piece.links[1:]:
        _moving_joint(robot, piece, link)
    path = folder / f"{piece.name}.urdf"
    write_xml(path, robot)
    return path


def write_xml(path: Path, root: ET.Element) -> None:
    """Write an indented XML file."""
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    write_atomically(path, data + b"\n")


def rpy(quat: Sequence[float]) -> str:
    """Return the roll, pitch and yaw of a ``wxyz`` quaternion as URDF writes them, rad."""
    w, x, y, z = quat
    return vector(Rotation.from_quat([x, y, z, w]).as_euler("xyz"))


def vector(values: Sequence[float] | np.ndarray) -> str:
    """Return numbers separated by spaces, to the last digit."""
    return " ".join(repr(float(v) + 0.0) for v in values)


def origin(parent: ET.Element, pos: Sequence[float] | np.ndarray, turn: str = "0 0 0") -> None:
    """Add an origin."""
    ET.SubElement(parent, "origin", rpy=turn, xyz=vector(pos))


def inertial(link: ET.Element, mass: float, center: np.ndarray, half: np.ndarray) -> None:
    """Add mass and inertia of the box with these half extents, about the link's origin.

    Habitat takes the frame of mass for the frame of the link, and hangs handles and receptacles
    on it, so the two have to be one. For what slides, and for doors on upright hinges, the motion
    is the same as with the mass where it is.
    """
    block = ET.SubElement(link, "inertial")
    origin(block, (0.0, 0.0, 0.0))
    ET.SubElement(block, "mass", value=repr(float(mass)))
    square = np.maximum(2.0 * half, 0.01) ** 2 / 12.0 + np.square(center)
    ixx, iyy, izz = mass * (square.sum() - square)
    values = {"ixx": ixx, "iyy": iyy, "izz": izz, "ixy": 0.0, "ixz": 0.0, "iyz": 0.0}
    ET.SubElement(block, "inertia", {k: repr(float(v)) for k, v in values.items()})


def _link(robot: ET.Element, folder: Path, link: Link) -> None:
    element = ET.SubElement(robot, "link", name=link.name)
    points = np.concatenate([shape_mesh(s)[0] for s in link.shapes])
    low, high = points.min(axis=0), points.max(axis=0)
    inertial(element, link.mass, (low + high) / 2, (high - low) / 2)
    if any(s.visible for s in link.shapes):
        name = f"{link.name}.glb"
        write_visual(folder / name, link.shapes, y_up=False)
        visual = ET.SubElement(element, "visual", name="visual")
        origin(visual, (0.0, 0.0, 0.0))
        geometry = ET.SubElement(visual, "geometry")
        ET.SubElement(geometry, "mesh", filename=name, scale="1.0 1.0 1.0")
    for index, shape in enumerate(s for s in link.shapes if s.collide):
        _collision(element, folder, link, index, shape)


def _collision(element: ET.Element, folder: Path, link: Link, index: int, shape: Shape) -> None:
    collision = ET.SubElement(element, "collision", name=f"solid{index:03d}", group=_GROUP)
    origin(collision, shape.pos, rpy(shape.quat))
    geometry = ET.SubElement(collision, "geometry")
    if shape.kind == "box":
        ET.SubElement(geometry, "box", size=vector(2.0 * np.asarray(shape.size)))
    elif shape.kind == "cylinder":
        radius, half, _ = shape.size
        ET.SubElement(geometry, "cylinder", radius=repr(radius), length=repr(2.0 * half))
    elif shape.kind == "sphere":
        ET.SubElement(geometry, "sphere", radius=repr(shape.size[0]))
    else:
        name = f"{link.name}_solid{index:03d}.glb"
        raw = Shape("mesh", vertices=shape.vertices, faces=shape.faces, rgba=shape.rgba)
        write_visual(folder / name, [raw], y_up=False)
        ET.SubElement(geometry, "mesh", filename=name, scale="1.0 1.0 1.0")


def _joint(
    robot: ET.Element, name: str, kind: str, parent: str, child: str, turn: str, pos: str
) -> ET.Element:
    joint = ET.SubElement(robot, "joint", name=name, type=kind)
    ET.SubElement(joint, "origin", rpy=turn, xyz=pos)
    ET.SubElement(joint, "parent", link=parent)
    ET.SubElement(joint, "child", link=child)
    return joint


def joint_name(piece: Furniture, link: Link) -> str:
    """Return a joint's name, which puts its link where episode files expect it."""
    names = sorted(other.name for other in piece.links[1:])
    number = link_id(piece.name, link.name)
    return f"{names.index(link.name) + 1 if number is None else number:02d}_{link.name}"


def _brake(joint: Joint) -> float:
    """Return Habitat's damping: the impulse that a brake gives at most in one physics step."""
    force = joint.friction + joint.damping * _USUAL_SPEED[joint.kind]
    return round(force / fetch.PHYSICS_HZ, 9)


def _moving_joint(robot: ET.Element, piece: Furniture, link: Link) -> None:
    assert link.joint is not None
    kind = "prismatic" if link.joint.kind == "slide" else "revolute"
    name, body = joint_name(piece, link), piece.links[0].name
    joint = _joint(robot, name, kind, body, link.name, rpy(link.quat), vector(link.pos))
    ET.SubElement(joint, "axis", xyz=vector(link.joint.axis))
    ET.SubElement(joint, "dynamics", damping=repr(_brake(link.joint)), friction="0.0")
    ET.SubElement(
        joint, "limit", lower=repr(link.joint.lower), upper=repr(link.joint.upper),
        effort=_MAX_EFFORT, velocity=_MAX_SPEED,
    )  # fmt: skip
