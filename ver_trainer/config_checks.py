"""Which values of a run's configuration go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ver_trainer.config_extras import check_extras
from ver_trainer.errors import ConfigError

if TYPE_CHECKING:
    from ver_trainer.config import TrainConfig


def validate_pretrained(config: TrainConfig) -> None:
    """Refuses options that need a pretrained policy where there is none.

    Not part of :func:`validate`: the file may be made between reading the configuration and the
    start of the run.

    Raises:
        ConfigError: naming the option.
    """
    wanted = {
        "ppo.anchor_coef": config.ppo.anchor_coef > 0,
        "net.freeze_norm": config.net.freeze_norm,
        "pretrained_std": config.pretrained_std > 0,
    }
    for key, used in wanted.items():
        if used and not config.pretrained:
            raise ConfigError(f"'{key}' needs a pretrained policy: give pretrained=PATH")
    parts = config.pretrained_parts
    if config.net.freeze_norm and parts and "encoder" not in parts:
        raise ConfigError(
            "'net.freeze_norm' keeps the statistics of a pretrained encoder, and pretrained_parts "
            "has none: add encoder to it, or leave net.freeze_norm out"
        )


def validate(config: TrainConfig) -> None:
    """Refuses combinations that cannot work, with the remedy.

    Raises:
        ConfigError: for the first problem found.
    """
    collect = config.collect
    if config.pretrained_std and config.net.std != "parameter":
        raise ConfigError(
            f"pretrained_std sets a parameter, which net.std={config.net.std} does not have: use "
            "net.std=parameter"
        )
    if collect.steps * collect.num_envs < config.ppo.mini_batches:
        raise ConfigError(
            f"ppo.mini_batches={config.ppo.mini_batches} is more than the "
            f"{collect.steps * collect.num_envs} steps of a rollout: use fewer mini-batches"
        )
    _validate_collect(config)
    if config.log.best_by == "eval" and not config.log.eval_interval:
        raise ConfigError(
            "log.best_by=eval needs evaluations during training: set log.eval_interval, or use "
            "log.best_by=auto"
        )
    _validate_ppo(config)
    _validate_optim(config)
    check_extras(config.distill, config.cpc, config.net.core)
    if config.net.normalize_returns and config.ppo.reward_scale != 1:
        raise ConfigError(
            f"net.normalize_returns=true finds the scale of the rewards, so ppo.reward_scale="
            f"{config.ppo.reward_scale:g} has no use: leave one of them out"
        )


def _validate_collect(config: TrainConfig) -> None:
    collect = config.collect
    if config.scheme in ("htsrl", "async") and config.collector == "inline":
        raise ConfigError(
            f"scheme={config.scheme} overlaps collection and learning, which collector=inline "
            "cannot do: use collector=workers"
        )
    if collect.overlap and (config.scheme != "ver" or config.collector == "inline"):
        raise ConfigError(
            f"collect.overlap=true is for scheme=ver with collector=workers, not scheme="
            f"{config.scheme} with collector={config.collector}: change these, or leave it out"
        )
    if config.resume == "exact" and config.collector != "inline":
        raise ConfigError(
            "resume=exact needs collector=inline, since worker timing cannot be repeated: use "
            "collector=inline or resume=auto"
        )
    if collect.num_inference_workers > 1 and (
        config.collector == "inline" or config.scheme in ("htsrl", "async") or collect.overlap
    ):
        raise ConfigError(
            f"collect.num_inference_workers={collect.num_inference_workers} needs "
            "collector=workers, scheme=ver, nover or ddppo and no overlap: use 1, or change these"
        )
    if max(collect.min_batch, collect.max_batch) > collect.num_envs:
        raise ConfigError(
            f"collect.min_batch and collect.max_batch cannot be above collect.num_envs="
            f"{collect.num_envs}: lower them, or use 0 for the automatic choice"
        )
    if collect.max_batch and collect.min_batch > collect.max_batch:
        raise ConfigError(
            f"collect.min_batch={collect.min_batch} is above collect.max_batch="
            f"{collect.max_batch}: swap them or use 0 for the automatic choice"
        )


def _validate_ppo(config: TrainConfig) -> None:
    if config.ppo.final_gamma and not max(config.ppo.gamma, config.ppo.final_gamma) < 1:
        raise ConfigError(
            f"ppo.gamma={config.ppo.gamma:g} to ppo.final_gamma={config.ppo.final_gamma:g}: a"
            " discount that changes along the training stays below 1"
        )
    if config.ppo.max_std and (config.net.std != "parameter" or config.scheme == "decoupled"):
        raise ConfigError(
            f"ppo.max_std bounds a parameter, which net.std={config.net.std} with scheme="
            f"{config.scheme} does not have here: use net.std=parameter and another scheme"
        )


def _validate_optim(config: TrainConfig) -> None:
    optim, ppo = config.optim, config.ppo
    if optim.schedule == "scaled_to_base" and not optim.batch_scaling:
        raise ConfigError(
            "optim.schedule=scaled_to_base falls from a scaled learning rate: set "
            "optim.batch_scaling, or use optim.schedule=constant"
        )
    if optim.schedule != "kl":
        return
    if ppo.epochs * ppo.mini_batches < 2:
        raise ConfigError(
            "optim.schedule=kl measures what the first gradient step of an update did: use two "
            "of ppo.epochs or ppo.mini_batches, or optim.schedule=constant"
        )
    if 0 < ppo.target_kl <= max(optim.kl_target, optim.final_kl):
        raise ConfigError(
            f"ppo.target_kl={ppo.target_kl:g} ends updates before optim.kl_target="
            f"{optim.kl_target:g} is reached, so lr would only rise: use a higher ppo.target_kl"
        )
    if optim.warmup:
        raise ConfigError(
            "optim.warmup is a rise by the clock and optim.schedule=kl is not: leave one out"
        )
    if optim.min_lr > optim.max_lr:
        raise ConfigError(
            f"optim.min_lr={optim.min_lr:g} is above optim.max_lr={optim.max_lr:g}: swap them"
        )
