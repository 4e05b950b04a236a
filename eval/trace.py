"""A digest of what happened in a world: two runs have the same one if they were the same."""

from __future__ import annotations

import hashlib

import numpy as np

from tpsrl.sim.door import SimState


class Trace:
    """Hashes every state of one world to the last bit.

    Args:
        env_id: the world.
    """

    def __init__(self, env_id: int = 0) -> None:
        self._env_id, self._hash = env_id, hashlib.sha256()

    def add(self, state: SimState) -> None:
        """Add the state after a reset or a step; NumPy arrays or tensors on the CPU."""
        for field in vars(state).values():
            values = np.asarray(field[self._env_id])
            # NaN fills the rows of objects that only the other worlds of the simulator have.
            self._hash.update(values[values == values].tobytes())

    @property
    def digest(self) -> str:
        """16 hexadecimal digits."""
        return self._hash.hexdigest()[:16]
