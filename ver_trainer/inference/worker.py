"""Inference worker: a process that infers while the main process does the same.

Started as ``python -m ver_trainer.inference.worker FD``. All tensors are shared with the trainer:
the weights (never changed during a rollout), the rollout storage, recurrent states and the
environments' buffers. Protocol on the socket, one byte each: the trainer sends ``B`` (a batch lies
in shared memory), or ``L`` and a message with new connections to environment workers; the worker
answers ``R`` when it is ready and ``D`` when a batch is done. An exception goes back as ``E`` and
a pickled traceback. End of file means that the trainer is gone.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Any

import torch

from ver_trainer.config import NetConfig
from ver_trainer.envs.nursery import receive_message
from ver_trainer.envs.pool import unit_numbers
from ver_trainer.envs.shared import BlockLayout, SharedBlock
from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.envs.worker import INDEX, die_with_parent, ignore_run_signals
from ver_trainer.inference.shared import SharedTensors, adopt_policy
from ver_trainer.inference.step import Inference
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.transfer import Transfer

BATCH, LINKS, READY, DONE, ERROR = b"B", b"L", b"R", b"D", b"E"
MAX_LINKS = 200


@dataclass(frozen=True)
class InferenceTask:
    """What one inference worker needs to know; ``number`` is its column in the shared arrays."""

    spec: EnvSpec
    net: NetConfig
    precision: str
    device: str
    threads: int
    seed: int
    number: int
    tensors: dict[str, Any]
    buffers: BlockLayout
    unit_size: int = 1


def batch_arrays(workers: int, num_envs: int) -> dict[str, torch.Tensor]:
    """Shared memory through which batches are handed over.

    ``envs`` holds the environments of a batch, ``head`` their count, the first storage row and
    whether the actions went out; ``seconds`` how long it took.
    """
    return {
        "batch/envs": torch.zeros(workers, num_envs, dtype=torch.int64),
        "batch/head": torch.zeros(workers, 3, dtype=torch.int64),
        "batch/seconds": torch.zeros(workers, dtype=torch.float64),
    }


class InferenceWorker:
    """Body of the process."""

    def __init__(
        self,
        task: InferenceTask,
        connection: socket.socket,
        descriptors: list[int],
    ) -> None:
        self.connection = connection
        buffers = SharedBlock(task.buffers, descriptors[0])
        batch = SharedTensors.open(task.tensors["batch"], [descriptors[1]])
        self.envs = batch["batch/envs"][task.number].numpy()
        self.head = batch["batch/head"][task.number].numpy()
        self.seconds = batch["batch/seconds"].numpy()
        self.number = task.number
        shared = SharedTensors.open(task.tensors["data"], descriptors[2:])
        policy = make_policy(task.spec, task.net, task.precision)
        adopt_policy(policy, shared)
        policy.requires_grad_(False)
        self.device = torch.device(task.device)
        storage = {
            name.removeprefix("storage/"): tensor
            for name, tensor in shared.items()
            if name.startswith("storage/")
        }
        self.inference = Inference(
            policy,
            storage,
            shared["state"],
            Transfer(buffers.arrays, task.spec.action, self.device),
            torch.Generator(self.device).manual_seed(task.seed),
        )
        self.unit_size = task.unit_size
        self.links: dict[int, socket.socket] = {}  # by unit

    def run(self) -> None:
        """Serves batches until the trainer closes the connection."""
        self.connection.send(READY)
        while kind := self.connection.recv(1):
            if kind == BATCH:
                self.infer()
                self.connection.send(DONE)
            else:
                self.connect()

    def connect(self) -> None:
        """Takes over connections to environment workers."""
        received = receive_message(self.connection, MAX_LINKS)
        if received is None:
            return
        data, descriptors = received
        for rows, descriptor in zip(pickle.loads(data), descriptors, strict=True):
            link = socket.socket(fileno=descriptor)
            self.links |= dict.fromkeys(unit_numbers(rows, self.unit_size), link)

    @torch.inference_mode()
    def infer(self) -> None:
        """One batch: actions out only after everything else is written."""
        begin = time.perf_counter()
        count, first = int(self.head[0]), int(self.head[1])
        envs = self.envs[:count].copy()
        outcome = self.inference.act(envs, slice(first, first + count))
        self.inference.store(outcome)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds[self.number] = time.perf_counter() - begin
        self.head[2] = 1
        for unit in unit_numbers(envs, self.unit_size):
            try:
                self.links[unit].send(INDEX.pack(unit))
            except OSError:
                continue  # the trainer sees by itself that this worker is dead


def main(descriptor: int) -> None:
    """Entry point of the process."""
    die_with_parent()
    ignore_run_signals()
    connection = socket.socket(fileno=descriptor)
    received = receive_message(connection)
    if received is None:
        return
    try:
        task = pickle.loads(received[0])
        torch.set_num_threads(task.threads)
        InferenceWorker(task, connection, received[1]).run()
    except (BrokenPipeError, ConnectionResetError):
        return
    except BaseException:
        connection.sendall(ERROR + pickle.dumps(traceback.format_exc()))
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
