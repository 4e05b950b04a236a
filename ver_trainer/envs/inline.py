"""The worker pool's interface without processes: steps environments when results are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ver_trainer.envs.batch_slot import BatchSlot, make_slot
from ver_trainer.envs.pool import Fault, PoolOptions, next_episodes, rows_of, unit_numbers
from ver_trainer.envs.shared import transfer_specs
from ver_trainer.envs.slot import EnvFactory, EnvSlot
from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.errors import TrainerError


class InlinePool:
    """Steps environments one after the other in this process; deterministic and resumable.

    An environment that raises stops the run: there is no process to replace.

    Attributes:
        slots: the environments, one for each unit of ``unit_size`` rows.
        waits: whether results come later than they are asked for.
    """

    waits = False

    def __init__(self, factory: EnvFactory, spec: EnvSpec, options: PoolOptions) -> None:
        self.options = options
        self.num_envs, self.unit_size = options.num_envs, factory.worlds or 1
        self.should_stop: Callable[[], None] = lambda: None
        specs = transfer_specs(spec, options.info_keys)
        self.buffers = {k: np.zeros((self.num_envs, *s.shape), s.dtype) for k, s in specs.items()}
        self.buffers["carried"][:] = options.carried_by_all
        episodes = options.first_episodes or (0,) * self.num_envs
        self.slots = [
            make_slot(
                factory,
                self.buffers,
                row,
                options.seed,
                options.info_keys,
                options.seed_offset,
                episodes[row : row + self.unit_size],
            )
            for row in range(0, self.num_envs, self.unit_size)
        ]
        self._queued: deque[int] = deque()  # units, like those below
        self._fresh = list(range(len(self.slots)))

    def send(self, rows: np.ndarray) -> None:
        """Queues ``rows``, whole units, to be stepped with ``buffers['action']``."""
        self._queued.extend(unit_numbers(rows, self.unit_size))

    def receive(self, max_wait: float | None) -> list[int]:
        """Steps everything queued and returns those rows; the first call resets all."""
        del max_wait
        self.should_stop()
        units, self._fresh = self._fresh, []
        for unit in units:
            self.slots[unit].reset()
        while self._queued:
            unit = self._queued.popleft()
            self.slots[unit].step()
            units.append(unit)
        return rows_of(units, self.unit_size)

    def next_episodes(self) -> list[int]:
        """Number of the first episode of each row that is not begun yet."""
        return next_episodes(self.options, self.buffers, rows_of(self._fresh, self.unit_size))

    def take_faults(self) -> list[Fault]:
        """Always empty."""
        return []

    @property
    def can_resume(self) -> bool:
        """Whether the environments can be brought back to where they are."""
        return all(slot.can_resume for slot in self.slots if isinstance(slot, BatchSlot))

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
            TrainerError: if an environment does not show the same observation afterwards, or the
                worlds come in other batches.
        """
        if len(state["slots"]) != len(self.slots):
            raise TrainerError(
                f"the run was stopped with {len(state['slots'])} environments or batches and has "
                f"{len(self.slots)} now: give collect.worlds= as it was, or resume=loose"
            )
        self._fresh = [int(unit) for unit in state["fresh"]]
        for unit, slot in enumerate(self.slots):
            if unit in self._fresh:
                continue
            first = unit * self.unit_size
            rows = first if isinstance(slot, EnvSlot) else slice(first, first + self.unit_size)
            expected = {
                name.removeprefix("obs/"): array[rows]
                for name, array in state["buffers"].items()
                if name.startswith("obs/")
            }
            slot.restore(state["slots"][unit], expected)
        for name, array in state["buffers"].items():
            self.buffers[name][...] = array
        self._queued = deque(int(unit) for unit in state["queued"])

    def close(self) -> None:
        """Closes the environments."""
        for slot in self.slots:
            slot.close()
        self.slots = []
