"""The linear rollout buffer.

Rows are appended in the order in which actions were taken, whichever environment they belong to.
A row is *complete* once its reward has arrived. A rollout is ``steps * num_envs`` complete rows;
rows still in flight at its end (at most one per environment) open the next rollout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.rollout.sequences import Sequences, find_sequences

_TORCH_TYPES = {"uint8": torch.uint8, "float32": torch.float32, "int64": torch.int64}
_BOOKKEEPING = {
    "env": np.int64,
    "episode": np.int64,
    "step": np.int64,
    "version": np.int64,
    "complete": np.bool_,
    "fresh": np.bool_,
    "reward": np.float32,
    "next_value": np.float32,
    "advantage": np.float32,
    "returns": np.float32,
}


class RolloutStorage:
    """Rows of experience: tensors on the learner's device, bookkeeping in NumPy.

    Attributes:
        size: complete rows of a full rollout, ``steps * num_envs``.
        tensors: ``obs/*``, ``action``, ``log_prob``, ``value`` and ``state`` (the recurrent state
            the policy had before the row), each ``[capacity, ...]``.
        env, episode, step, version: where, when and by which policy version a row was made.
        reward, next_value: reward of the row, and the value of what follows the last row of a
            sequence (0 after a termination).
        ptr: the next row to write.
    """

    env: np.ndarray
    episode: np.ndarray
    step: np.ndarray
    version: np.ndarray
    complete: np.ndarray
    fresh: np.ndarray
    reward: np.ndarray
    next_value: np.ndarray
    advantage: np.ndarray
    returns: np.ndarray

    def __init__(
        self,
        spec: EnvSpec,
        num_envs: int,
        steps: int,
        state_size: int,
        device: torch.device | str = "cpu",
        keep_stale: bool = False,
    ) -> None:
        self.num_envs, self.size = num_envs, num_envs * steps
        self.capacity = self.size + num_envs
        self.keep_stale = keep_stale
        specs = {f"obs/{name}": (a.shape, a.dtype) for name, a in spec.observations.items()}
        row = spec.action.row
        specs |= {"action": (row.shape, row.dtype), "state": ((state_size,), "float32")}
        specs |= {"log_prob": ((), "float32"), "value": ((), "float32")}
        self.tensors = {
            name: torch.zeros(self.capacity, *shape, dtype=_TORCH_TYPES[dtype], device=device)
            for name, (shape, dtype) in specs.items()
        }
        self.obs = {k[4:]: v for k, v in self.tensors.items() if k.startswith("obs/")}
        for name, dtype in _BOOKKEEPING.items():
            setattr(self, name, np.zeros(self.capacity, dtype))
        self.ptr = 0
        self.num_complete = 0
        self.open_row = np.full(num_envs, -1)  # row in flight of each environment
        self.last_row = np.full(num_envs, -1)  # last complete row whose episode goes on
        self.steps_of_env = np.zeros(num_envs, np.int64)  # complete rows in this rollout

    def adopt(self, tensors: dict[str, torch.Tensor]) -> None:
        """Uses other memory, of the same shapes, for the tensors."""
        self.tensors = dict(tensors)
        self.obs = {k[4:]: v for k, v in self.tensors.items() if k.startswith("obs/")}

    def append(
        self, envs: np.ndarray, episodes: np.ndarray, steps: np.ndarray, version: int
    ) -> slice:
        """Reserves one row per environment and returns them; the caller fills the tensors."""
        rows = slice(self.ptr, self.ptr + len(envs))
        self.env[rows], self.episode[rows], self.step[rows] = envs, episodes, steps
        self.version[rows], self.complete[rows], self.fresh[rows] = version, False, True
        self.open_row[envs] = np.arange(rows.start, rows.stop)
        self.ptr = rows.stop
        return rows

    def finish_step(
        self, envs: np.ndarray, rewards: np.ndarray, ended: np.ndarray, final_values: np.ndarray
    ) -> None:
        """Completes the open rows of ``envs``.

        Args:
            envs: environments with an open row.
            rewards: ``[n]``.
            ended: whether the episode ended with this step ``[n]``.
            final_values: for ended episodes the value to bootstrap from (0 if terminated) ``[n]``.
        """
        rows = self.open_row[envs]
        self.reward[rows], self.complete[rows] = rewards, True
        self.next_value[rows] = np.where(ended, final_values, 0.0)
        self.open_row[envs] = -1
        self.last_row[envs] = np.where(ended, -1, rows)
        self.steps_of_env[envs] += 1
        self.num_complete += len(envs)

    def bootstrap(self, envs: np.ndarray, values: np.ndarray) -> None:
        """Sets the value after the last complete row of environments with no row in flight."""
        rows = self.last_row[envs]
        going_on = rows >= 0
        self.next_value[rows[going_on]] = values[going_on]

    def bootstrap_in_flight(self) -> None:
        """Bootstraps the last complete rows from the values of the rows in flight after them."""
        envs = np.flatnonzero((self.last_row >= 0) & (self.open_row >= 0))
        if len(envs):
            values = self.tensors["value"][torch.from_numpy(self.open_row[envs])]
            self.next_value[self.last_row[envs]] = values.float().cpu().numpy()

    def drop_episodes(self, envs: np.ndarray) -> int:
        """Removes unfinished episodes of ``envs``; returns the number of complete rows lost."""
        rows = np.where(self.open_row[envs] >= 0, self.open_row[envs], self.last_row[envs])
        episode = np.full(self.num_envs, -1)  # the one that goes
        episode[envs[rows >= 0]] = self.episode[rows[rows >= 0]]
        used = np.arange(self.ptr)
        gone = (self.episode[used] == episode[self.env[used]]) & self.fresh[used]
        lost = gone & self.complete[used]
        self.num_complete -= int(lost.sum())
        self.steps_of_env -= np.bincount(self.env[used][lost], minlength=self.num_envs)
        self.open_row[envs] = self.last_row[envs] = -1
        if gone.any():
            self._compact(np.flatnonzero(~gone))
        return int(lost.sum())

    def _compact(self, keep: np.ndarray) -> None:
        moved = np.full(self.capacity + 1, -1)
        moved[keep] = np.arange(len(keep))
        index = torch.from_numpy(keep)
        for tensor in self.tensors.values():
            tensor[: len(keep)] = tensor[index.to(tensor.device)]
        for name in _BOOKKEEPING:
            array = getattr(self, name)
            array[: len(keep)] = array[keep]
        self.complete[len(keep) : self.ptr] = False
        self.open_row, self.last_row = moved[self.open_row], moved[self.last_row]
        self.ptr = len(keep)

    def fresh_rows(self) -> np.ndarray:
        """Complete rows of this rollout."""
        used = slice(0, self.ptr)
        return np.flatnonzero(self.complete[used] & self.fresh[used])

    def fill_rows(self) -> np.ndarray:
        """Newest stale rows that fill up a rollout that ended early (empty if it did not)."""
        missing = self.size - self.num_complete
        if not self.keep_stale or missing <= 0:
            return np.zeros(0, np.int64)
        stale = np.flatnonzero(self.complete & ~self.fresh)
        return stale[np.argsort(self.version[stale], kind="stable")][::-1][:missing].copy()

    def sequences(self, rows: np.ndarray) -> Sequences:
        """Arranges ``rows`` into sequences."""
        return find_sequences(rows, self.env, self.episode, self.step, self.fresh)

    def after_update(self) -> None:
        """Starts the next rollout: rows in flight move to the front, the rest becomes stale."""
        flying = np.flatnonzero(self.open_row >= 0)
        rows = self.open_row[flying]
        self.fresh[:] = False
        self._move_to_front(rows)
        count = len(rows)
        self.open_row[flying] = np.arange(count)
        self.last_row[:] = -1
        self.fresh[:count], self.complete[:count] = True, False
        self.steps_of_env[:] = 0
        self.ptr, self.num_complete = count, 0

    def _move_to_front(self, rows: np.ndarray) -> None:
        count = len(rows)
        order = rows
        if self.keep_stale:  # the oldest stale rows come next, to be overwritten first
            rest = np.setdiff1d(np.arange(self.capacity), rows)
            rank = np.where(self.complete[rest], self.version[rest], -1)
            order = np.concatenate((rows, rest[np.argsort(rank, kind="stable")]))
            count = self.capacity
        index = torch.from_numpy(order)
        for tensor in self.tensors.values():
            tensor[:count] = tensor[index.to(tensor.device)]
        for name in _BOOKKEEPING:
            array = getattr(self, name)
            array[:count] = array[order]

    def copy_from(self, other: RolloutStorage) -> None:
        """Takes over the rollout of ``other`` (same sizes)."""
        for name, tensor in self.tensors.items():
            tensor.copy_(other.tensors[name])
        for name in _BOOKKEEPING:
            getattr(self, name)[:] = getattr(other, name)
        self.ptr, self.num_complete = other.ptr, other.num_complete
        self.steps_of_env[:] = other.steps_of_env

    def capture(self) -> dict[str, Any]:
        """Rows in flight at the start of a rollout, for an exact resume."""
        used = slice(0, self.ptr)
        return {
            "tensors": {k: v[used].cpu().clone() for k, v in self.tensors.items()},
            "rows": {name: getattr(self, name)[used].copy() for name in _BOOKKEEPING},
            "open_row": self.open_row.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`capture` on an empty storage."""
        self.ptr = len(state["rows"]["env"])
        for name, tensor in state["tensors"].items():
            self.tensors[name][: self.ptr] = tensor.to(self.tensors[name].device)
        for name, array in state["rows"].items():
            getattr(self, name)[: self.ptr] = array
        self.open_row = np.array(state["open_row"])
