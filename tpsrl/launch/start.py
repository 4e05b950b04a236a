"""Starts a command elsewhere: as ranks of torchrun, or as a job of SLURM."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tpsrl.errors import UserError
from tpsrl.launch.config import LaunchConfig, need

Run = Callable[[list[str]], int]
"""A command: words -> exit code. Importable, since jobs are pickled by its name."""
HERE = "launch=local"
"""The last word of a command that has been started where it runs."""


def torchrun(launch: LaunchConfig, command: str, words: Sequence[str]) -> int:
    """Become ``torchrun`` with this command as its ranks; run it once on every node.

    Raises:
        UserError: several nodes and no address.
    """
    if launch.nodes > 1 and launch.address is None:
        raise UserError(
            f"launch.nodes={launch.nodes} need launch.address=HOST:PORT, the first of them and a "
            "free port there, the same on all"
        )
    group = ["--standalone"]
    if launch.address is not None:
        group = [f"--nnodes={launch.nodes}", "--rdzv-backend=c10d"]
        group += [f"--rdzv-endpoint={launch.address}"]
    line = [sys.executable, "-m", "torch.distributed.run", *group]
    line += [f"--nproc-per-node={launch.ranks}", f"--max-restarts={launch.restarts}"]
    line += ["-m", "tpsrl", command, *words, HERE]
    if launch.dry_run:
        print(shlex.join(line))
        return 0
    sys.stdout.flush()
    os.execv(sys.executable, line)


class SlurmJob:
    """What SLURM runs; ``submitit`` pickles it, and starts it again after its signal.

    Args:
        run: the command.
        words: its words.
    """

    def __init__(self, run: Run, words: Sequence[str]) -> None:
        self._run, self._words = run, [*words, HERE]

    def __call__(self) -> int:
        """Run the command in a task of the job."""
        number = getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"))
        put_back = signal.getsignal(number)
        code = self._run(list(self._words))
        if code == 128 + number and callable(put_back):
            # A training answers the signal by a checkpoint; only now may the job end.
            put_back(number, None)
        elif code:
            raise SystemExit(code)
        return code

    def checkpoint(self) -> Any:
        """Return what runs after the job was put back: the same, which goes on by itself."""
        return need("submitit").helpers.DelayedSubmission(self)


def slurm(
    launch: LaunchConfig, name: str, jobs: Sequence[SlurmJob], ranks: int = 1, cpus: int = 1
) -> int:
    """Submit jobs, several of them as an array, and say what they are called.

    Args:
        launch: nodes and limits.
        name: of the job.
        jobs: what to run.
        ranks: tasks of each machine.
        cpus: cores of a task where ``launch.cpus`` says nothing.

    Raises:
        UserError: no SLURM here, or it refuses the job.
    """
    submitit = need("submitit")
    executor = _executor(launch)
    sizes: dict[str, Any] = {"nodes": launch.nodes, "ntasks_per_node": ranks}
    sizes |= {"cpus_per_task": launch.cpus or cpus, "time": launch.minutes}
    if launch.gpus:
        sizes["gpus_per_node"] = launch.gpus
    if launch.memory is not None:
        sizes["mem"] = f"{round(1024 * launch.memory)}M"
    if launch.partition is not None:
        sizes["partition"] = launch.partition
    others = {"requeue": True, **launch.sbatch}
    executor.update_parameters(job_name=name, additional_parameters=others, **sizes)
    if launch.dry_run:
        more = f"for each of {len(jobs)} jobs, as an array:\n" if len(jobs) > 1 else ""
        command = executor._submitit_command_str
        print(more + executor._make_submission_file_text(command, "dry_run"))
        return 0
    refusals = submitit.core.utils
    try:
        submitted = executor.submit_array(jobs)
    except (refusals.FailedJobError, refusals.FailedSubmissionError) as error:
        raise UserError(f"SLURM refused the job: {error}") from None
    for job in submitted:
        print(f"submitted {name} as job {job.job_id}; its messages: {job.paths.stderr}")
    return 0


def as_one_job(
    launch: LaunchConfig, command: str, run: Run, words: Sequence[str], workers: int
) -> int | None:
    """Start a command of many small jobs elsewhere, if that is not for its pool of workers to do.

    Args:
        launch: where.
        command: its name.
        run: it.
        words: as they were given.
        workers: cores that it uses.

    Returns:
        Its exit code; ``None`` if it runs here, with workers here or on a Ray cluster.

    Raises:
        UserError: the engine has no use for such a command.
    """
    if launch.engine == "torchrun":
        raise UserError(
            f"launch=torchrun makes ranks of one training, which {command} is not: use local,"
            " slurm or ray"
        )
    if launch.engine == "slurm" and launch.nodes > 1:
        raise UserError(
            f"launch.nodes={launch.nodes}: {command} under SLURM is a job of one machine; for"
            " several use launch=ray on a Ray cluster"
        )
    if launch.engine == "slurm":
        return slurm(launch, command, [SlurmJob(run, words)], cpus=workers)
    if launch.dry_run:
        where = f"the Ray cluster {launch.address or 'that starts here'}"
        where = where if launch.engine == "ray" else f"{workers} processes of this machine"
        print(f"the jobs of 'tpsrl {command}' would run on {where}")
        return 0
    return None


def _executor(launch: LaunchConfig) -> Any:
    module = need("submitit.slurm.slurm")

    class Executor(module.SlurmExecutor):  # type: ignore[name-defined, misc]
        """One that can also be asked what it would do where there is no SLURM."""

        @classmethod
        def affinity(cls) -> int:
            return 2 if launch.dry_run else super().affinity()

    try:
        return Executor(launch.folder.resolve(), max_num_timeout=launch.restarts)
    except RuntimeError:
        raise UserError(
            "launch=slurm found no srun here: run it on a login node of the cluster, or give "
            "launch.dry_run=true"
        ) from None
