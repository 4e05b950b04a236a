"""``tpsrl train``: trains a policy on any Gymnasium environment with ``ver_trainer``."""

from __future__ import annotations

from skills import series, training
from ver_trainer.config import TrainConfig

CONFIG = (training.SkillTraining, TrainConfig)

HELP = """Trains a policy with VER. The same command again continues the run in `out`.

  tpsrl train skill=pick env_args.episodes=train.json.gz out=runs/pick
  tpsrl train skill=pick pretrain=scripted imitate.episodes=400 env_args.episodes=train.json.gz
  tpsrl train skill=pick config=teacher out=runs/pick
  tpsrl train skills=all config=teacher out=runs/teachers
  tpsrl train env=CartPole-v1 scheme=ver total_steps=200000 out=runs/cartpole
  tpsrl train config=laptop env=package.module:Name-v0 out=runs/mine

config= reads a YAML file of the keys below, or one that ships: with skill= laptop (the default),
paper and others of configs/skills, otherwise one of configs/train. It may be repeated, and a file
may name the one that it changes (base: FILE). pretrain=scripted makes demonstrations, cloning and
DAgger first. docs/trainer.md and docs/training_skills.md say more."""


def run(overrides: list[str]) -> int:
    """Trains; returns 0 when done, 128 + the signal's number when a signal stopped the run."""
    several = series.wanted(overrides)
    result = series.run(several, overrides) if several else training.run(overrides)
    if result is None:
        return 0
    if result.signal:
        return 128 + result.signal
    print(
        f"done: {result.steps:,} steps, {result.updates:,} updates, mean return of the last "
        f"episodes {result.mean_return:.4g}, in '{result.folder}'"
    )
    return 0
