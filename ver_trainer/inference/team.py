"""The trainer's side of the inference workers."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from ver_trainer.envs.nursery import send_message
from ver_trainer.envs.pool import Fault, WorkerPool
from ver_trainer.errors import WorkerFailure
from ver_trainer.inference.shared import SharedTensors, adopt_policy, policy_tensors
from ver_trainer.inference.worker import (
    BATCH,
    DONE,
    ERROR,
    LINKS,
    MAX_LINKS,
    READY,
    InferenceTask,
    batch_arrays,
)
from ver_trainer.nets.policy import PRECISIONS, Policy
from ver_trainer.rollout.storage import RolloutStorage


@dataclass
class Batch:
    """Environments and the storage rows that they fill."""

    envs: np.ndarray
    rows: slice


@dataclass
class _Member:
    number: int
    process: subprocess.Popen[bytes]
    connection: socket.socket
    since: float
    ready: bool = False
    batch: Batch | None = None


@dataclass(frozen=True)
class TeamOptions:
    """Sizes and limits: see ``collect.*``; ``limit`` (seconds) bounds one inference."""

    workers: int
    threads: int = 1
    seed: int = 0
    limit: float = 30.0
    start_limit: float = 180.0
    max_faults: int = 10


class InferenceTeam:
    """Inference workers that share all tensors with this process.

    Whoever changes weights, moves rows or touches recurrent states waits until none is ``busy``.

    Attributes:
        state: recurrent states ``[num_envs, state_size]``, shared.
        faults: failures not yet taken by :meth:`take_faults`.
    """

    def __init__(
        self, policy: Policy, storage: RolloutStorage, pool: WorkerPool, options: TeamOptions
    ) -> None:
        self.options, self.pool = options, pool
        device = storage.tensors["value"].device
        state = policy.initial_state(pool.num_envs, device)
        originals = policy_tensors(policy) | {"state": state}
        originals |= {f"storage/{name}": tensor for name, tensor in storage.tensors.items()}
        self._data = SharedTensors.of(originals)
        self._batch = SharedTensors.of(batch_arrays(options.workers, pool.num_envs))
        adopt_policy(policy, self._data.tensors)
        storage.adopt({name: self._data.tensors[f"storage/{name}"] for name in storage.tensors})
        self.state = self._data.tensors["state"]
        self._envs = self._batch.tensors["batch/envs"].numpy()
        self._head = self._batch.tensors["batch/head"].numpy()
        self._seconds = self._batch.tensors["batch/seconds"].numpy()
        self.faults: list[Fault] = []
        self.fault_count = 0
        self.finished: list[tuple[int, float]] = []
        messages = {"data": self._data.message, "batch": self._batch.message}
        self._task = InferenceTask(
            policy.spec,
            replace(policy.config, compile=False),
            next(name for name, dtype in PRECISIONS.items() if dtype == policy.precision),
            str(device),
            options.threads,
            options.seed,
            0,
            messages,
            pool.block.layout,
            pool.unit_size,
        )
        self._starts = 0
        self._members = [self._start(number) for number in range(options.workers)]

    def _start(self, number: int) -> _Member:
        ours, theirs = socket.socketpair()
        environment = dict(os.environ)
        environment["OMP_NUM_THREADS"] = str(self.options.threads)
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        process = subprocess.Popen(
            [sys.executable, "-m", "ver_trainer.inference.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            process_group=0,  # Ctrl-C is for the trainer, also while this one still starts
        )
        theirs.close()
        self._starts += 1
        task = replace(self._task, number=number, seed=self.options.seed + 7919 * self._starts)
        descriptors = (self.pool.block.descriptor, *self._batch.descriptors)
        send_message(ours, task, (*descriptors, *self._data.descriptors))
        member = _Member(number, process, ours, time.monotonic())
        self._send_links(member)
        return member

    def _send_links(self, member: _Member) -> None:
        links = self.pool.links()
        for first in range(0, len(links), MAX_LINKS):
            part = links[first : first + MAX_LINKS]
            rows = [rows for rows, _ in part]
            with contextlib.suppress(OSError):  # a dead worker is found by poll
                member.connection.sendall(LINKS)
                send_message(member.connection, rows, tuple(fd for _, fd in part))

    @property
    def busy(self) -> bool:
        """Whether a worker has a batch."""
        return any(member.batch is not None for member in self._members)

    def take(self, batch: Batch) -> bool:
        """Gives ``batch`` to a worker that is free; false if there is none."""
        for member in self._members:
            if member.ready and member.batch is None:
                break
        else:
            return False
        count = len(batch.envs)
        self._envs[member.number, :count] = batch.envs
        self._head[member.number] = count, batch.rows.start, 0
        self.pool.mark_busy(batch.envs)
        member.batch, member.since = batch, time.monotonic()
        if self.state.is_cuda:  # another process does not wait for this one's stream
            torch.cuda.current_stream(self.state.device).synchronize()
        with contextlib.suppress(OSError):  # a dead worker is found by poll
            member.connection.send(BATCH)
        return True

    def poll(self, timeout: float = 0.0) -> list[Batch]:
        """Notes finished batches; returns those whose worker failed, which must be inferred again.

        Raises:
            WorkerFailure: when there were more than ``max_faults`` faults.
        """
        lost: list[Batch] = []
        by_socket = {member.connection: member for member in self._members}
        readable, _, _ = select.select(list(by_socket), [], [], timeout)
        for connection in readable:
            self._read(by_socket[connection], lost)
        now = time.monotonic()
        for member in list(self._members):
            limit = self.options.limit if member.ready else self.options.start_limit
            if (member.batch is not None or not member.ready) and now - member.since > limit:
                what = "infer" if member.ready else "start"
                detail = f"inference worker {member.number} took more than {limit:g} s to {what}"
                self._replace(member, "hung", detail, lost)
        return lost

    def _read(self, member: _Member, lost: list[Batch]) -> None:
        try:
            kind = member.connection.recv(1)
        except ConnectionResetError:  # it died with a message unread
            kind = b""
        if kind == READY:
            member.ready = True
        elif kind == DONE and member.batch is not None:
            self.finished.append((len(member.batch.envs), float(self._seconds[member.number])))
            member.batch = None
        elif kind == ERROR:
            data = b""
            while chunk := member.connection.recv(65536):
                data += chunk
            trace = pickle.loads(data)
            detail = f"inference worker {member.number} raised:\n{trace}"
            self._replace(member, "raised", detail, lost)
        else:
            detail = (
                f"inference worker {member.number} (pid {member.process.pid}) died without a "
                "traceback (killed, out of memory or a crash in C code)"
            )
            self._replace(member, "died", detail, lost)

    def _replace(self, member: _Member, kind: str, detail: str, lost: list[Batch]) -> None:
        member.process.kill()
        member.process.wait()
        member.connection.close()
        # If the actions went out, everything had been written before.
        if member.batch is not None and not self._head[member.number, 2]:
            lost.append(member.batch)
        self.fault_count += 1
        self.faults.append(Fault((), kind, detail, "inference worker"))
        if self.fault_count > self.options.max_faults:
            raise WorkerFailure(
                f"inference workers failed {self.fault_count} times, more than "
                f"collect.max_faults={self.options.max_faults} allows (the same command goes on "
                f"from the last checkpoint); the last one: {detail}"
            )
        self._members[self._members.index(member)] = self._start(member.number)

    def reconnect(self) -> None:
        """Tells the workers about environment workers that were replaced."""
        for member in self._members:
            self._send_links(member)

    def take_faults(self) -> list[Fault]:
        """Returns and forgets the failures since the last call."""
        faults, self.faults = self.faults, []
        return faults

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [member.process.pid for member in self._members]

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        for member in self._members:
            with contextlib.suppress(OSError):
                member.connection.shutdown(socket.SHUT_RDWR)
            member.connection.close()
        for member in self._members:
            try:
                member.process.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                member.process.send_signal(signal.SIGKILL)
                member.process.wait()
        self._members = []
        self._data.close()
        self._batch.close()
