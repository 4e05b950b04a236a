"""MuJoCo's own functions for compiled code, and where MuJoCo's data lists its contacts.

A call from compiled code costs nothing; from Python it costs a microsecond, and reading contacts
five. Models and data are given by their addresses. An error that MuJoCo raises here ends the
process, as in any program that is not Python.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding
import mujoco
import numpy as np
from numba import types

DENSE, AUTO = int(mujoco.mjtJacobian.mjJAC_DENSE), int(mujoco.mjtJacobian.mjJAC_AUTO)
"""How the rows of constraints are kept: dense where a robot that holds an object touches something,
or the object does, and where a handle is held and anything touches; elsewhere as MuJoCo finds best.
With sparse rows the Newton solver of MuJoCo 4.0 now and then ends far from the solution there, and
throws away what is held or lies in the drawer. Whoever changes this has to build the rows anew
before they are used."""

_LIBRARY = ctypes.CDLL(mujoco._functions.__file__)
_WORD, _NUMBER = types.intp, types.int32


def _function(name: str, *arguments: types.Type) -> Any:
    # By its name, which compiled code that is kept on disk looks up anew.
    address = ctypes.cast(getattr(_LIBRARY, name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(name, address)
    return types.ExternalFunction(name, types.void(*arguments))


mj_step1 = _function("mj_step1", _WORD, _WORD)
mj_step2 = _function("mj_step2", _WORD, _WORD)
mj_kinematics = _function("mj_kinematics", _WORD, _WORD)
mj_collision = _function("mj_collision", _WORD, _WORD)
mj_forward_skip = _function("mj_forwardSkip", _WORD, _WORD, _NUMBER, _NUMBER)
mj_contact_force = _function("mj_contactForce", _WORD, _WORD, _NUMBER, _WORD)


def stop_clock() -> None:
    """Keep MuJoCo from reading the clock for its timers, dozens of times a step, in this process.

    They are 3% of a step, and nothing here reads them. Python's own interface cannot stop them: it
    puts its clock back where it is given none.
    """
    ctypes.c_void_p.in_dll(_LIBRARY, "mjcb_time").value = None


_MARK = 0x2B5A1C77
_PAGE, _MOST = 4096, 2**22


class ContactLayout(NamedTuple):
    """Where contacts stand.

    Attributes:
        number: from the beginning of ``mjData`` to the number of contacts, bytes.
        first: from there to the pointer to the first of them.
        geoms: from the beginning of a contact, which is its distance, to its two geoms.
        size: of a contact.
    """

    number: int
    first: int
    geoms: int
    size: int


def _marks(address: int) -> tuple[np.ndarray, int]:
    """Find ``_MARK`` behind an address.

    Returns:
        How many int32 behind it each one stands, and how many bytes were read: no farther than to
        the first page that has one, as nobody says where a structure ends.
    """
    for end in range(_PAGE, _MOST, _PAGE):
        words = np.frombuffer(ctypes.string_at(address, end), np.int32)
        found = np.flatnonzero(words == _MARK)
        if len(found):
            break
    return found, end


@cache
def contact_layout() -> ContactLayout:
    """Find out how this version of MuJoCo lays out its contacts, from a ball that touches a plane.

    Raises:
        RuntimeError: that cannot be found out.
    """
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .09"><freejoint/>'
        '<geom size=".1"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    geoms, distance = data.contact.geom, data.contact.dist
    first, size = distance.ctypes.data, distance.strides[0]
    found, data.ncon = data.ncon, _MARK
    counts, end = _marks(data._address)
    data.ncon = found
    pointers = np.frombuffer(ctypes.string_at(data._address, end + _PAGE), np.uint64)
    # The contacts stand at the beginning of the arena: the first such pointer is that of the arena.
    at = np.flatnonzero(pointers == first)
    if len(counts) != 1 or not len(at) or geoms.strides[0] != size:
        raise RuntimeError(f"MuJoCo {mujoco.__version__} lays out its contacts in an unknown way.")
    return ContactLayout(int(counts[0]) * 4, int(at[0]) * 8, geoms.ctypes.data - first, size)


@cache
def jacobian_place() -> int:
    """Find out where a model says how the rows of its constraints are kept: ``opt.jacobian``.

    Returns:
        Bytes from the beginning of ``mjModel``.

    Raises:
        RuntimeError: that cannot be found out.
    """
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    model.opt.jacobian = _MARK
    found, _ = _marks(model._address)
    if len(found) != 1:
        raise RuntimeError(f"MuJoCo {mujoco.__version__} lays out its options in an unknown way.")
    return int(found[0]) * 4


def contact_addresses(data: mujoco.MjData) -> tuple[int, int]:
    """Return where the number of contacts stands, and where the first contact does."""
    layout = contact_layout()
    first = ctypes.c_uint64.from_address(data._address + layout.first).value
    return data._address + layout.number, first
