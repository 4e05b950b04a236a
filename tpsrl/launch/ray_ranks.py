"""Ranks of one training under Ray Train, begun again from the checkpoint where a node is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tpsrl.errors import UserError
from tpsrl.launch.cluster import connected
from tpsrl.launch.config import LaunchConfig, need
from tpsrl.launch.start import HERE, Run


def ray_ranks(launch: LaunchConfig, command: str, run: Run, words: Sequence[str], out: Path) -> int:
    """Run a command as ``launch.ranks`` ranks; with fewer while the cluster has no room for all.

    The ranks go on from the newest checkpoint in ``out``, which all nodes must see.

    Args:
        launch: which cluster, how many ranks, cores and GPUs of each.
        command: its name.
        run: the command.
        words: of a training; ``resume=loose`` comes before them, for only so may ranks become
            fewer.
        out: the run folder; Ray keeps its notes in ``out/ray``.

    Returns:
        0.

    Raises:
        UserError: Ray is not there, or the training failed more than ``launch.restarts`` times.
    """
    if launch.dry_run:
        where = launch.address or "a cluster that starts here"
        print(f"'tpsrl {command}' would run as 1 to {launch.ranks} ranks of Ray Train on {where}")
        return 0
    # So long Ray waits for a node that is gone before it makes do with those that are left.
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "30")
    cores = launch.cpus or 1
    print(f"1 to {launch.ranks} ranks under Ray Train; their progress is in '{out}/metrics.jsonl'")
    with connected(launch, launch.ranks * cores):
        train, torch = need("ray.train"), need("ray.train.torch")
        resources = {"CPU": float(cores)} | ({"GPU": float(launch.gpus)} if launch.gpus else {})
        trainer = torch.TorchTrainer(
            _rank,
            train_loop_config={
                "run": run,
                "words": ["resume=loose", *words, HERE],
                "folder": os.getcwd(),
            },
            scaling_config=train.ScalingConfig(
                num_workers=(1, launch.ranks),
                use_gpu=launch.gpus > 0,
                resources_per_worker=resources,
                # Growing again is done at a restart: in between it would cost unsaved updates.
                elastic_resize_monitor_interval_s=_NEVER,
            ),
            run_config=train.RunConfig(
                name="ranks",
                storage_path=str((out / "ray").resolve()),
                failure_config=train.FailureConfig(max_failures=launch.restarts),
            ),
        )
        try:
            _fit(trainer)
        except train.TrainingFailedError as error:
            raise UserError(_reason(error, launch)) from error
    print(f"done, in '{out}'")
    return 0


_NEVER = 1e9


def _fit(trainer: Any) -> None:
    """Train in another thread: in the main one Ray answers Ctrl-C itself, by a code of its own."""
    ended: Future[None] = Future()

    def work() -> None:
        try:
            trainer.fit()
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    ended.result()


def _rank(settings: dict[str, Any]) -> None:
    """What a Ray worker does; Ray Train has joined the ranks before."""
    os.chdir(settings["folder"])
    code = settings["run"](settings["words"])
    if code:
        raise RuntimeError(f"a rank ended with code {code}")


def _reason(error: BaseException, launch: LaunchConfig) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    last = lines[-1].strip() if lines else type(error).__name__
    return (
        f"the ranks failed more than launch.restarts={launch.restarts} times, at last with: {last};"
        " the same command goes on from the newest checkpoint"
    )
