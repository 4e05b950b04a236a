"""``tpsrl average``: one policy from several that began as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tpsrl.errors import UserError
from ver_trainer.export import average_policies, save_policy
from ver_trainer.options import load, option

HELP = """Write the policy whose weights are the mean of those of several.

  tpsrl average 'weights=[runs/a/checkpoints/update_000000040,runs/b]' out=mean.safetensors

Each of weights= is a weights file, a checkpoint or a run folder (its best checkpoint, else the
latest) of policies that began with the same weights."""


@dataclass
class AverageConfig:
    """Keys of ``tpsrl average``."""

    weights: list[Path] = field(metadata={"help": "files, checkpoints or runs, two or more"})
    out: Path = option(Path("mean.safetensors"), "file to write")


CONFIG = AverageConfig


def run(overrides: list[str]) -> int:
    """Average and write."""
    config = load(AverageConfig, overrides)
    if config.out.suffix != ".safetensors":
        raise UserError(f"out={config.out} must end in .safetensors")
    save_policy(average_policies(config.weights), config.out)
    print(config.out)
    return 0
