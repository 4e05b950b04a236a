"""The driven base in compiled code: it stays in free space, and gives way to what it meets."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from tpsrl.compiled import compiled
from tpsrl.sim.clamp import clamp
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.memory import floats, numbers
from tpsrl.sim.mujoco.states import COUNTERS, FORCE
from tpsrl.sim.mujoco.table import (
    ARMATURE,
    BASE,
    BODIES,
    CLEARANCE,
    COLUMNS,
    COUNT,
    DATA,
    DOF,
    EDGES,
    FRAME,
    FRICTION,
    GRASP,
    LENGTHS,
    MODEL,
    NQ,
    NV,
    OUTLINES,
    PLACE,
    PLACES,
    QPOS,
    QVEL,
    ROWS,
    SIDES,
    STARTS,
    TAILS,
    TURNS,
    XPOS,
    XQUAT,
)
from tpsrl.sim.mujoco.touch import force, overlap

DRIVE_FORCE = 200.0
"""What the drive holds against before the base slides, N; about 0.2 of Fetch's weight."""
DRIVE_TORQUE = 60.0
"""The same for turning, N m."""
PUSH_FORCE, PUSH_DEPTH = 350.0, 0.03
"""A motion of the base that would press the robot harder on or deeper into anything is shortened,
N and m."""
LOCKED = 1e6
"""Inertia of a base that nothing touches, kg and kg m^2: the arm's swings do not move it."""

_PARTS = 32
"""Into how many parts a motion is divided to seek the longest that does not press."""
_VELOCITY = int(mujoco.mjtStage.mjSTAGE_VEL)


