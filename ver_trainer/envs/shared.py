"""Arrays in anonymous shared memory.

The memory has no name in the file system (``memfd`` on Linux, an unlinked temporary file
elsewhere), so the kernel frees it when the last process is gone, however that process died, and a
small ``/dev/shm`` of a container does not limit it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass

import numpy as np

from ver_trainer.envs.spaces import ArraySpec, EnvSpec

_ALIGNMENT = 64


@dataclass(frozen=True)
class BlockLayout:
    """Where each array lies in the shared block."""

    entries: tuple[tuple[str, tuple[int, ...], str, int], ...]
    size: int

    @staticmethod
    def of(specs: dict[str, ArraySpec], rows: int) -> BlockLayout:
        """Lays out ``rows`` rows of every array, each array on its own cache line."""
        entries, offset = [], 0
        for name, spec in specs.items():
            shape = (rows, *spec.shape)
            entries.append((name, shape, spec.dtype, offset))
            size = int(np.prod(shape)) * np.dtype(spec.dtype).itemsize
            offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        return BlockLayout(tuple(entries), max(offset, mmap.PAGESIZE))


def transfer_specs(spec: EnvSpec, info_keys: tuple[str, ...]) -> dict[str, ArraySpec]:
    """Arrays exchanged between an environment and the trainer, one row per environment."""
    specs = {f"obs/{name}": array for name, array in spec.observations.items()}
    specs |= {f"final_obs/{name}": array for name, array in spec.observations.items()}
    scalar = {
        "reward": "float64",
        "terminated": "uint8",
        "truncated": "uint8",
        "episode_return": "float64",
        "episode_length": "int64",
        "episode": "int64",
        # The episode is over and the next step, whatever its action, only begins the next one.
        "idle": "uint8",
        # What the environment carries from episode to episode, where it has such a number.
        "carried": "float64",
    }
    specs |= {name: ArraySpec((), dtype) for name, dtype in scalar.items()}
    specs["info"] = ArraySpec((len(info_keys),), "float64")
    specs["action"] = spec.action.row
    return specs


class SharedBlock:
    """One anonymous shared memory block seen as named arrays."""

    def __init__(self, layout: BlockLayout, descriptor: int | None = None) -> None:
        self.layout = layout
        self.descriptor = _anonymous_file(layout.size) if descriptor is None else descriptor
        self._map = mmap.mmap(self.descriptor, layout.size)
        self.arrays = {
            name: np.ndarray(shape, dtype, self._map, offset)
            for name, shape, dtype, offset in layout.entries
        }

    def close(self) -> None:
        """Closes the descriptor; the memory goes when the last array is gone."""
        self.arrays = {}
        os.close(self.descriptor)


def _anonymous_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ver-trainer", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
