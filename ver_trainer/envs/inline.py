"""The worker pool's interface without processes: steps environments when results are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ver_trainer.envs.pool import Fault, PoolOptions
from ver_trainer.envs.shared import transfer_specs
from ver_trainer.envs.slot import EnvFactory, EnvSlot
from ver_trainer.envs.spaces import EnvSpec


class InlinePool:
    """Steps environments one after the other in this process; deterministic and resumable.

    An environment that raises stops the run: there is no process to replace.
    """

    def __init__(self, factory: EnvFactory, spec: EnvSpec, options: PoolOptions) -> None:
        self.options = options
        self.num_envs = options.num_envs
        self.fault_count = 0
        self.should_stop: Callable[[], None] = lambda: None
        specs = transfer_specs(spec, options.info_keys)
        self.buffers = {k: np.zeros((self.num_envs, *s.shape), s.dtype) for k, s in specs.items()}
        self.slots = [
            EnvSlot(
                factory,
                self.buffers,
                row,
                options.seed,
                options.info_keys,
                seed_index=row + options.seed_offset,
                first_episode=options.first_episodes[row] if options.first_episodes else 0,
            )
            for row in range(self.num_envs)
        ]
        self._queued: deque[int] = deque()
        self._fresh = list(range(self.num_envs))

    def send(self, rows: np.ndarray) -> None:
        """Queues ``rows`` to be stepped with the actions in ``buffers['action']``."""
        self._queued.extend(rows.tolist())

    def receive(self, max_wait: float | None) -> list[int]:
        """Steps everything queued and returns those rows; the first call resets all."""
        del max_wait
        self.should_stop()
        rows, self._fresh = self._fresh, []
        for row in rows:
            self.slots[row].reset()
        while self._queued:
            row = self._queued.popleft()
            self.slots[row].step()
            rows.append(row)
        return rows

    def take_faults(self) -> list[Fault]:
        """Always empty."""
        return []

    def capture(self) -> dict[str, Any]:
        """State of all environments for an exact resume."""
        return {
            "slots": [slot.capture() for slot in self.slots],
            "buffers": {name: array.copy() for name, array in self.buffers.items()},
            "queued": list(self._queued),
            "fresh": list(self._fresh),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Brings every environment back to a captured state.

        Raises:
            TrainerError: if an environment does not show the same observation afterwards.
        """
        self._fresh = [int(row) for row in state["fresh"]]
        for row, slot in enumerate(self.slots):
            if row in self._fresh:
                continue
            expected = {
                name.removeprefix("obs/"): array[row]
                for name, array in state["buffers"].items()
                if name.startswith("obs/")
            }
            slot.restore(state["slots"][row], expected)
        for name, array in state["buffers"].items():
            self.buffers[name][...] = array
        self._queued = deque(int(row) for row in state["queued"])

    def close(self) -> None:
        """Closes the environments."""
        for slot in self.slots:
            slot.close()
        self.slots = []
