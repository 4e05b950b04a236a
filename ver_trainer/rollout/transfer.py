"""Moves rows between the environments' buffers and the policy's device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ver_trainer.envs.spaces import ActionSpec, rescale_action


class Transfer:
    """Reads observations from and writes actions to NumPy transfer buffers.

    On a GPU the rows go through pinned memory, so that the copy overlaps with other work.
    """

    def __init__(
        self, buffers: dict[str, np.ndarray], action: ActionSpec, device: torch.device
    ) -> None:
        self._device, self._action = device, action
        self._buffers = buffers
        self._views = {
            name: torch.from_numpy(array)
            for name, array in buffers.items()
            if name.startswith(("obs/", "final_obs/"))
        }
        self._pinned: dict[str, Tensor] = {}
        if device.type == "cuda":
            self._pinned = {k: torch.empty_like(v).pin_memory() for k, v in self._views.items()}

    def read_into(self, targets: dict[str, Tensor], rows: np.ndarray) -> None:
        """Copies observations of ``rows`` into ``targets`` (name to ``[n, *shape]``)."""
        index = torch.from_numpy(rows)
        for name, target in targets.items():
            self._copy(f"obs/{name}", index, target)

    def read_final(self, names: list[str], rows: np.ndarray) -> dict[str, Tensor]:
        """The last observations of episodes that ended in ``rows``."""
        return self._read("final_obs/", names, rows)

    def read(self, names: list[str], rows: np.ndarray) -> dict[str, Tensor]:
        """The current observations of ``rows``."""
        return self._read("obs/", names, rows)

    def _read(self, prefix: str, names: list[str], rows: np.ndarray) -> dict[str, Tensor]:
        index = torch.from_numpy(rows)
        found = {name: self._views[prefix + name][index] for name in names}
        return {name: value.to(self._device) for name, value in found.items()}

    def _copy(self, key: str, index: Tensor, target: Tensor) -> None:
        if not self._pinned:
            torch.index_select(self._views[key], 0, index, out=target)
            return
        staged = self._pinned[key][: len(index)]
        torch.index_select(self._views[key], 0, index, out=staged)
        target.copy_(staged, non_blocking=True)

    def write_actions(self, rows: np.ndarray, actions: Tensor) -> None:
        """Writes policy actions ``[n, ...]`` into the rows, mapped to the action space's bounds."""
        array = actions.cpu().numpy()
        if self._action.kind == "continuous":
            array = rescale_action(self._action, array)
        self._buffers["action"][rows] = array
