"""The state of all worlds, read in one compiled call."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import mujoco
import numpy as np

from tpsrl.compiled import compiled
from tpsrl.robot.fetch import ARM_DOF
from tpsrl.sim.door import SimState
from tpsrl.sim.mujoco.memory import Addresses, floats, numbers
from tpsrl.sim.mujoco.model import ModelIndex
from tpsrl.sim.mujoco.suction import Suction

STEPS, FORCE, FORCE_SUM, VIOLATION, DIVERGED, COUNTERS = range(6)


class Counters:
    """What a control step adds up.

    Attributes:
        values: (``COUNTERS``,) float64, where compiled code finds it.
        divergences: every time the world diverged: episode, layout, seed and step.
    """

    def __init__(self) -> None:
        self.values = np.zeros(COUNTERS)
        self.divergences: list[dict[str, object]] = []


def addresses(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    index: ModelIndex,
    suction: Suction,
    own: Sequence[np.ndarray],
) -> Addresses:
    """Return where :func:`gather` finds the state of a world.

    Args:
        model: of it.
        data: of it.
        index: ids of its parts.
        suction: of it.
        own: (3,) float64 pose of the base, ``Counters.values`` and int32 how many objects the
            episode has, followed by their bodies.
    """
    lists = (
        index.arm_qpos,
        index.arm_dof,
        model.jnt_qposadr[index.joint_ids],
        index.joint_bodies,
        suction.marker_bodies,
    )
    return Addresses(
        [
            data.qpos,
            data.qvel,
            data.ctrl,
            data.xpos,
            data.xquat,
            data.xmat,
            data.site_xpos[index.ee_site],
            data.site_xmat[index.ee_site],
            *(np.asarray(ids, dtype=np.int32) for ids in lists),
            np.ascontiguousarray(suction.marker_offsets),
            *own,
            suction.grasp,
        ],
        sizes=(model.nq, model.nv, model.nbody),
    )


def gather(
    tables: np.ndarray,
    joints: int,
    markers: int,
    last: SimState | None = None,
    changed: Collection[int] = (),
) -> SimState:
    """Return the state of worlds; it does not change later.

    Args:
        tables: (n, k) of :func:`addresses`.
        joints: of their furniture.
        markers: of it.
        last: an earlier state, of the same worlds.
        changed: those that have changed since.
    """
    rows, most = np.arange(len(tables)), int(_most_objects(tables))
    if last is None or last.object_pos.shape[1] != most:
        state = _empty(len(tables), most, joints, markers)
    else:
        whole = len(changed) == len(tables)
        copy = np.empty_like if whole else np.copy
        names = SimState.__dataclass_fields__
        state = SimState(**{name: copy(getattr(last, name)) for name in names})
        rows = rows if whole else np.array(sorted(changed))
    _read(
        rows, tables, state.base_pose,
        state.arm_qpos, state.arm_qvel, state.arm_target, state.ee_pos, state.ee_quat,
        state.held_object, state.held_marker, state.hold_violation, state.object_pos,
        state.object_quat, state.joint_pos, state.link_pos, state.link_quat, state.marker_pos,
        state.force, state.force_sum, state.step_count, state.diverged,
    )  # fmt: skip
    return state


def _empty(n: int, most: int, joints: int, markers: int) -> SimState:
    whole = {"held_object": int, "held_marker": int, "step_count": int}
    truth = {"hold_violation": bool, "diverged": bool}
    shapes = {
        "base_pose": (3,), "arm_qpos": (ARM_DOF,), "arm_qvel": (ARM_DOF,),
        "arm_target": (ARM_DOF,), "ee_pos": (3,), "ee_quat": (4,), "object_pos": (most, 3),
        "object_quat": (most, 4), "joint_pos": (joints,), "link_pos": (joints, 3),
        "link_quat": (joints, 4), "marker_pos": (markers, 3), "force": (), "force_sum": (),
    }  # fmt: skip
    plain = {name: np.full((n, *shape), np.nan) for name, shape in shapes.items()}
    kinds = {**whole, **truth}
    return SimState(**plain, **{name: np.zeros(n, dtype=kind) for name, kind in kinds.items()})


@compiled
def _most_objects(tables: np.ndarray) -> int:
    most = 0
    for i in range(len(tables)):
        most = max(most, numbers(tables[i, 16], 1)[0])
    return most


@compiled
def _read(
    rows: np.ndarray,
    tables: np.ndarray,
    base_pose: np.ndarray,
    arm_qpos: np.ndarray,
    arm_qvel: np.ndarray,
    arm_target: np.ndarray,
    ee_pos: np.ndarray,
    ee_quat: np.ndarray,
    held_object: np.ndarray,
    held_marker: np.ndarray,
    hold_violation: np.ndarray,
    object_pos: np.ndarray,
    object_quat: np.ndarray,
    joint_pos: np.ndarray,
    link_pos: np.ndarray,
    link_quat: np.ndarray,
    marker_pos: np.ndarray,
    force: np.ndarray,
    force_sum: np.ndarray,
    step_count: np.ndarray,
    diverged: np.ndarray,
) -> None:
    joints, markers, freedoms = joint_pos.shape[1], marker_pos.shape[1], arm_qpos.shape[1]
    for i in rows:
        table = tables[i]
        qpos, qvel = floats(table[0], table[-3], 1), floats(table[1], table[-2], 1)
        targets = floats(table[2], freedoms, 1)
        xpos, xquat = floats(table[3], table[-1], 3), floats(table[4], table[-1], 4)
        xmat = floats(table[5], table[-1], 9)
        ee_pos[i] = floats(table[6], 1, 3)[0]
        _quat_of(ee_quat[i], floats(table[7], 1, 9)[0])
        _upright(ee_quat[i], ee_quat[i])
        where, turns = numbers(table[8], freedoms), numbers(table[9], freedoms)
        for k in range(freedoms):
            arm_qpos[i, k], arm_qvel[i, k] = qpos[where[k], 0], qvel[turns[k], 0]
            arm_target[i, k] = targets[k, 0]
        base_pose[i] = floats(table[14], 1, 3)[0]
        count = floats(table[15], 1, COUNTERS)[0]
        force[i], force_sum[i], step_count[i] = count[FORCE], count[FORCE_SUM], count[STEPS]
        hold_violation[i], diverged[i] = count[VIOLATION] != 0.0, count[DIVERGED] != 0.0
        objects = numbers(table[16], 1)[0]
        bodies, grasp = numbers(table[16], 1 + objects)[1:], numbers(table[17], 2)
        held_object[i], held_marker[i] = -1, grasp[1]
        for k in range(object_pos.shape[1]):
            if k < objects:
                body = bodies[k]
                if body == grasp[0]:
                    held_object[i] = k
                object_pos[i, k] = xpos[body]
                _upright(object_quat[i, k], xquat[body])
            else:
                object_pos[i, k] = object_quat[i, k] = np.nan
        where, links = numbers(table[10], joints), numbers(table[11], joints)
        for k in range(joints):
            joint_pos[i, k], link_pos[i, k] = qpos[where[k], 0], xpos[links[k]]
            _upright(link_quat[i, k], xquat[links[k]])
        links, offsets = numbers(table[12], markers), floats(table[13], markers, 3)
        for k in range(markers):
            turn, offset = xmat[links[k]], offsets[k]
            for j in range(3):
                # In this order, as NumPy adds in Suction.marker_positions.
                outer = turn[3 * j] * offset[0] + turn[3 * j + 2] * offset[2]
                marker_pos[i, k, j] = xpos[links[k], j] + (outer + turn[3 * j + 1] * offset[1])


@compiled
def _upright(out: np.ndarray, quat: np.ndarray) -> None:
    """Write a quaternion so that its first value is not negative."""
    sign = -1.0 if quat[0] < 0.0 else 1.0
    for k in range(4):
        out[k] = sign * quat[k]


@compiled
def _quat_of(quat: np.ndarray, m: np.ndarray) -> None:
    """Write the quaternion of a (9,) rotation matrix, as MuJoCo's ``mju_mat2Quat`` does."""
    if m[0] + m[4] + m[8] > 0.0:
        w = 0.5 * np.sqrt(1.0 + m[0] + m[4] + m[8])
        x, y, z = 0.25 * (m[7] - m[5]) / w, 0.25 * (m[2] - m[6]) / w, 0.25 * (m[3] - m[1]) / w
    elif m[0] > m[4] and m[0] > m[8]:
        x = 0.5 * np.sqrt(1.0 + m[0] - m[4] - m[8])
        w, y, z = 0.25 * (m[7] - m[5]) / x, 0.25 * (m[1] + m[3]) / x, 0.25 * (m[2] + m[6]) / x
    elif m[4] > m[8]:
        y = 0.5 * np.sqrt(1.0 - m[0] + m[4] - m[8])
        w, x, z = 0.25 * (m[2] - m[6]) / y, 0.25 * (m[1] + m[3]) / y, 0.25 * (m[5] + m[7]) / y
    else:
        z = 0.5 * np.sqrt(1.0 - m[0] - m[4] + m[8])
        w, x, y = 0.25 * (m[3] - m[1]) / z, 0.25 * (m[2] + m[6]) / z, 0.25 * (m[5] + m[7]) / z
    length = np.sqrt(w * w + x * x + y * y + z * z)
    if abs(length - 1.0) > 1e-15:
        w, x, y, z = w / length, x / length, y / length, z / length
    quat[0], quat[1], quat[2], quat[3] = w, x, y, z


@compiled
def is_broken(speeds: np.ndarray, places: np.ndarray, most: float) -> bool:
    """Return whether anything is faster than anything real, or nowhere."""
    broken = False
    for speed in speeds:
        broken = broken or not abs(speed) < most
    for place in places:
        broken = broken or not np.isfinite(place)
    return broken
