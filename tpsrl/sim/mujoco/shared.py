"""One compiled model in which many worlds take turns.

A model is 5 MB, what differs between worlds 15 kB: where the furniture stands, which geoms collide
and how held things are held. With a model each, 64 worlds would read 64 models from memory in turn.
"""

from __future__ import annotations

import mujoco
import numpy as np

_OWN = ("body_pos", "body_quat", "geom_conaffinity", "eq_data")
"""Fields that a world may write."""


class SharedModel:
    """A model that is, at any time, that of one world.

    Args:
        model: compiled; its fields as they are now are every world's first.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._fields = [getattr(model, name) for name in _OWN]
        self._first = [field.copy() for field in self._fields]
        self._inside = self.fresh()

    def fresh(self) -> list[np.ndarray]:
        """Return fields for a new world."""
        return [field.copy() for field in self._first]

    def of(self, own: list[np.ndarray]) -> mujoco.MjModel:
        """Return the model as that of a world, until it is asked for that of another.

        Args:
            own: the world's fields; what it writes into the model is kept there.
        """
        if own is not self._inside:
            for field, theirs, ours in zip(self._fields, self._inside, own, strict=True):
                theirs[:] = field
                field[:] = ours
            self._inside = own
        return self._model
