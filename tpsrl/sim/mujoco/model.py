"""Compile one apartment, one robot and a pool of objects into a MuJoCo model.

Furniture roots are static bodies whose pose is written into the model at reset, so one compiled
model serves every layout and resting objects can sleep on it (on mocap bodies they could not).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from tpsrl.robot import fetch
from tpsrl.robot.mjcf import (
    BASE_JOINTS,
    BIT_CUP,
    BIT_OBJECT,
    BIT_ROBOT,
    BIT_STATIC,
    GROUP_COLLISION,
    add_fetch,
)
from tpsrl.scenes.description import IDENTITY, Apartment, Furniture, Link, Shape
from tpsrl.sim.mujoco import meshes
from tpsrl.sim.mujoco.forms import Forms, Pool
from tpsrl.sim.mujoco.objects import PRIMITIVE, add_mesh, add_object, add_object_meshes, eq_data

GROUP_COLOUR = 1
"""Furniture and walls in colour, a mesh per colour."""
GROUP_DEPTH = 4
"""Furniture and walls in depth, one mesh per link."""

_FLOOR = 8.0
"""The floor reaches at least so far from the origin along both axes, m."""
PARKING = np.array([60.0, 0.0, 0.0])
"""Objects of the pool that an episode does not use rest there, asleep and out of sight."""

PARKING_HEIGHT = 0.2
"""There they need no ground, since they sleep from the start."""

MEAN_INERTIA = 1.0
"""By what solvers measure what is left to gain, kg. MuJoCo's own would depend on the pool."""

SKIN = 5.0
"""Inverse inertia, 1/kg, that contacts reckon a link of the robot with at least. It makes them
30 to 60 kN/m stiff; a link that cannot move aside would otherwise meet furniture at 1 MN/m."""

_THIN, _BOARD = 0.008, 0.02
"""A horizontal board that is at most so thin, m, is so thick where things meet it, downward: a
flat thing that comes down on its edge at 1 m/s is through 5 mm, a drawer's floor, in one step."""

_BOX, _MESH = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_MESH


@dataclass(frozen=True)
class ModelIndex:
    """Ids of the things that the engine touches every step.

    Attributes:
        pool: form of objects -> bodies.
        weld: body id of an object -> id of its suction constraint.
        roots: furniture name -> body id.
        joint_names, joint_ids, joint_bodies: furniture joints in a fixed order.
        markers: name -> (joint index, (3,) offset in the link frame, suction constraint id).
        robot_geom: (ngeom,) bool.
        object_of_geom: (ngeom,) body id of the object that owns the geom, -1 for none.
        marker_of_geom: (ngeom,) index of the marker whose link owns the geom, -1 for none.
    """

    pool: Pool
    weld: Mapping[int, int]
    roots: Mapping[str, int]
    joint_names: tuple[str, ...]
    joint_ids: np.ndarray
    joint_bodies: np.ndarray
    markers: Mapping[str, tuple[int, np.ndarray, int]]
    robot_geom: np.ndarray
    object_of_geom: np.ndarray
    marker_of_geom: np.ndarray
    suction_geom: int
    gripper_body: int
    ee_site: int
    base_qpos: np.ndarray
    base_dof: np.ndarray
    arm_qpos: np.ndarray
    arm_dof: np.ndarray


