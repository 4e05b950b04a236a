"""Configuration of the losses beside the algorithm's own."""

from __future__ import annotations

from dataclasses import dataclass

from ver_trainer.errors import ConfigError
from ver_trainer.options import option


@dataclass
class DistillConfig:
    """Learning from a teacher that labels every step which the policy collects."""

    teacher: str = option("", "policy that labels: run folder, checkpoint or weights file")
    others: list[str] = option(
        [], "further ones, all without memory: whose critic promises most labels"
    )
    coef: list[float] = option(
        [1.0], "weight of its loss along the training, e.g. [1, 0] falls to 0 at the end", min=0
    )
    ppo_coef: list[float] = option(
        [0.0], "weight of PPO's policy loss and entropy along it, e.g. [0, 0, 1]", min=0
    )
    loss: str = option(
        "kl",
        "KL(teacher || policy), or minus the log probability of the teacher's surest action",
        choices=("kl", "action"),
    )
    choice_coef: float = option(
        1.0, "weight of each of net.binary_actions in loss=action; the others have 1", min=0
    )


@dataclass
class CPCConfig:
    """Auxiliary loss CPC|A: what will be seen after the actions to come (Guo et al. 2018)."""

    coef: float = option(0.0, "weight of the loss; 0: none", min=0)
    steps: int = option(20, "most steps ahead that are predicted", min=1)
    samples: int = option(256, "rows of a mini-batch that predictions start from", min=1)
    negatives: int = option(20, "wrong observations for each right one", min=1)
    size: int = option(128, "units of the predictor", min=1)


def check_extras(distill: DistillConfig, cpc: CPCConfig, core: str) -> None:
    """Refuses what cannot work.

    Raises:
        ConfigError: for the first problem found.
    """
    if not distill.teacher and distill != DistillConfig():
        raise ConfigError(
            "distill.* needs somebody to learn from: give distill.teacher=PATH, or leave them out"
        )
    for key in ("coef", "ppo_coef"):
        if not getattr(distill, key):
            raise ConfigError(f"distill.{key} is empty: give at least one number, e.g. [1.0]")
    if distill.loss == "kl" and distill.choice_coef != 1.0:
        raise ConfigError(
            f"distill.choice_coef={distill.choice_coef:g} weighs choices in distill.loss=action"
            " alone: use that loss, or distill.choice_coef=1"
        )
    if cpc.coef and core == "none":
        raise ConfigError(
            "cpc.coef trains a memory to know what comes, and net.core=none has none: use "
            "net.core=lstm, or cpc.coef=0"
        )
