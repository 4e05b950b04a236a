"""The control step of all worlds of a process, in compiled code.

It calls MuJoCo itself and comes back only where Python has something to do: a picture to take, a
thing to grasp or to let go.
"""

from __future__ import annotations

import math

import numpy as np

from tpsrl.compiled import compiled
from tpsrl.robot import fetch
from tpsrl.sim.door import ACTION_BASE, ACTION_GRIP
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.driving import (
    carried_pose,
    clamped,
    let_give_way,
    meet,
    move,
    put_base,
    write_base,
)
from tpsrl.sim.mujoco.memory import floats, numbers, words
from tpsrl.sim.mujoco.nearby import keep, keep_all
from tpsrl.sim.mujoco.shared import OWN, enter
from tpsrl.sim.mujoco.states import (
    COUNTERS,
    DIVERGED,
    FORCE,
    FORCE_SUM,
    STEPS,
    VIOLATION,
    is_broken,
)
from tpsrl.sim.mujoco.table import (
    ARMATURE,
    BASE,
    BODIES,
    COUNT,
    CTRL,
    DATA,
    DOF,
    GRASP,
    JACOBIAN,
    LINKS,
    MODEL,
    NQ,
    NV,
    OFFSETS,
    OWN_TABLE,
    PLACE,
    QPOS,
    QVEL,
    TIP,
    TURNS,
    XMAT,
    XPOS,
)
from tpsrl.sim.mujoco.touch import could_grasp, force, touches, touches_holding

MIN_FORCE = 20.0
"""Smaller increases of force are not accumulated, N (habitat-lab ``min_force``)."""
MAX_SPEED = 200.0
"""Faster than anything real: such a world has diverged. m/s or rad/s."""

OBJECT_SPEED, OBJECT_SPIN = 10.0, 50.0
"""Objects do not get faster, m/s and rad/s. A base that drives presses what it meets, or what the
cup holds, centimetres deep into other things; between two walls that throws a small object out of
the house, or spins it until the world breaks."""

DONE, BEGUN, ENDED = range(3)
"""Where :func:`advance` stops: behind the last world; in the middle of a world's step, where its
cup acts and its picture is taken; at its end, where something has come loose or gone wrong."""

_SUBSTEPS = fetch.PHYSICS_HZ // fetch.CONTROL_HZ
_FORWARD, _TURN = range(ACTION_BASE.start, ACTION_BASE.stop)
_LINEAR, _ANGULAR = fetch.BASE_DELTA_LINEAR, fetch.BASE_DELTA_ANGULAR
_ARM, _DELTA, _HOLD = fetch.ARM_DOF, fetch.ARM_DELTA, fetch.HOLD_THRESHOLD
_ROUNDING = 1e-9
"""Far more than the order in which one adds can make out in a distance, m."""


@compiled
def advance(
    tables: np.ndarray,
    near: np.ndarray,
    actions: np.ndarray,
    world: int,
    begun: bool,
    pause: bool,
) -> tuple[int, int]:
    """Carry out the control step of worlds, from one of them on.

    Args:
        tables: (n, k) of :class:`StepTable`.
        near: (n, l) of :class:`~tpsrl.sim.mujoco.nearby.Nearby`.
        actions: (n, 10) in [-1, 1].
        world: the first of them.
        begun: go on with it where this stopped with ``BEGUN``.
        pause: stop in the middle of every step.

    Returns:
        The world where it stops, and why: ``DONE``, ``BEGUN`` or ``ENDED``.
    """
    while world < len(tables):
        table = tables[world]
        if not begun:
            begin(table, near[world], actions[world])
            if pause or _cup_acts(table, actions[world, ACTION_GRIP]):
                return world, BEGUN
        begun = False
        if finish(table, near[world]):
            return world, ENDED
        world += 1
    return world, DONE


@compiled
def begin(table: np.ndarray, near: np.ndarray, action: np.ndarray) -> None:
    """Move the base and set the arm's targets; what depends on positions is then computed."""
    enter(words(table[OWN_TABLE], OWN))
    model, data = table[MODEL], table[DATA]
    floats(table[COUNT], 1, COUNTERS)[0, DIVERGED] = 0.0
    was, carried = floats(table[BASE], 1, 3)[0].copy(), carried_pose(table)
    forward, turn = action[_FORWARD] * _LINEAR, action[_TURN] * _ANGULAR
    if forward != 0.0 or turn != 0.0:
        end = np.empty(2)
        end[0], end[1] = was[0] + forward * math.cos(was[2]), was[1] + forward * math.sin(was[2])
        end = clamped(table, end)
        move(table, end[0], end[1], was[2] + turn, was, carried)
    keep(near)
    native.mj_step1(model, data)
    if touches(table):
        meet(table, was, carried, forward != 0.0 or turn != 0.0)
    targets = floats(table[CTRL], 1, _ARM)[0]
    for k in range(_ARM):
        targets[k] += action[k] * _DELTA