def build(
    apartment: Apartment, forms: Forms, pool: Mapping[str, int]
) -> tuple[mujoco.MjModel, ModelIndex]:
    """Compile the model.

    Args:
        apartment: walls and furniture.
        forms: of every known object type; all their meshes are compiled in, so that models with
            different pools can share one graphics context.
        pool: form -> number of bodies.

    Returns:
        The model and the index of its parts.
    """
    spec = mujoco.MjSpec()
    _options(spec, apartment.bounds)
    add_fetch(spec, driven=True)
    _walls(spec, apartment)
    for piece in apartment.furniture:
        _furniture(spec, piece)
    add_object_meshes(spec, forms.types)
    first = forms.several()
    names = [
        f"{form}:{k}"
        for form in sorted(pool, key=lambda form: (form not in first, form))
        for k in range(pool[form])
    ]
    for slot, name in enumerate(names):
        kind = forms.types[name.rpartition(":")[0]]
        add_object(spec, kind, name, PARKING + (slot % 16, slot // 16, PARKING_HEIGHT))
    model = spec.compile()
    model.stat.meaninertia = MEAN_INERTIA
    index = _index(model, apartment, pool)
    _pad(model, index)
    for form, bodies in index.pool.items():
        _level(model, forms, form, bodies)
    return model, index


def _pad(model: mujoco.MjModel, index: ModelIndex) -> None:
    """Make the robot's links no harder to the touch than ``SKIN``."""
    links = np.unique(model.geom_bodyid[index.robot_geom])
    model.body_invweight0[links] = np.maximum(model.body_invweight0[links], SKIN)


def _level(model: mujoco.MjModel, forms: Forms, form: str, bodies: Sequence[int]) -> None:
    """Take from objects' weights what the place where they are parked did to the last digits."""
    known = forms.bodies[form]
    first = int(forms.model.body_dofadr[known])
    for body in bodies:
        model.body_invweight0[body] = forms.model.body_invweight0[known]
        dofs = slice(int(model.body_dofadr[body]), int(model.body_dofadr[body]) + 6)
        for field in ("dof_invweight0", "dof_M0", "dof_length"):
            getattr(model, field)[dofs] = getattr(forms.model, field)[first : first + 6]


def _options(spec: mujoco.MjSpec, bounds: np.ndarray) -> None:
    spec.compiler.degree = False
    spec.memory = 24 * 2**20
    option = spec.option
    option.timestep = 1.0 / fetch.PHYSICS_HZ
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    option.sleep_tolerance = 5e-3
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.impratio = 3.0
    spec.stat.extent = 1.0
    spec.stat.center = (0.0, 0.0, 0.5)
    visual = spec.visual
    visual.map.znear, visual.map.zfar = 0.02, 30.0
    visual.quality.numslices, visual.quality.numstacks = 16, 8
    visual.quality.offsamples = 4
    visual.quality.shadowsize = 2048
    visual.global_.offwidth, visual.global_.offheight = 1280, 960
    visual.headlight.ambient = (0.35, 0.35, 0.35)
    visual.headlight.diffuse = (0.35, 0.35, 0.35)
    visual.headlight.specular = (0.05, 0.05, 0.05)
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        dir=(0.35, 0.25, -1.0),
        diffuse=(0.45, 0.45, 0.42),
        specular=(0.05, 0.05, 0.05),
        castshadow=True,
    )
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.83, 0.88, 0.93),
        rgb2=(0.97, 0.97, 0.97),
        width=64,
        height=64,
    )
    # Floor and furniture stand still, so nothing has to be wide awake for them.
    reach = max(_FLOOR, float(np.abs(bounds).max()) + 1.0)
    floor = Shape("box", (reach, reach, 0.25), (0.0, 0.0, -0.25), rgba=(0.72, 0.62, 0.5, 1.0))
    _solids(spec, spec.worldbody, "floor", (floor,), 0.0)
    spec.worldbody.add_geom(
        name="parking",
        type=_BOX,
        size=(12, 12, 0.25),
        pos=PARKING + (7.5, 3, -0.25),
        contype=BIT_STATIC,
        conaffinity=BIT_OBJECT,
        group=GROUP_COLLISION,
    )
    spec.add_exclude(name="base_on_floor", bodyname1="robot", bodyname2="world")


def _walls(spec: mujoco.MjSpec, apartment: Apartment) -> None:
    _solids(spec, spec.worldbody, "walls", apartment.walls, 0.0)


def _furniture(spec: mujoco.MjSpec, piece: Furniture) -> None:
    root = spec.worldbody.add_body(name=piece.name)
    bodies = {piece.links[0].name: root}
    _solids(spec, root, piece.name, piece.links[0].shapes, 0.0)
    for link in piece.links[1:]:
        bodies[link.name] = _moving_link(spec, root, piece, link)
    for marker in piece.markers:
        spec.add_equality(
            name=f"marker/{marker.name}",
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            name1="gripper_link",
            name2=bodies[marker.link].name,
            active=False,
            solref=(0.04, 1.0),
            data=eq_data(),
        )


def _moving_link(
    spec: mujoco.MjSpec, root: mujoco.MjsBody, piece: Furniture, link: Link
) -> mujoco.MjsBody:
    assert link.joint is not None
    body = root.add_body(name=f"{piece.name}/{link.name}", pos=link.pos, quat=link.quat)
    kind = mujoco.mjtJoint
    body.add_joint(
        name=f"{piece.name}/{link.name}",
        type=kind.mjJNT_SLIDE if link.joint.kind == "slide" else kind.mjJNT_HINGE,
        axis=link.joint.axis,
        limited=1,
        range=(link.joint.lower, link.joint.upper),
        damping=link.joint.damping,
        frictionloss=link.joint.friction,
        armature=0.05,
        solref_limit=(0.017, 1.0),
        solimp_limit=(0.98, 0.999, 0.001, 0.5, 2.0),
    )
    _solids(spec, body, f"{piece.name}/{link.name}", link.shapes, link.mass)
    return body


