"""What one rank does in the tests of distributed training; run as a script by each rank."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_learner import make_learner
from ver_trainer import load_config
from ver_trainer.checkpoint import CheckpointManager
from ver_trainer.config import TrainConfig
from ver_trainer.distributed.group import Group
from ver_trainer.distributed.preemption import TimePreemption
from ver_trainer.errors import StorageError
from ver_trainer.parts import build
from ver_trainer.rollout.batch import Rollout
from ver_trainer.runner import Runner


def gradient(out: Path) -> None:
    """Saves this rank's data, and the gradient after averaging over ranks."""
    group = Group.from_environment()
    learner, _ = make_learner(0, learned_entropy=True, entropy_target=0.1)
    _, storage = make_learner(10 + group.rank)
    learner.group = group
    rollout = Rollout(storage, learner.ppo, learner.recurrent)
    rollout.compute_gae()
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    learner.losses(batch).total.backward()
    group.average_gradients(learner.parameters)
    torch.save([p.grad for p in learner.parameters], out / f"gradient{group.rank}.pt")
    group.close()


def small_config(out: Path, *overrides: str, **values: Any) -> TrainConfig:
    """A run of 64 steps a rank and update in ``out/run``."""
    return load_config(
        ["total_steps=1024", *overrides],
        out=str(out / "run"),
        **{"log.progress": False, "log.tensorboard": False, "collect.num_envs": 4,
           "collect.steps": 16, "net.mlp": [8], "net.core": "lstm", "net.core_size": 8, **values},
    )  # fmt: skip


def training(out: Path, *overrides: str) -> None:
    """Trains and saves this rank's final weights; with ``straggler`` rank 0 is the slow one."""
    env_args: dict[str, Any] = {"kind": "Ragged"}
    if "straggler" in overrides and os.environ["RANK"] == "0":
        env_args = {"kind": "Faulty", "seconds": 0.01}
    config = small_config(out, *(x for x in overrides if "=" in x), env_args=env_args)
    runner = Runner(config, make)
    rank = runner.parts.group.rank
    result = runner.run()
    torch.save(runner.parts.policy.state_dict(), out / f"weights{rank}.pt")
    found = [result.steps, result.updates, result.mean_return, len(runner.episodes.ended)]
    (out / f"result{rank}.json").write_text(json.dumps(found))
    threads = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
    assert not any("gloo" in name for name in threads), f"the group's threads stay: {threads}"


def failing(out: Path) -> None:
    """Trains with an environment that fails once, on the last rank only."""
    env_args = {"kind": "Faulty"}
    if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
        env_args |= {"fault": "raise", "marker": str(out / "failed")}
    values: dict[str, Any] = {"env_args": env_args, "log.progress": True}
    Runner(small_config(out, **values), make).run()


def connecting(out: Path) -> None:
    """Saves how ranks that train on CPUs are connected on a machine that has a GPU."""
    torch.cuda.is_available = lambda: True
    parts = build(small_config(out, "device=cpu", "collector=inline"))
    (out / f"backend{parts.group.rank}").write_text(torch.distributed.get_backend())
    parts.group.close()


def deciding(out: Path) -> None:
    """Two rollouts of 100 steps that are planned to take 0.1 s; saves how they ended.

    In the first one every step takes half as long again, in the second one rank 1 stops.
    """
    group = Group.from_environment()
    preemption = TimePreemption(group, 100)
    preemption.end(0.0)
    ended = []
    for seconds, most in ((0.0015, 100), (0.001, 100 if group.is_first else 10)):
        preemption.begin(np.array([0.001]))
        begin, steps = time.perf_counter(), 0
        while steps < 100 and not preemption.should_end(steps):
            time.sleep(seconds)
            steps = min(int((time.perf_counter() - begin) / seconds), most)
        ended.append({"steps": steps, "seconds": time.perf_counter() - begin})
        preemption.collected(steps)
    (out / f"steps{group.rank}.json").write_text(json.dumps(ended))
    group.barrier()
    group.close()


def full_disk(out: Path) -> None:
    """Writes a checkpoint, then another one for which the second rank has no room."""
    group = Group.from_environment()
    manager = CheckpointManager(out / "checkpoints", keep=3)
    rest = ({"w": torch.zeros(9)}, {}, {"rank": group.rank}, {}, None, "return", group)
    manager.save(1, *rest)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if group.rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, most))
    try:
        manager.save(2, *rest)
    except StorageError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        (out / f"said{group.rank}").write_text(str(error))
    group.close()


def batches(out: Path, kind: str) -> None:
    """Trains on a batch of worlds; saves what this rank saw and its final weights.

    Where it is of tensors the second rank steps twenty times slower.
    """
    from tests.ver_trainer.test_batched import Worlds
    from tests.ver_trainer.test_vector_envs import batch

    tensors = kind == "tensors"
    values: dict[str, Any] = {"collect.num_envs": 6, "collector": "workers"}
    if tensors:
        pause = 0.1 if os.environ["RANK"] == "1" else 0.005
        values |= {"collector": "inline", "env_args": {"pause": pause}}
    runner = Runner(small_config(out, **values), Worlds if tensors else batch)
    parts = runner.parts
    collect, ended = parts.collector.collect, []

    def noted() -> Any:
        stats = collect()
        ended.append(stats.ended_early)
        return stats

    parts.collector.collect = noted
    runner.run()
    preempts = isinstance(parts.preemption, TimePreemption)
    found = {
        "weights": [float(p.sum()) for p in parts.policy.parameters()],
        "preempts": preempts and np.isfinite(parts.preemption.planned_seconds),
        "seed": parts.pool.seed if tensors else parts.pool.options.seed_offset,
        "observed": float(parts.storage.obs["t" if tensors else "obs"].double().sum()),
        "early": float(np.mean(ended)),
        "success": np.mean([e.info["success"] for e in runner.episodes.ended]),
    }
    (out / f"batch{parts.group.rank}.json").write_text(json.dumps(found, default=bool))


def signalled(out: Path) -> None:
    """Trains until the second rank alone is told to stop; saves what each says of it."""
    runner = Runner(small_config(out, "total_steps=1000000", env_args={"kind": "Ragged"}), make)
    rank = runner.parts.group.rank
    if rank == 1:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    result = runner.run()
    (out / f"signal{rank}.json").write_text(json.dumps([result.finished, result.signal]))


if __name__ == "__main__":
    known = (gradient, training, failing, connecting, deciding, full_disk, batches, signalled)
    jobs = {f.__name__: f for f in known}
    jobs[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
