"""What the robot touches and what the cup could grasp, in compiled code: contacts of a world."""

from __future__ import annotations

import numpy as np

from tpsrl.compiled import compiled
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.memory import floats, numbers
from tpsrl.sim.mujoco.table import (
    ALL_GEOMS,
    CONTACTS,
    CUP,
    DATA,
    FIRST,
    GEOMS,
    GRASP,
    GRASPABLE,
    MODEL,
    OWNERS,
    ROBOT,
    STRIDE,
)


@compiled
def touches(table: np.ndarray) -> bool:
    """Return whether the robot has contacts, the cup's within its sensing gap included."""
    found = False
    for k in range(_contacts(table)):
        found = found or _is_robots(table, k)
    return found


@compiled
def overlap(table: np.ndarray) -> float:
    """Return the depth of the deepest contact of the robot, m; 0 where it touches nothing."""
    deepest = 0.0
    for k in range(_contacts(table)):
        if _is_robots(table, k):
            deepest = max(deepest, -floats(table[FIRST] + k * table[STRIDE], 1, 1)[0, 0])
    return deepest


@compiled
def force(table: np.ndarray) -> float:
    """Return the largest normal force of all contacts of the robot, N."""
    largest, wrench = 0.0, np.zeros(6)
    for k in range(_contacts(table)):
        if _is_robots(table, k):
            native.mj_contact_force(table[MODEL], table[DATA], k, wrench.ctypes.data)
            largest = max(largest, wrench[0])
    return largest


@compiled
def could_grasp(table: np.ndarray) -> bool:
    """Return whether an object or a handle's link touches the cup or is in its sensing gap."""
    cup, all_geoms = table[CUP], table[ALL_GEOMS]
    graspable = numbers(table[GRASPABLE], all_geoms)
    for k in range(_contacts(table)):
        geoms = _geoms(table, k)
        if (geoms[0] == cup and graspable[geoms[1]] != 0) or (
            geoms[1] == cup and graspable[geoms[0]] != 0
        ):
            return True
    return False


@compiled
def touches_holding(table: np.ndarray) -> bool:
    """Return whether the cup holds something and it, or the robot, touches anything.

    Of a handle: whether there is any contact. What lies in its drawer touches the drawer.
    """
    grasp = numbers(table[GRASP], 2)
    if grasp[1] >= 0:
        return _contacts(table) > 0
    if grasp[0] < 0:
        return False
    owners = numbers(table[OWNERS], table[ALL_GEOMS])
    for k in range(_contacts(table)):
        geoms = _geoms(table, k)
        if owners[geoms[0]] == grasp[0] or owners[geoms[1]] == grasp[0] or _is_robots(table, k):
            return True
    return False


@compiled
def _contacts(table: np.ndarray) -> int:
    return numbers(table[CONTACTS], 1)[0]


@compiled
def _geoms(table: np.ndarray, contact: int) -> np.ndarray:
    """Return the two geoms of a contact."""
    return numbers(table[FIRST] + contact * table[STRIDE] + table[GEOMS], 2)


@compiled
def _is_robots(table: np.ndarray, contact: int) -> bool:
    geoms, robot = _geoms(table, contact), numbers(table[ROBOT], table[ALL_GEOMS])
    return robot[geoms[0]] != 0 or robot[geoms[1]] != 0
