"""A world to be looked at: recorded states put back into it, and the solids it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.scenes.description import Shape
from tpsrl.sim.mujoco import meshes
from tpsrl.sim.mujoco.model import GROUP_COLOUR, ModelIndex
from tpsrl.sim.mujoco.objects import GROUP_BOTH, PRIMITIVE
from tpsrl.sim.mujoco.suction import Suction

_KINDS = {int(kind): name for name, kind in PRIMITIVE.items()}


@dataclass(frozen=True)
class Poses:
    """Where everything of one world is: what decides a picture of it.

    Attributes:
        base: (3,) float64 x, y, yaw of the robot.
        arm: (7,) float64, rad.
        joints: (J,) float64 furniture joints, m or rad.
        objects: (O, 7) float64 positions and quaternions of the episode's objects.
    """

    base: np.ndarray
    arm: np.ndarray
    joints: np.ndarray
    objects: np.ndarray


@dataclass(frozen=True)
class Solid:
    """A mesh of one colour that moves with a body.

    Attributes:
        body: ``"object/3"`` (index in the episode), ``"fridge/top_door"``, ``"walls"``.
        part: of that body, e.g. ``"walls"``.
        vertices: (v, 3) float32 in the frame of the body, m.
        faces: (f, 3) int32.
        rgba: colour, 0 to 1.
    """

    body: str
    part: str
    vertices: np.ndarray
    faces: np.ndarray
    rgba: tuple[float, float, float, float]


class Staged(Protocol):
    """What of a world is needed here; see ``tpsrl.sim.mujoco.world.World``."""

    data: mujoco.MjData
    index: ModelIndex
    suction: Suction
    base: np.ndarray
    object_bodies: np.ndarray
    episode: Episode | None

    @property
    def model(self) -> mujoco.MjModel: ...  # noqa: D102


def place(world: Staged, poses: Poses) -> None:
    """Put everything where it was; the robot holds nothing and nothing moves."""
    model, data, index = world.model, world.data, world.index
    world.suction.reset()
    mujoco.mj_resetData(model, data)  # and wakes everything, so that nothing stays where it slept
    data.qpos[index.base_qpos] = poses.base
    data.qpos[index.arm_qpos] = data.ctrl[:] = poses.arm
    data.qpos[model.jnt_qposadr[index.joint_ids]] = poses.joints
    first = model.jnt_qposadr[model.body_jntadr[world.object_bodies]]
    data.qpos[first[:, None] + np.arange(7)] = poses.objects[: len(first)]
    world.base[:] = poses.base  # compiled code knows where it stands
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)


def solids(world: Staged) -> list[Solid]:
    """Return the robot, the furniture and the episode's objects as meshes, one a colour."""
    model, names = world.model, _names(world)
    objects = () if world.episode is None else world.episode.objects
    types = {f"object/{k}": item.type for k, item in enumerate(objects)}
    seen = np.isin(model.geom_group, (GROUP_BOTH, GROUP_COLOUR)) & (model.geom_rgba[:, 3] > 0)
    found: dict[tuple[str, str, tuple[float, ...]], list[tuple[np.ndarray, np.ndarray]]] = {}
    for geom in np.flatnonzero(seen):
        body = names.get(int(model.geom_bodyid[geom]))
        if body is not None:
            part = types.get(body, model.geom(geom).name.partition("#")[0])
            colour = tuple(model.geom_rgba[geom].tolist())
            found.setdefault((body, part, colour), []).append(_triangles(model, int(geom)))
    return [Solid(body, part, *_joined(parts), rgba) for (body, part, rgba), parts in found.items()]  # type: ignore[arg-type]


def solid_poses(world: Staged) -> dict[str, np.ndarray]:
    """Return the (7,) pose of every body that :func:`solids` names, as its data has it."""
    data = world.data
    return {
        name: np.concatenate([data.xpos[body], data.xquat[body]])
        for body, name in _names(world).items()
    }


def _names(world: Staged) -> dict[int, str]:
    """Return the bodies of a picture; those that the episode does not use are none."""
    model, index = world.model, world.index
    pool = {body for bodies in index.pool.values() for body in bodies}
    robot = {int(b) for b in np.unique(model.geom_bodyid[index.robot_geom])}
    names = {
        body: ("robot/" if body in robot else "") + model.body(body).name
        for body in range(model.nbody)
        if body not in pool
    }
    return names | {int(b): f"object/{k}" for k, b in enumerate(world.object_bodies)}


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0] + [len(vertices) for vertices, _ in parts])
    faces = [faces + start for (_, faces), start in zip(parts, first, strict=False)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces)


def _triangles(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the triangles of a geom in the frame of its body."""
    kind = int(model.geom_type[geom])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        first = model.mesh_vertadr[mesh]
        vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
        first = model.mesh_faceadr[mesh]
        faces = model.mesh_face[first : first + model.mesh_facenum[mesh]]
    else:
        vertices, faces = meshes.merge([Shape(_KINDS[kind], tuple(model.geom_size[geom]))])  # type: ignore[arg-type]
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    placed = vertices @ turn.reshape(3, 3).T + model.geom_pos[geom]
    return placed.astype(np.float32), faces.astype(np.int32)