@compiled
def finish(table: np.ndarray, near: np.ndarray) -> bool:
    """Run the physics of a step that has begun; return whether Python has to look after it."""
    model, data = table[MODEL], table[DATA]
    for k in range(_SUBSTEPS):
        if k > 0:
            native.mj_step1(model, data)
        _keep_rows_dense(table)
        native.mj_step2(model, data)
        _calm(table)
    numbers(table[JACOBIAN], 1)[0] = native.AUTO
    keep_all(near)
    count = floats(table[COUNT], 1, COUNTERS)[0]
    count[STEPS] += 1.0
    gave_way = floats(table[ARMATURE], 1, table[NV])[0, table[DOF]] == 0.0
    let_give_way(table, False)
    speeds, places = floats(table[QVEL], 1, table[NV])[0], floats(table[QPOS], 1, table[NQ])[0]
    if is_broken(speeds, places, MAX_SPEED):
        count[DIVERGED] = 1.0
        return True
    if gave_way:
        place = table[PLACE]
        end = clamped(table, places[place : place + 2].copy())
        write_base(table, end[0], end[1], places[place + 2])
    else:
        put_base(table)
    native.mj_kinematics(model, data)
    before = count[FORCE]
    count[FORCE], count[VIOLATION] = force(table), 0.0
    increase = count[FORCE] - before
    count[FORCE_SUM] += increase if increase > MIN_FORCE else 0.0
    return _comes_loose(table)


@compiled
def _keep_rows_dense(table: np.ndarray) -> None:
    """Have the rows of constraints dense until the end of the step, if they have to be."""
    rows = numbers(table[JACOBIAN], 1)
    if rows[0] != native.DENSE and touches_holding(table):
        rows[0] = native.DENSE
        native.mj_step1(table[MODEL], table[DATA])


@compiled
def _calm(table: np.ndarray) -> None:
    """Slow down objects that are faster than they may be."""
    speeds, fast = floats(table[QVEL], 1, table[NV])[0], False
    for speed in speeds:
        fast = fast or abs(speed) > OBJECT_SPEED
    if not fast:
        return
    for first in numbers(table[TURNS], table[BODIES]):
        if first >= 0:
            for k in range(6):
                most = OBJECT_SPEED if k < 3 else OBJECT_SPIN
                speeds[first + k] = min(max(speeds[first + k], -most), most)


@compiled
def _cup_acts(table: np.ndarray, command: float) -> bool:
    """Return whether the cup grasps or lets go, as far as can be told here."""
    grasp = numbers(table[GRASP], 3)
    holds = grasp[0] >= 0 or grasp[1] >= 0
    if command < 0.0 or holds:
        return command < 0.0 and holds
    return could_grasp(table)


@compiled
def _comes_loose(table: np.ndarray) -> bool:
    """Return whether what the cup holds or has let go may be too far from it.

    Python then looks closely: it may not add in this order.
    """
    grasp = numbers(table[GRASP], 3)
    if grasp[2] > 0:
        return True
    if grasp[0] < 0 and grasp[1] < 0:
        return False
    gap = -floats(table[TIP], 1, 3)[0]
    if grasp[0] >= 0:
        gap += floats(table[XPOS], grasp[0] + 1, 3)[grasp[0]]
    else:
        link = numbers(table[LINKS], grasp[1] + 1)[grasp[1]]
        turn = floats(table[XMAT], link + 1, 9)[link]
        offset = floats(table[OFFSETS], grasp[1] + 1, 3)[grasp[1]]
        gap += floats(table[XPOS], link + 1, 3)[link]
        for k in range(3):
            for j in range(3):
                gap[k] += turn[3 * k + j] * offset[j]
    return math.sqrt(gap[0] * gap[0] + gap[1] * gap[1] + gap[2] * gap[2]) >= _HOLD - _ROUNDING
