"""What one rank does in the tests of distributed training; run as a script by each rank."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_learner import make_learner
from ver_trainer import load_config
from ver_trainer.checkpoint import CheckpointManager
from ver_trainer.distributed.group import Group
from ver_trainer.errors import StorageError
from ver_trainer.rollout.batch import Rollout


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


def training(out: Path, *overrides: str) -> None:
    """Trains and saves this rank's final weights."""
    kind = "Slow" if "slow" in overrides else "Ragged"
    config = load_config(
        [x for x in overrides if x != "slow"],
        out=str(out / "run"),
        env_args={"kind": kind},
        total_steps=1024,
        **{"log.progress": False, "log.tensorboard": False, "collect.num_envs": 4,
           "collect.steps": 16, "net.mlp": [8], "net.core": "lstm", "net.core_size": 8},
    )  # fmt: skip
    from ver_trainer.runner import Runner

    runner = Runner(config, make)
    rank = runner.parts.group.rank
    result = runner.run()
    torch.save(runner.parts.policy.state_dict(), out / f"weights{rank}.pt")
    (out / f"result{rank}.json").write_text(json.dumps([result.steps, result.updates]))


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


if __name__ == "__main__":
    kinds = {"gradient": gradient, "training": training, "full_disk": full_disk}
    kinds[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
