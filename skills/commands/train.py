"""``tpsrl train``: trains a policy on any Gymnasium environment with ``ver_trainer``."""

from __future__ import annotations

import textwrap

from skills.book import BOOK
from tpsrl.errors import UserError
from ver_trainer.config import TrainConfig, load_config
from ver_trainer.errors import TrainerError

CONFIG = TrainConfig
SKILLS = textwrap.fill(", ".join(BOOK), 80, subsequent_indent=15 * " ")

HELP = f"""tpsrl train [config=FILE.yaml] key=value ...

Trains a policy with VER. The same command again continues the run in `out`.

  tpsrl train skill=pick env_args.episodes=train.json.gz out=runs/pick
  tpsrl train skill=pick pretrain=scripted imitate.episodes=400 env_args.episodes=train.json.gz

  tpsrl train env=CartPole-v1 scheme=ver total_steps=200000 out=runs/cartpole
  tpsrl train config=configs/train/laptop.yaml env=package.module:Name-v0 out=runs/mine

  skill        {SKILLS};
               config=laptop (default) or paper; see docs/training_skills.md
  pretrain     scripted: demonstrations, cloning and DAgger first; imitate.* are its keys;
               finetune=false ends there
  env          Gymnasium id; 'package.module:Name-v0' imports the module that registers it
  scheme       ver, nover, ddppo, htsrl or async
  collector    workers (processes) or inline (deterministic, resumes bit for bit)
  seed, total_steps, out, device, pretrained, resume
  collect.*, net.*, ppo.*, optim.*, log.*   see docs/trainer.md
"""


def run(overrides: list[str]) -> int:
    """Trains; returns 0 when done, 128 + the signal's number when a signal stopped the run."""
    try:
        if any(word.startswith("skill=") for word in overrides):
            from skills.training import train_skill

            result = train_skill(overrides)
        else:
            config = load_config(overrides)
            from ver_trainer.runner import train

            result = train(config)
    except TrainerError as error:
        raise UserError(str(error)) from error
    if result is None:
        return 0
    if result.signal:
        return 128 + result.signal
    print(
        f"done: {result.steps:,} steps, {result.updates:,} updates, mean return of the last "
        f"episodes {result.mean_return:.4g}, in '{result.folder}'"
    )
    return 0
