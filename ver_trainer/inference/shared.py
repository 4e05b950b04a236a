"""Tensors that several processes see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ver_trainer.envs.shared import BlockLayout, SharedBlock

_ALIGNMENT = 64
Shape = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass
class SharedTensors:
    """A dictionary of tensors of one device in memory that other processes can open.

    CPU tensors are moved to one anonymous block (no name in the file system, so nothing is left
    behind); CUDA tensors stay where they are and are shared by CUDA's own handles.

    Attributes:
        tensors: the tensors; the same sizes and strides as the originals.
        message: picklable description for :meth:`open`.
        descriptors: file descriptors that must be passed along with it.
    """

    tensors: dict[str, Tensor]
    message: dict[str, Any]
    descriptors: tuple[int, ...]
    block: SharedBlock | None

    @staticmethod
    def of(originals: dict[str, Tensor]) -> SharedTensors:
        """Shares ``originals``; CPU ones are copied."""
        if any(tensor.is_cuda for tensor in originals.values()):
            return _share_cuda(originals)
        entries, shapes, offset = [], {}, 0
        for name, tensor in originals.items():
            dtype = str(tensor.dtype).removeprefix("torch.")
            entries.append((name, (tensor.numel(),), dtype, offset))
            shapes[name] = (tuple(tensor.shape), tensor.stride())
            size = tensor.numel() * tensor.element_size()
            offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        block = SharedBlock(BlockLayout(tuple(entries), max(offset, 4096)))
        tensors = _view(block.arrays, shapes)
        for name, tensor in originals.items():
            tensors[name].copy_(tensor)
        message = {"layout": block.layout, "shapes": shapes}
        return SharedTensors(tensors, message, (block.descriptor,), block)

    @staticmethod
    def open(message: dict[str, Any], descriptors: list[int]) -> dict[str, Tensor]:
        """The same tensors in another process."""
        if "handles" in message:
            return {
                name: make(*arguments) for name, (make, arguments) in message["handles"].items()
            }
        block = SharedBlock(message["layout"], descriptors[0])
        return _view(block.arrays, message["shapes"])

    def close(self) -> None:
        """Closes the descriptor; the memory goes with the last tensor."""
        if self.block is not None:
            self.block.close()
            self.block = None


def _view(arrays: dict[str, np.ndarray], shapes: dict[str, Shape]) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(arrays[name]).as_strided(size, stride)
        for name, (size, stride) in shapes.items()
    }


def _share_cuda(tensors: dict[str, Tensor]) -> SharedTensors:
    from torch.multiprocessing.reductions import reduce_tensor

    own = {name: tensor.detach() for name, tensor in tensors.items()}
    handles = {name: reduce_tensor(tensor) for name, tensor in own.items()}
    return SharedTensors(own, {"handles": handles}, (), None)


def policy_tensors(policy: torch.nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers of a module."""
    named = [*policy.named_parameters(), *policy.named_buffers()]
    return {f"policy/{name}": tensor.detach() for name, tensor in named}


def adopt_policy(policy: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Makes ``policy`` use shared tensors in place of its own."""
    for name, tensor in [*policy.named_parameters(), *policy.named_buffers()]:
        tensor.data = tensors[f"policy/{name}"]
