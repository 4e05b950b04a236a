"""Trainings as trials of Ray Tune, whose schedulers end the hopeless ones early."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tpsrl.launch.cluster import connected
from tpsrl.launch.config import LaunchConfig, need

J = TypeVar("J")
Report = Callable[[int, float], None]
"""Told the steps of a training so far and its score."""
SCHEDULERS = ("none", "asha", "median")


def run_trials(
    launch: LaunchConfig,
    train: Callable[[J, Report], None],
    jobs: Sequence[J],
    ended: Callable[[J], None],
    *,
    out: Path,
    workers: int,
    scheduler: str,
    steps: int,
) -> list[J]:
    """Run trainings; each goes on from its own checkpoint where its process or node was lost.

    Args:
        launch: which cluster, and cores and GPUs of a training.
        train: importable; runs a job and reports how well it does.
        jobs: picklable.
        ended: called here when a job has ended, by itself or by the scheduler.
        out: Ray keeps its notes in ``out/ray``.
        workers: cores of a cluster that is started here.
        scheduler: one of ``SCHEDULERS``.
        steps: of a whole training; nobody is ended in the first tenth.

    Returns:
        The jobs that failed more than ``launch.restarts`` times.

    Raises:
        UserError: Ray is not there.
    """
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # Ctrl-C ends the command
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # the new one is not silent when told so
    cores = launch.cpus or 1
    with connected(launch, max(workers, cores)):
        tune = need("ray.tune")
        failed: list[J] = []

        class Counter(tune.Callback):  # type: ignore[name-defined, misc]
            """Tells of the end of each trial here, in the process that asked."""

            def on_trial_complete(self, *, trial: Any, **info: Any) -> None:
                """It ended by itself or by the scheduler."""
                ended(jobs[trial.config["number"]])

            def on_trial_error(self, *, trial: Any, **info: Any) -> None:
                """It failed more often than it may."""
                failed.append(jobs[trial.config["number"]])

            def __reduce__(self) -> Any:  # Ray keeps its settings in a file; this is of here
                return tune.Callback, ()

        resources = {"cpu": cores} | ({"gpu": launch.gpus} if launch.gpus else {})
        parameters = {"train": train, "jobs": list(jobs), "folder": os.getcwd()}
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(_trial, **parameters), resources),
            param_space={"number": tune.grid_search(list(range(len(jobs))))},
            tune_config=tune.TuneConfig(
                metric="score", mode="max", scheduler=_scheduler(scheduler, steps)
            ),
            run_config=tune.RunConfig(
                name="trials",
                storage_path=str((out / "ray").resolve()),
                failure_config=tune.FailureConfig(max_failures=launch.restarts),
                callbacks=[Counter()],
                verbose=0,
            ),
        )
        tuner.fit()
    return failed


def _trial(config: dict[str, Any], train: Any, jobs: Sequence[Any], folder: str) -> None:
    """Run one job in a Ray worker."""
    tune = need("ray.tune")
    os.chdir(folder)

    def report(step: int, score: float) -> None:
        tune.report({"step": step, "score": score})

    train(jobs[config["number"]], report)


def _scheduler(name: str, steps: int) -> Any:
    """Return Ray's scheduler of a name, ``None`` for none."""
    schedulers = need("ray.tune.schedulers")
    least = max(steps // 10, 1)
    if name == "asha":
        # A training ends by itself, after its last checkpoint: the scheduler must not be first.
        return schedulers.ASHAScheduler(
            time_attr="step", max_t=steps, grace_period=least, stop_last_trials=False
        )
    if name == "median":
        return schedulers.MedianStoppingRule(time_attr="step", grace_period=least)
    return None