@compiled
def clamped(table: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return how far the base gets on the way to a (2,) point."""
    start, sides = floats(table[BASE], 1, 3)[0, :2], table[SIDES]
    return clamp(
        start,
        end,
        floats(table[CLEARANCE], table[ROWS], table[COLUMNS]),
        floats(table[FRAME], 1, 6)[0],
        floats(table[TAILS], sides, 2),
        floats(table[EDGES], sides, 2),
        floats(table[LENGTHS], 1, sides)[0],
        numbers(table[STARTS], table[OUTLINES] + 1),
    )


@compiled
def carried_pose(table: np.ndarray) -> np.ndarray:
    """Return the (7,) pose of the object that is held, anything if there is none."""
    pose, held = np.zeros(7), numbers(table[GRASP], 1)[0]
    if held >= 0:
        pose[:3] = floats(table[XPOS], held + 1, 3)[held]
        pose[3:] = floats(table[XQUAT], held + 1, 4)[held]
    return pose


@compiled
def move(
    table: np.ndarray, x: float, y: float, yaw: float, was: np.ndarray, carried: np.ndarray
) -> None:
    """Teleport the base; what is held comes along.

    Args:
        table: of the world.
        x: where to, m.
        y: where to, m.
        yaw: where to, rad.
        was: (3,) a pose of the base.
        carried: (7,) the pose of what is held at that pose.
    """
    write_base(table, x, y, yaw)
    held = numbers(table[GRASP], 1)[0]
    if held < 0:
        return
    turn = yaw - was[2]
    cos, sin = math.cos(turn), math.sin(turn)
    along, across = carried[0] - was[0], carried[1] - was[1]
    first = numbers(table[PLACES], table[BODIES])[held]
    place = floats(table[QPOS], 1, table[NQ])[0, first : first + 7]
    place[0] = x + cos * along - sin * across
    place[1] = y + sin * along + cos * across
    place[2] = carried[2]
    c, s = math.cos(turn / 2), math.sin(turn / 2)
    place[3], place[6] = c * carried[3] - s * carried[6], c * carried[6] + s * carried[3]
    place[4], place[5] = c * carried[4] - s * carried[5], c * carried[5] + s * carried[4]
    first = numbers(table[TURNS], table[BODIES])[held]
    floats(table[QVEL], 1, table[NV])[0, first : first + 6] = 0.0


@compiled
def write_base(table: np.ndarray, x: float, y: float, yaw: float) -> None:
    """Put the base somewhere else, at rest."""
    base = floats(table[BASE], 1, 3)[0]
    base[0], base[1], base[2] = x, y, (yaw + np.pi) % (2 * np.pi) - np.pi
    put_base(table)


@compiled
def put_base(table: np.ndarray) -> None:
    """Put MuJoCo's base where the base is, at rest."""
    place, dof = table[PLACE], table[DOF]
    floats(table[QPOS], 1, table[NQ])[0, place : place + 3] = floats(table[BASE], 1, 3)[0]
    floats(table[QVEL], 1, table[NV])[0, dof : dof + 3] = 0.0


@compiled
def let_give_way(table: np.ndarray, yes: bool) -> None:
    """Hold the base by the drive's force alone, or as if it stood on rails."""
    dof = table[DOF]
    inertia = floats(table[ARMATURE], 1, table[NV])[0]
    friction = floats(table[FRICTION], 1, table[NV])[0]
    for k in range(3):
        most = DRIVE_FORCE if k < 2 else DRIVE_TORQUE
        inertia[dof + k], friction[dof + k] = (0.0, most) if yes else (LOCKED, 0.0)


@compiled
def meet(table: np.ndarray, was: np.ndarray, carried: np.ndarray, moved: bool) -> None:
    """Let the base give way in this step, its motion so far shortened where it presses.

    Args:
        table: of the world, which has moved and where positions are computed.
        was: (3,) the pose of the base before it moved.
        carried: (7,) the pose of what is held then.
        moved: whether it has moved at all.
    """
    let_give_way(table, True)
    native.mj_step1(table[MODEL], table[DATA])
    if not moved:
        return
    pressure, deepest = _pressure(table, PUSH_DEPTH), PUSH_DEPTH
    if not pressure > 1.0:
        return
    motion = floats(table[BASE], 1, 3)[0] - was
    motion[2] = (motion[2] + np.pi) % (2 * np.pi) - np.pi
    if overlap(table) > PUSH_DEPTH:
        move(table, was[0], was[1], was[2], was, carried)
        native.mj_kinematics(table[MODEL], table[DATA])
        native.mj_collision(table[MODEL], table[DATA])
        deepest = overlap(table)
        if deepest > PUSH_DEPTH:  # what is stuck may back out
            _try(table, 1.0, motion, was, carried)
            pressure = _pressure(table, deepest)
            if not pressure > 1.0:
                return
        deepest = max(deepest, PUSH_DEPTH)
    _shorten(table, motion, was, carried, deepest, pressure)


@compiled
def _shorten(
    table: np.ndarray,
    motion: np.ndarray,
    was: np.ndarray,
    carried: np.ndarray,
    deepest: float,
    pressure: float,
) -> None:
    """Move by the longest part of a motion that does not press.

    Sought where a straight line through the pressures at both ends would be 1, in the middle where
    that has gone to the same side twice.

    Args:
        table: of the world.
        motion: (3,) of the base.
        was: (3,) the pose of the base before it.
        carried: (7,) the pose of what is held then.
        deepest: the depth to which it may press, m.
        pressure: of the whole motion.
    """
    before = floats(table[COUNT], 1, COUNTERS)[0, FORCE]
    low, low_pressure = 0, min(before / PUSH_FORCE, 0.9)
    high, high_pressure = _PARTS, pressure
    here, side = _PARTS, 0
    while high - low > 1:
        step = int((1.0 - low_pressure) / (high_pressure - low_pressure) * (high - low))
        here = (low + high) // 2 if abs(side) > 1 else min(max(low + step, low + 1), high - 1)
        _try(table, here / _PARTS, motion, was, carried)
        pressure = _pressure(table, deepest)
        if pressure > 1.0:
            high, high_pressure, side = here, pressure, max(side, 0) + 1
        else:
            low, low_pressure, side = here, pressure, min(side, 0) - 1
    if here != low:
        _try(table, low / _PARTS, motion, was, carried)


@compiled
def _try(
    table: np.ndarray, part: float, motion: np.ndarray, was: np.ndarray, carried: np.ndarray
) -> None:
    """Compute what follows from positions where the base has moved by a part of its motion."""
    there = was + part * motion
    move(table, there[0], there[1], there[2], was, carried)
    native.mj_step1(table[MODEL], table[DATA])


@compiled
def _pressure(table: np.ndarray, deepest: float) -> float:
    """Return how deep the robot is in anything, or how hard it presses, beside what it may.

    It may press as hard as it did before. The force is not looked at where it is too deep.
    """
    depth = overlap(table) / deepest
    if depth > 1.0:
        return depth
    native.mj_forward_skip(table[MODEL], table[DATA], _VELOCITY, 1)
    return force(table) / max(PUSH_FORCE, floats(table[COUNT], 1, COUNTERS)[0, FORCE])
