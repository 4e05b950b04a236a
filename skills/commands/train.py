"""``tpsrl train``: trains a policy on any Gymnasium environment with ``ver_trainer``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from skills import series, training
from tpsrl.cli import commands
from tpsrl.launch.ray_ranks import ray_ranks
from tpsrl.launch.start import SlurmJob, slurm, torchrun
from ver_trainer.config import TrainConfig
from ver_trainer.runner import TrainResult

CONFIG = (training.SkillTraining, TrainConfig)

HELP = """Trains a policy with VER. The same command again continues the run in `out`.

  tpsrl train skill=pick out=runs/pick                          a student of the teacher that ships
  tpsrl train skill=pick config=teacher out=runs/teacher_pick
  tpsrl train skill=pick teacher=runs/teacher_pick out=runs/pick
  tpsrl train skills=all out=runs/skills                        every teacher, then every student
  tpsrl train skills=[place] teachers=3 out=runs/skills         three, one of all three, its student
  tpsrl train env=CartPole-v1 scheme=ver total_steps=200000 out=runs/cartpole
  tpsrl train config=laptop env=package.module:Name-v0 out=runs/mine
  tpsrl train launch=slurm launch.nodes=2 launch.ranks=8 launch.gpus=8 config=paper ...

config= reads a YAML file of the keys below, or one that ships: with skill= one of configs/skills
(student by default, laptop for skills of which no teacher ships), otherwise one of configs/train.
It may be repeated, and a file may name the one that it changes (base: FILE). launch=torchrun,
slurm or ray trains with many ranks (docs/cluster.md). More: docs/training_skills.md and
docs/trainer.md."""


def run(overrides: list[str]) -> int:
    """Trains; returns 0 when done, 128 + the signal's number when a signal stopped the run."""
    several = series.wanted(overrides)
    if several:
        result = series.run(several, overrides)
        return _ended(result, following(None, result.folder.parent) if result else [])
    keys, config = training.parse(overrides)
    code = _elsewhere(keys, Path(config.out), overrides)
    if code is not None:
        return code
    actions = str(config.env_args.get("actions", "full"))
    return _ended(training.run(overrides), following(keys.skill, Path(config.out), actions))


def _ended(result: TrainResult | None, after: Sequence[str]) -> int:
    if result is not None and result.signal:
        return 128 + result.signal
    if os.environ.get("RANK", "0") != "0":
        return 0
    if result is not None:
        print(
            f"done: {result.steps:,} steps, {result.updates:,} updates, mean return of the last "
            f"episodes {result.mean_return:.4g}, in '{result.folder}'"
        )
    if after:
        print("\n".join(["next:", *(f"  {line}" for line in after)]))
    return 0


def following(skill: str | None, out: Path, actions: str = "full") -> list[str]:
    """Return the commands that a training makes possible, as far as they are installed.

    Args:
        skill: that was trained; ``None`` for another environment, or for several skills.
        out: the run folder, or the folder of several skills' runs.
        actions: ``"full"`` or ``"restricted"``.
    """
    weights = f"weights={shlex.quote(str(out))}"
    runs = (out / "checkpoints").is_dir()
    if skill is None:
        lines: list[tuple[str, ...]] = [("export", weights, "format=onnx")] if runs else []
        lines += [] if runs else [("eval", "scenario=set_table", "agent=tpsrl", weights)]
    else:
        own = "actions=restricted" if actions == "restricted" else ""
        lines = [
            (command, f"skill={skill}", weights, own) for command in ("eval", "record", "view")
        ]
        lines += [("export", weights, "format=onnx")]
    known = commands()
    return [
        " ".join(["tpsrl", command, *filter(None, words)])
        for command, *words in lines
        if command in known
    ]


def _elsewhere(keys: training.TrainKeys, out: Path, words: list[str]) -> int | None:
    """Start the ranks that ``launch=`` asks for; ``None`` if this process is the training."""
    launch = keys.launch
    if launch.engine == "torchrun":
        return torchrun(launch, "train", words)
    if launch.engine == "slurm":
        return slurm(launch, "train", [SlurmJob(run, words)], launch.ranks)
    if launch.dry_run and launch.engine == "local":
        print(f"'tpsrl train' would run in this process, in '{out}'")
        return 0
    if launch.engine == "ray":
        return ray_ranks(launch, "train", run, words, out)
    return None