def _solids(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    name: str,
    shapes: Sequence[Shape],
    mass: float,
) -> None:
    """Add colliding shapes, a mesh per colour for pictures and one mesh for depth."""
    solid = [s for s in shapes if s.collide]
    for k, shape in enumerate(solid):
        _colliding(spec, body, f"{name}#{k}", _board(shape), mass / len(solid))
    visible = [s for s in shapes if s.visible]
    if not visible:
        return
    _visual(spec, body, f"{name}#depth", visible, GROUP_DEPTH)
    for k, rgba in enumerate(dict.fromkeys(s.rgba for s in visible)):
        same = [s for s in visible if s.rgba == rgba]
        _visual(spec, body, f"{name}#colour{k}", same, GROUP_COLOUR, rgba)


def _board(shape: Shape) -> Shape:
    """Return the shape, or what things meet in place of a thin horizontal board."""
    (x, y, z), (length, width, half) = shape.pos, shape.size
    if shape.kind != "box" or shape.quat != IDENTITY or half > _THIN / 2:
        return shape
    return replace(shape, pos=(x, y, z + half - _BOARD / 2), size=(length, width, _BOARD / 2))


def _colliding(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, shape: Shape, mass: float
) -> None:
    options = {
        "name": name,
        "pos": shape.pos,
        "quat": shape.quat,
        "mass": mass,
        "group": GROUP_COLLISION,
        "contype": BIT_STATIC,
        "conaffinity": BIT_OBJECT | BIT_ROBOT | BIT_CUP,
        "friction": (0.8, 0.01, 0.001),
        "condim": 3,
    }
    if shape.kind == "mesh":
        add_mesh(spec, name, shape.vertices, shape.faces, hull=True)
        body.add_geom(type=_MESH, meshname=name, **options)
    else:
        body.add_geom(type=PRIMITIVE[shape.kind], size=shape.size, **options)


def _visual(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    name: str,
    shapes: Sequence[Shape],
    group: int,
    rgba: tuple[float, ...] = (0.7, 0.7, 0.7, 1.0),
) -> None:
    add_mesh(spec, name, *meshes.merge(shapes), hull=False)
    body.add_geom(
        name=name, type=_MESH, meshname=name, group=group, contype=0, conaffinity=0, mass=0,
        rgba=rgba,
    )  # fmt: skip


def _index(model: mujoco.MjModel, apartment: Apartment, pool: Mapping[str, int]) -> ModelIndex:
    bodies = {
        name: tuple(model.body(f"{name}:{k}").id for k in range(count))
        for name, count in sorted(pool.items())
    }
    joints = [
        f"{piece.name}/{link.name}" for piece in apartment.furniture for link in piece.links[1:]
    ]
    joint_bodies = np.array([model.body(name).id for name in joints])
    markers: dict[str, tuple[int, np.ndarray, int]] = {}
    marker_of_body: dict[int, int] = {}
    for piece in apartment.furniture:
        for marker in piece.markers:
            joint = joints.index(f"{piece.name}/{marker.link}")
            marker_of_body[int(joint_bodies[joint])] = len(markers)
            equality = model.equality(f"marker/{marker.name}").id
            # The compiler derives the second anchor from the rest pose; ours are both given.
            model.eq_data[equality, :3] = model.site("ee").pos
            model.eq_data[equality, 3:6] = marker.offset
            markers[marker.name] = (joint, np.array(marker.offset), equality)
    objects = {b for ids in bodies.values() for b in ids}
    owner = model.geom_bodyid
    robot_bodies = [b for b in range(model.nbody) if model.body_rootid[b] == model.body("robot").id]
    base = [model.joint(name).id for name in BASE_JOINTS]
    arm = [model.joint(name).id for name in fetch.ARM_JOINTS]
    return ModelIndex(
        pool=bodies,
        weld={b: model.equality(f"suction/{model.body(b).name}").id for b in objects},
        roots={piece.name: model.body(piece.name).id for piece in apartment.furniture},
        joint_names=tuple(joints),
        joint_ids=np.array([model.joint(name).id for name in joints]),
        joint_bodies=joint_bodies,
        markers=markers,
        robot_geom=np.isin(owner, robot_bodies),
        object_of_geom=np.array([b if b in objects else -1 for b in owner]),
        marker_of_geom=np.array([marker_of_body.get(int(b), -1) for b in owner]),
        suction_geom=model.geom("suction").id,
        gripper_body=model.body("gripper_link").id,
        ee_site=model.site("ee").id,
        base_qpos=model.jnt_qposadr[base],
        base_dof=model.jnt_dofadr[base],
        arm_qpos=model.jnt_qposadr[arm],
        arm_dof=model.jnt_dofadr[arm],
    )
