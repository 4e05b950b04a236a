"""``tpsrl average``: one policy from several that began as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from skills.learned.find import find_file, trained_in
from skills.learned.inference import read_weights
from tpsrl.errors import UserError
from ver_trainer.export import average_policies, save_policy
from ver_trainer.options import load, option

HELP = """Write the policy whose weights are the mean of those of several.

  tpsrl average 'weights=[runs/a/checkpoints/update_000000040,runs/b]' out=mean.safetensors

Each of weights= is a run folder (its best checkpoint, else the latest), a checkpoint or a weights
file of policies that began with the same weights."""


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
    files = [find_file(weights) for weights in config.weights]
    mean = average_policies(files)  # which refuses an empty list
    save_policy(mean, config.out, trained_in(files[0], read_weights(files[0])[1]))
    print(config.out)
    return 0
