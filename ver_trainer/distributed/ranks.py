"""Which rank this process is, where torchrun did not start it: SLURM's variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ver_trainer.errors import TrainerError

_FIRST_PORT, _PORTS = 20_000, 12_000
_FIRST_NODE = re.compile(r"([^\[,]+)(?:\[(\d+)[^\]]*\]([^\[,]*))?")


def adopt_slurm_step() -> None:
    """Gives a task of ``srun`` the variables that torchrun would have set; else does nothing.

    Only ``srun`` sets ``SLURM_STEP_NUM_TASKS``: a batch script or a shell of ``salloc``, which has
    many tasks before it, is one process still.

    Raises:
        TrainerError: if a variable that belongs to a step is missing.
    """
    if "WORLD_SIZE" not in os.environ:
        os.environ.update(of_slurm_step(os.environ))


def of_slurm_step(variables: Mapping[str, str]) -> dict[str, str]:
    """Return torchrun's variables for a task of a SLURM step; none if it is alone.

    Args:
        variables: the environment; ``MASTER_ADDR`` and ``MASTER_PORT`` in it are kept.

    Raises:
        TrainerError: if a variable that belongs to a step is missing.
    """
    if int(variables.get("SLURM_STEP_NUM_TASKS", "1")) <= 1:
        return {}
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID")
    missing = [name for name in (*names, "SLURM_STEP_NODELIST") if not variables.get(name)]
    if missing:
        raise TrainerError(
            f"SLURM_STEP_NUM_TASKS is set but {', '.join(missing)} is not: start the ranks with "
            "srun or torchrun"
        )
    job, step, rank, local = (variables[name] for name in names)
    # A step put back into the queue must not meet what is left of its predecessor.
    turn = int(job) * 7 + int(step) + int(variables.get("SLURM_RESTART_COUNT", "0"))
    found = {
        "MASTER_ADDR": first_node(variables["SLURM_STEP_NODELIST"]),
        "MASTER_PORT": str(_FIRST_PORT + turn % _PORTS),
    }
    found = {name: variables.get(name, value) for name, value in found.items()}
    size = variables["SLURM_STEP_NUM_TASKS"]
    return found | {"WORLD_SIZE": size, "RANK": rank, "LOCAL_RANK": local}


def first_node(nodes: str) -> str:
    """Return the first name of SLURM's list, e.g. ``gpu03`` of ``gpu[03-05,9],login1``.

    Raises:
        TrainerError: if it is no such list.
    """
    found = _FIRST_NODE.match(nodes)
    if found is None:
        raise TrainerError(f"SLURM_STEP_NODELIST={nodes} names no node: set MASTER_ADDR")
    return "".join(part or "" for part in found.groups())
