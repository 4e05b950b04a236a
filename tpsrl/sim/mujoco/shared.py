"""One compiled model in which many worlds take turns.

A model is 5 MB, what differs between worlds 4 kB: where the furniture stands, which geoms collide
and how held things are held. With a model each, 64 worlds would read 64 models from memory in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np


@dataclass(eq=False)
class Own:
    """What a world has of its own in a model.

    Attributes:
        fields: values of the shared model's fields that differ.
        holds: constraint id -> its (11,) ``eq_data`` while it is active.
    """

    fields: list[np.ndarray]
    holds: dict[int, np.ndarray] = field(default_factory=dict)


class SharedModel:
    """A model that is, at any time, that of one world.

    Args:
        model: compiled; its fields as they are now are every world's first.
        moved: ids of the bodies that worlds place differently.
    """

    def __init__(self, model: mujoco.MjModel, moved: list[int]) -> None:
        self._model = model
        span = slice(min(moved), max(moved) + 1)
        self._fields = [model.body_pos[span], model.body_quat[span], model.geom_conaffinity]
        self._holds = model.eq_data
        self._first = [values.copy() for values in self._fields]
        self._inside = self.fresh()

    def fresh(self) -> Own:
        """Return what a new world has of its own."""
        return Own([values.copy() for values in self._first])

    def of(self, own: Own) -> mujoco.MjModel:
        """Return the model as that of a world, until it is asked for that of another.

        Args:
            own: of the world; what it writes into the model is kept there.
        """
        if own is not self._inside:
            for values, theirs, ours in zip(
                self._fields, self._inside.fields, own.fields, strict=True
            ):
                theirs[:] = values
                values[:] = ours
            for constraint, hold in own.holds.items():
                self._holds[constraint] = hold
            self._inside = own
        return self._model
