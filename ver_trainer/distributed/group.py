"""A group of ranks that train one policy; a group of one needs no torch.distributed."""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ver_trainer.distributed.ranks import adopt_slurm_step
from ver_trainer.errors import TrainerError


class Group:
    """Ranks of ``torchrun``, ``srun`` or Ray Train; alone every operation is the identity.

    Attributes:
        rank, size: as in torch.distributed.
        device: of the tensors that are exchanged.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.rank, self.size = 0, 1
        self.device = torch.device("cpu")
        if device is not None and device.type == "cuda":
            self.device = device
        self.store: Any = None

    @staticmethod
    def from_environment(device: torch.device | None = None, timeout: float = 1800.0) -> Group:
        """Joins the group described by torchrun's or srun's environment variables, if any.

        Args:
            device: where the ranks train: NCCL connects GPUs, Gloo anything else.
            timeout: seconds after which an operation that a rank does not join fails.

        Raises:
            TrainerError: if ``WORLD_SIZE`` is set without the other variables.
        """
        group = Group(device)
        adopt_slurm_step()
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size <= 1:
            return group
        missing = [k for k in ("RANK", "MASTER_ADDR", "MASTER_PORT") if k not in os.environ]
        if missing:
            raise TrainerError(
                f"WORLD_SIZE={size} but {', '.join(missing)} is not set: start the ranks with "
                "torchrun"
            )
        if not dist.is_initialized():
            # Optimizers import it, and its functions have the group of that moment as a default:
            # imported with one it would keep the group's threads for ever, which abort at exit.
            importlib.import_module("torch.distributed.nn.functional")
            backend = "nccl" if group.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
        group.rank, group.size = dist.get_rank(), dist.get_world_size()
        group.store = dist.PrefixStore("ver_trainer", dist.distributed_c10d._get_default_store())
        return group

    @property
    def is_first(self) -> bool:
        """Whether this rank writes logs and checkpoints."""
        return self.rank == 0

    def average_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Replaces every gradient by its mean over ranks (one AllReduce of a flat tensor)."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        offset = 0
        for gradient in gradients:
            gradient.copy_(flat[offset : offset + gradient.numel()].view_as(gradient))
            offset += gradient.numel()

    def sum_tensor(self, tensor: Tensor) -> None:
        """Sums ``tensor`` over ranks in place."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def sum_array(self, array: np.ndarray) -> np.ndarray:
        """Sum over ranks of a float64 array."""
        if self.size == 1:
            return array
        tensor = torch.from_numpy(array.astype(np.float64)).to(self.device)
        dist.all_reduce(tensor)
        return tensor.cpu().numpy()

    def gather_array(self, array: np.ndarray) -> np.ndarray:
        """Stacks equally shaped float64 arrays of all ranks: ``[size, *shape]``."""
        if self.size == 1:
            return array[None]
        tensor = torch.from_numpy(np.ascontiguousarray(array, np.float64)).to(self.device)
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor)
        return torch.stack(parts).cpu().numpy()

    def gather(self, item: Any) -> list[Any]:
        """What every rank gave, in their order; any small picklable objects."""
        if self.size == 1:
            return [item]
        items: list[Any] = [None] * self.size
        dist.all_gather_object(items, item)
        return items

    def broadcast_module(self, module: torch.nn.Module) -> None:
        """Gives every rank the weights and buffers of rank 0."""
        if self.size > 1:
            for tensor in module.state_dict().values():
                dist.broadcast(tensor, 0)

    def barrier(self) -> None:
        """Waits for all ranks."""
        if self.size > 1:
            dist.barrier()

    def close(self) -> None:
        """Leaves the group."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
