"""The word ``launch=`` and its options; what each engine can start is said in one place."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tpsrl.errors import UserError
from ver_trainer.options import option

ENGINES = ("local", "torchrun", "slurm", "ray")
_EXTRAS = {"submitit": "slurm", "ray": "ray"}


@dataclass
class LaunchConfig:
    """Keys of ``launch``."""

    engine: str = option("local", "who starts the work (docs/cluster.md)", choices=ENGINES)
    address: str | None = option(
        None, "torchrun: HOST:PORT of the first node; ray: of a cluster, or auto; null: here alone"
    )
    nodes: int = option(1, "machines: torchrun, slurm; ray takes what the cluster has", min=1)
    ranks: int = option(1, "train: of each machine; ray: of all", min=1)
    cpus: int | None = option(
        None, "cores of a rank or job; null: 1, and for slurm workers=", min=1
    )
    gpus: int = option(0, "GPUs: slurm of a machine, ray of a rank", min=0)
    memory: float | None = option(None, "slurm: GB of a machine; null: the partition's", above=0)
    partition: str | None = option(None, "slurm: where; null: the default one")
    minutes: int = option(60, "slurm: wall-clock limit, after which the job is queued again", min=1)
    restarts: int = option(3, "times that work goes on after a fault or the time limit", min=0)
    folder: Path = option(Path("outputs/launch"), "slurm: scripts and logs; all nodes must see it")
    sbatch: dict[str, Any] = option({}, "slurm: other words for sbatch; launch.sbatch.account=x")
    dry_run: bool = option(False, "print what would be started, and start nothing")


LAUNCH = {"word": "engine"}
"""Metadata of a command's key ``launch``: ``launch=ray`` is ``launch.engine=ray``."""


def need(module: str) -> ModuleType:
    """Import the library of an engine.

    Raises:
        UserError: it is not installed.
    """
    extra = _EXTRAS[module.partition(".")[0]]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(
            f"launch={extra} needs {error.name}, which is not installed: "
            f"pip install 'tpsrl[{extra}]'"
        ) from None
