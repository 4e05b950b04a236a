"""One compiled model in which many worlds take turns.

A model is 5 MB, what differs between worlds 17 kB: where the furniture stands, what its objects
are, which geoms collide and how held things are held. With a model each, 64 worlds would read 64
models from memory in turn.
"""

from __future__ import annotations

import mujoco
import numpy as np

from tpsrl.compiled import compiled
from tpsrl.sim.mujoco.forms import FIELDS, Kinds
from tpsrl.sim.mujoco.memory import Addresses, floats, numbers, words

_KINDS = 12
"""Where in a table the fields of :class:`Kinds` stand: of the model, of the world, lengths."""
_FIELDS = len(FIELDS)
OWN = _KINDS + 3 * _FIELDS
"""Length of the table of a world's own."""


class Own:
    """What a world has of its own in a model.

    Args:
        shared: the model.

    Attributes:
        table: for :func:`enter`, (``OWN``,) int64.
    """

    def __init__(self, shared: SharedModel) -> None:
        self._fields = [values.copy() for values in shared.first]
        self._hold = np.full(1 + shared.holds.shape[1], -1.0)
        arrays = [shared.inside, *shared.fields, shared.holds, *self._fields, self._hold]
        sizes = len(shared.first[0]), len(shared.first[2]), shared.holds.shape[1]
        self._addresses = Addresses(arrays, sizes)
        self._shared_kinds = shared.kinds
        self._kinds = [piece.copy() for piece in shared.kinds.pieces]
        pieces = [*shared.kinds.pieces, *self._kinds]
        places = [piece.ctypes.data for piece in pieces]
        lengths = [piece.nbytes // 4 for piece in self._kinds]
        self.table = np.array([*self._addresses.table, *places, *lengths], dtype=np.int64)

    def become(self, bodies: np.ndarray, types: list[str]) -> None:
        """Make bodies objects of other types, in the model as it is this world's.

        Args:
            bodies: (k,), each of the form of its type.
            types: (k,) names.
        """
        kinds = self._shared_kinds
        kinds.write(kinds.rows(bodies, types), self._kinds, kinds.pieces)

    @property
    def hold(self) -> tuple[int, np.ndarray] | None:
        """The constraint that holds something, and its (k,) ``eq_data``."""
        return None if self._hold[0] < 0 else (int(self._hold[0]), self._hold[1:].copy())

    @hold.setter
    def hold(self, hold: tuple[int, np.ndarray] | None) -> None:
        self._hold[0] = -1.0
        if hold is not None:
            self._hold[0], self._hold[1:] = hold


class SharedModel:
    """A model that is, at any time, that of one world.

    Args:
        model: compiled; its fields as they are now are every world's first.
        moved: ids of the bodies that worlds place differently.
        kinds: what bodies of it can be.
    """

    def __init__(self, model: mujoco.MjModel, moved: list[int], kinds: Kinds) -> None:
        self._model, self.kinds = model, kinds
        span = slice(min(moved), max(moved) + 1)
        self.fields = [model.body_pos[span], model.body_quat[span], model.geom_conaffinity]
        self.holds = model.eq_data
        self.first = [values.copy() for values in self.fields]
        self.inside = np.zeros(1, dtype=np.int64)
        self._owns: list[Own] = []

    def fresh(self) -> Own:
        """Return what a new world has of its own."""
        self._owns.append(Own(self))  # kept: compiled code writes back into that of a world left
        return self._owns[-1]

    def of(self, own: Own) -> mujoco.MjModel:
        """Return the model as that of a world, until it is asked for that of another.

        Args:
            own: of the world; what it writes into the model is kept there.
        """
        enter(own.table)
        return self._model


@compiled
def enter(table: np.ndarray) -> None:
    """Make a model that of the world with this :class:`Own`."""
    inside, here = words(table[0], 1), table.ctypes.data
    if inside[0] == here:
        return
    if inside[0] != 0:
        _leave(words(inside[0], len(table)))
    bodies, geoms = table[9], table[10]
    floats(table[1], bodies, 3)[:] = floats(table[5], bodies, 3)
    floats(table[2], bodies, 4)[:] = floats(table[6], bodies, 4)
    numbers(table[3], geoms)[:] = numbers(table[7], geoms)
    hold = floats(table[8], 1, 1 + table[11])[0]
    if hold[0] >= 0.0:
        constraint = int(hold[0])
        floats(table[4], constraint + 1, table[11])[constraint] = hold[1:]
    for k in range(_KINDS, _KINDS + _FIELDS):
        size = table[k + 2 * _FIELDS]
        numbers(table[k], size)[:] = numbers(table[k + _FIELDS], size)
    inside[0] = here


@compiled
def _leave(table: np.ndarray) -> None:
    bodies, geoms = table[9], table[10]
    floats(table[5], bodies, 3)[:] = floats(table[1], bodies, 3)
    floats(table[6], bodies, 4)[:] = floats(table[2], bodies, 4)
    numbers(table[7], geoms)[:] = numbers(table[3], geoms)
