"""Fetch for MuJoCo: meshes of ``gymnasium-robotics``, a suction cup, a base for flat floors.

Torso and head are fixed at the contract's values, which leaves the seven arm joints.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from tpsrl.robot import fetch

GROUP_VISUAL = 2
"""Geom group of what cameras see."""
GROUP_COLLISION = 3
"""Geom group of what only touches."""

BIT_STATIC, BIT_OBJECT, BIT_ROBOT, BIT_CUP = 1, 2, 4, 8
"""Collision bits of furniture and walls, movable objects, the robot, and its suction cup."""

_GREY = (0.36, 0.36, 0.38, 1.0)
_WHITE = (0.85, 0.86, 0.88, 1.0)
_BLUE = (0.09, 0.5, 0.77, 1.0)

_TORSO_Z = 0.3774
_TIP = 0.08
"""Tip of the suction cup ahead of the gripper link (``ee_offset`` of habitat-lab), m."""


@dataclass(frozen=True)
class _ArmLink:
    name: str
    pos: tuple[float, float, float]
    axis: tuple[float, float, float]
    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float]
    rgba: tuple[float, float, float, float]
    gain: float
    effort: float


BASE_JOINTS = ("base_x", "base_y", "base_yaw")
_BASE_MASS = 106.0
_BASE_INERTIA = (3.5, 3.5, 2.5)
"""Of everything but the arm, wheels, torso and head included; kg and kg m^2."""

# Masses, inertias and joint frames are those of the public Fetch description; efforts are its
# joint limits, the first three times as much: with its own 33.82 N m what the arm leans on folds it
# aside, and a fridge's door is not pushed shut (docs/force.md). Gains were chosen for a lag of
# about 0.04 rad at full speed.
# fmt: off
_ARM = (
    _ArmLink("shoulder_pan", (0.0326, 0.0, 0.726), (0, 0, 1), 2.5587,
             (0.0927, -0.0056, 0.0564), (0.009, 0.0086, 0.0041), _WHITE, 900.0, 101.46),
    _ArmLink("shoulder_lift", (0.117, 0.0, 0.06), (0, 1, 0), 2.6615,
             (0.1432, 0.0072, -0.0001), (0.0116, 0.0112, 0.0023), _BLUE, 1200.0, 131.76),
    _ArmLink("upperarm_roll", (0.219, 0.0, 0.0), (1, 0, 0), 2.3311,
             (0.1165, 0.0014, 0.0), (0.0047, 0.0045, 0.0019), _WHITE, 600.0, 76.94),
    _ArmLink("elbow_flex", (0.133, 0.0, 0.0), (0, 1, 0), 2.1299,
             (0.1279, 0.0073, 0.0), (0.0086, 0.0084, 0.002), _BLUE, 800.0, 66.18),
    _ArmLink("forearm_roll", (0.197, 0.0, 0.0), (1, 0, 0), 1.6563,
             (0.1097, -0.0266, 0.0), (0.0035, 0.0031, 0.0015), _WHITE, 300.0, 29.35),
    _ArmLink("wrist_flex", (0.1245, 0.0, 0.0), (0, 1, 0), 1.725,
             (0.0882, 0.0009, -0.0001), (0.0042, 0.0042, 0.0018), _BLUE, 300.0, 25.7),
    _ArmLink("wrist_roll", (0.1385, 0.0, 0.0), (1, 0, 0), 0.1354,
             (0.0095, 0.0004, -0.0002), (0.0004, 0.0004, 0.0004), _GREY, 100.0, 7.36),
)
# fmt: on

_GRIPPER_POS = (0.1664, 0.0, 0.0)


def mesh_directory() -> Path:
    """Return the folder of Fetch's STL files, found without importing the package.

    Raises:
        FileNotFoundError: ``gymnasium-robotics`` is not installed.
    """
    spec = importlib.util.find_spec("gymnasium_robotics")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "Fetch's meshes come from the package gymnasium-robotics, which is not installed; "
            "run 'pip install gymnasium-robotics'."
        )
    return Path(spec.origin).parent / "envs" / "assets" / "stls" / "fetch"


def add_fetch(spec: mujoco.MjSpec, *, driven: bool = False) -> None:
    """Add Fetch to a model: body ``robot``, arm joints, actuators, site ``ee``, cameras.

    The cup is geom ``suction`` on body ``gripper_link``; its tip is site ``ee``, whose x axis
    points out of the cup. Geoms of the robot carry ``BIT_ROBOT`` as contype and no conaffinity,
    so the robot never collides with itself; the cup and its stem carry ``BIT_CUP`` instead, so that
    a held handle can stop colliding with the cup alone.

    Args:
        spec: the model under construction.
        driven: the base has the joints ``BASE_JOINTS``; otherwise it is fixed to the world.

    Raises:
        FileNotFoundError: the package with the meshes is missing.
    """
    spec.compiler.degree = False
    directory = mesh_directory()
    base = spec.worldbody.add_body(name="robot")
    if driven:
        _base_joints(base)
    torso = (-0.0869, 0.0, _TORSO_Z + fetch.TORSO_HEIGHT)
    head = np.add(torso, (0.0531, 0.0, 0.603))
    _mesh(spec, base, directory, "base_link_collision", (0, 0, 0), _GREY)
    _mesh(spec, base, directory, "torso_fixed_link", (-0.0869, 0.0, _TORSO_Z), _BLUE)
    _mesh(spec, base, directory, "torso_lift_link_collision", torso, _WHITE)
    _mesh(spec, base, directory, "head_pan_link_collision", head, _GREY)
    _mesh(spec, base, directory, "head_tilt_link_collision", head + (0.1425, 0, 0.058), _BLUE)
    parent, offset = base, np.array([0.0, 0.0, fetch.TORSO_HEIGHT])
    for link in _ARM:
        parent = _arm_link(spec, parent, directory, link, offset)
        offset = np.zeros(3)
    _gripper(spec, parent, directory)
    _cameras(base)


def _base_joints(base: mujoco.MjsBody) -> None:
    base.explicitinertial = True
    base.mass, base.ipos, base.inertia = _BASE_MASS, (0.0, 0.0, 0.35), _BASE_INERTIA
    kind = mujoco.mjtJoint
    base.add_joint(name=BASE_JOINTS[0], type=kind.mjJNT_SLIDE, axis=(1, 0, 0))
    base.add_joint(name=BASE_JOINTS[1], type=kind.mjJNT_SLIDE, axis=(0, 1, 0))
    base.add_joint(name=BASE_JOINTS[2], type=kind.mjJNT_HINGE, axis=(0, 0, 1))


def _mesh(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    directory: Path,
    name: str,
    pos: np.ndarray | tuple[float, ...],
    rgba: tuple[float, ...],
) -> None:
    spec.add_mesh(
        name=name,
        file=str(directory / f"{name}.stl"),
        maxhullvert=40,
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX,
    )
    body.add_geom(
        name=f"robot/{name}",
        type=mujoco.mjtGeom.mjGEOM_MESH,
        meshname=name,
        pos=pos,
        rgba=rgba,
        group=GROUP_VISUAL,
        contype=BIT_ROBOT,
        conaffinity=0,
        mass=0,
        friction=(0.6, 0.005, 0.0001),
    )


def _arm_link(
    spec: mujoco.MjSpec,
    parent: mujoco.MjsBody,
    directory: Path,
    link: _ArmLink,
    offset: np.ndarray,
) -> mujoco.MjsBody:
    body = parent.add_body(name=f"{link.name}_link", pos=np.add(link.pos, offset), gravcomp=1.0)
    body.explicitinertial = True
    body.mass, body.ipos, body.inertia = link.mass, link.com, link.inertia
    joint = f"{link.name}_joint"
    index = fetch.ARM_JOINTS.index(joint)
    lower, upper = fetch.ARM_LOWER[index], fetch.ARM_UPPER[index]
    body.add_joint(
        name=joint,
        type=mujoco.mjtJoint.mjJNT_HINGE,
        axis=link.axis,
        limited=int(np.isfinite(lower)),
        range=(lower, upper) if np.isfinite(lower) else (0, 0),
        armature=0.1,
    )
    _mesh(spec, body, directory, f"{link.name}_link_collision", (0, 0, 0), link.rgba)
    actuator = spec.add_actuator(
        name=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        target=joint,
        forcelimited=1,
        forcerange=(-link.effort, link.effort),
    )
    actuator.set_to_position(kp=link.gain, kv=0.1 * link.gain)
    return body


def _gripper(spec: mujoco.MjSpec, wrist: mujoco.MjsBody, directory: Path) -> None:
    body = wrist.add_body(name="gripper_link", pos=_GRIPPER_POS, gravcomp=1.0)
    body.explicitinertial = True
    body.mass, body.ipos, body.inertia = 1.5175, (-0.09, -0.0001, -0.0017), (0.0024, 0.0019, 0.0013)
    _mesh(spec, body, directory, "gripper_link", (0, 0, 0), _GREY)
    stem_end = _TIP - 0.03
    along_x = (0.7071067811865476, 0.0, 0.7071067811865476, 0.0)
    body.add_geom(
        name="robot/suction_stem",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=(0.014, (stem_end + 0.032) / 2, 0),
        pos=((stem_end - 0.032) / 2, 0, 0),
        quat=along_x,
        rgba=_WHITE,
        group=GROUP_VISUAL,
        contype=BIT_CUP,
        conaffinity=0,
        mass=0,
    )
    # The gap lets the cup sense a contact a little before it pushes.
    body.add_geom(
        name="suction",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=(0.024, 0.015, 0),
        pos=(_TIP - 0.015, 0, 0),
        quat=along_x,
        rgba=(0.15, 0.15, 0.16, 1.0),
        group=GROUP_VISUAL,
        contype=BIT_CUP,
        conaffinity=0,
        mass=0,
        margin=0.004,
        gap=0.004,
    )
    body.add_site(name="ee", pos=(_TIP, 0, 0), size=(0.005, 0.005, 0.005), group=5)
    body.add_camera(name="arm", pos=(-0.02, 0, 0.07), quat=_look((1.0, 0.0, -0.25)), fovy=75)


def _cameras(base: mujoco.MjsBody) -> None:
    forward = fetch.HEAD_CAMERA_TARGET - fetch.HEAD_CAMERA_POSITION
    base.add_camera(
        name="head",
        pos=fetch.HEAD_CAMERA_POSITION,
        quat=_look(forward),
        fovy=float(np.degrees(fetch.HEAD_CAMERA_HFOV)),
    )
    eye = np.array([-1.25, -0.85, 2.1])
    base.add_camera(
        name="third_person", pos=eye, quat=_look(np.array([0.55, 0.05, 0.75]) - eye), fovy=62
    )


def _look(forward: np.ndarray | tuple[float, ...]) -> np.ndarray:
    """Return the quaternion of a camera (looking along its -z, y up) that looks ``forward``."""
    back = -np.asarray(forward, dtype=float)
    back /= np.linalg.norm(back)
    right = np.cross((0.0, 0.0, 1.0), back)
    right /= np.linalg.norm(right)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(back, right), back], axis=1).ravel())
    return quat
