"""Objects and what they are made of, added to the description of a MuJoCo model."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from tpsrl.robot.mjcf import BIT_CUP, BIT_OBJECT, BIT_ROBOT, GROUP_COLLISION
from tpsrl.scenes.description import ObjectType
from tpsrl.sim.mujoco import meshes

GROUP_BOTH = 2
"""Seen in colour and in depth: the robot and the objects."""

_MESH = mujoco.mjtGeom.mjGEOM_MESH
PRIMITIVE = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
}


def add_object_meshes(spec: mujoco.MjSpec, types: Mapping[str, ObjectType]) -> None:
    """Add the meshes of all types: ``TYPE#visual`` and, of a shape that is one, ``TYPE#0``."""
    for name, kind in sorted(types.items()):
        if len(kind.shapes) > 1:
            add_mesh(spec, f"{name}#visual", *meshes.merge(kind.shapes), hull=False)
        for k, shape in enumerate(kind.shapes):
            if shape.kind == "mesh":
                add_mesh(spec, f"{name}#{k}", shape.vertices, shape.faces, hull=True)


def add_object(spec: mujoco.MjSpec, kind: ObjectType, name: str, pos: np.ndarray) -> None:
    """Add a free body that is of a type, and the weld by which the cup holds it."""
    body = spec.worldbody.add_body(name=name, pos=pos)
    body.add_freejoint(name=name)
    round_ = all(s.kind == "sphere" for s in kind.shapes)
    several = len(kind.shapes) > 1
    solid = [s for s in kind.shapes if s.collide]
    for k, shape in enumerate(solid):
        options = {
            "name": f"{name}#{k}",
            "pos": shape.pos,
            "quat": shape.quat,
            "rgba": shape.rgba,
            "mass": kind.mass / len(solid),
            "group": GROUP_COLLISION if several else GROUP_BOTH,
            "contype": BIT_OBJECT,
            "conaffinity": BIT_OBJECT | BIT_ROBOT | BIT_CUP,
            "friction": (0.8, 0.02, 0.02) if round_ else (0.8, 0.01, 0.001),
            "condim": 6 if round_ or shape.kind == "cylinder" else 4,
        }
        if shape.kind == "mesh":
            body.add_geom(type=_MESH, meshname=f"{kind.name}#{k}", **options)
        else:
            body.add_geom(type=PRIMITIVE[shape.kind], size=shape.size, **options)
    if several:
        body.add_geom(
            name=f"{name}#visual", type=_MESH, meshname=f"{kind.name}#visual", group=GROUP_BOTH,
            contype=0, conaffinity=0, mass=0, rgba=kind.shapes[0].rgba,
        )  # fmt: skip
    spec.add_equality(
        name=f"suction/{name}",
        type=mujoco.mjtEq.mjEQ_WELD,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        name1="gripper_link",
        name2=name,
        active=False,
        solref=(0.02, 1.0),
        data=eq_data(torquescale=1.0),
    )


def add_mesh(
    spec: mujoco.MjSpec,
    name: str,
    vertices: np.ndarray | None,
    faces: np.ndarray | None,
    hull: bool,
) -> None:
    """Add a mesh: (v, 3) vertices and (f, 3) faces; of a ``hull`` at most 32 corners collide."""
    assert vertices is not None and faces is not None
    spec.add_mesh(
        name=name,
        uservert=np.asarray(vertices, dtype=float).ravel(),
        userface=np.asarray(faces, dtype=np.int32).ravel(),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        if not hull
        else mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX,
        maxhullvert=32 if hull else -1,
    )


def eq_data(torquescale: float = 0.0) -> np.ndarray:
    """Return the numbers of a constraint by which the cup holds something."""
    data = np.zeros(mujoco.mjNEQDATA)
    data[6], data[10] = 1.0, torquescale
    return data
