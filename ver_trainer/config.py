"""Configuration of a run: what every key means, and which values go together.

:func:`load_config` reads YAML files and ``key=value`` words, see :mod:`ver_trainer.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ver_trainer.config_extras import CPCConfig, DistillConfig, check_extras
from ver_trainer.config_learning import OptimConfig, PPOConfig
from ver_trainer.errors import ConfigError
from ver_trainer.options import load, option

SCHEMES = ("ver", "nover", "ddppo", "htsrl", "async", "decoupled")


@dataclass
class CollectConfig:
    """Collection of experience: N environments, T steps each on average."""

    num_envs: int = option(16, "N, environments of this process", min=1)
    steps: int = option(128, "T, steps of a rollout for each environment, on average", min=1)
    worlds: int = option(
        1,
        "environments of one batch, which steps as one; 0: where the id has batches, all of a "
        "worker's, one worker a core",
        min=0,
    )
    envs_per_worker: int = option(
        0, "environments of one worker process; 0: one, or with batches one worker a core", min=0
    )
    threads: int = option(
        1, "torch threads while collecting, unless that overlaps with learning", min=1
    )
    num_inference_workers: int = option(1, "processes that infer, the main one included", min=1)
    min_batch: int = option(
        0,
        "fewest requests of an inference; 0: num_envs / 2, or num_envs / K / 1.5 for K > 1 that"
        " infer",
        min=0,
    )
    max_batch: int = option(
        0, "most requests; 0: num_envs / 2, or 1.5 num_envs / K for K > 1 that infer", min=0
    )
    final_batch: str = option(
        "auto",
        "last batch of a rollout: acted on with the old weights, or after the update; auto: replay"
        " for a policy with memory, unless collection and learning overlap, else dispatch",
        choices=("auto", "dispatch", "replay"),
    )
    step_timeout: float = option(
        60.0, "s that a step may take, times those that its process steps", above=0
    )
    start_timeout: float = option(180.0, "s for making and first resetting one", above=0)
    max_faults: int = option(10, "environments that may fail before the run ends", min=0)
    worker_nice: int = option(0, "niceness of worker processes", min=-20, max=19)
    check_finite: bool = option(True, "refuse NaN and infinity in observations and rewards")
    preempt_fraction: float = option(
        0.6, "ddppo: share of finished ranks that ends a rollout; 1 waits for all", above=0, max=1
    )
    preempt: bool = option(True, "several ranks: end rollouts early where that raises throughput")
    overlap: bool = option(
        False, "ver: collect the next rollout while the learner works on this one"
    )
    storage: str = option(
        "linear", "where a rollout is kept, see Parts of your own", choices=("linear",), open=True
    )
    queue: int = option(2, "async: rollouts collected ahead of the learner", min=1)


@dataclass
class NetConfig:
    """Policy network: an encoder, a core and heads."""

    encoder: str = option(
        "auto",
        "of the observations; auto: cnn if there are images, else mlp",
        choices=("auto", "mlp", "cnn", "resnet18", "se_resnet9"),
        open=True,
    )
    mlp: list[int] = option([64, 64], "layers on the vectors", min=1)
    activation: str = option("tanh", "between layers", choices=("tanh", "relu", "elu"))
    image_features: int = option(512, "features of a picture", min=1)
    fusion: list[int] = option([], "layers on image features and vectors together", min=1)
    width: int = option(32, "resnet18: channels of the first stage", min=1)
    core: str = option("none", "memory", choices=("none", "lstm"))
    core_size: int = option(512, "units of the memory", min=1)
    core_layers: int = option(2, "layers of the memory", min=1)
    actor_obs: list[str] = option(
        [], "observations that the actor reads: names, or patterns such as robot.*; empty: all"
    )
    critic_obs: list[str] = option([], "those that a separate critic reads; empty: all")
    previous_action: bool = option(False, "the core reads the last action beside the features")
    separate_critic: bool = option(False, "the critic has an encoder and core of its own")
    critic_mlp: list[int] = option([], "a separate critic without memory, its layers", min=1)
    normalize_obs: bool = option(False, "running mean and deviation of the vectors")
    normalize_returns: bool = option(
        False, "running mean and deviation of returns: the critic's unit; rewards need no scale"
    )
    std: str = option(
        "parameter", "where the deviation of actions comes from", choices=("parameter", "state")
    )
    initial_std: float = option(1.0, "first standard deviation of actions", above=0, max=2.7)
    binary_actions: list[int] = option([], "dimensions of the action that are -1 or +1")
    binary_initial: list[float] = option(
        [0.05], "their probability of +1 at first: one for all, or one each", above=0, below=1
    )
    noise_correlation: float = option(
        0.0, "of the exploration noise of successive steps", above=-1, below=1
    )
    freeze_norm: bool = option(
        False, "keep the observation statistics of the pretrained policy; its critic's go on"
    )
    compile: bool = option(False, "torch.compile the encoder; needs a C++ compiler")


@dataclass
class LogConfig:
    """What is written, and how often."""

    interval: int = option(1, "updates between records", min=1)
    window: int = option(100, "episodes averaged", min=1)
    tensorboard: bool = option(True, "write TensorBoard files")
    wandb: bool = option(False, "write to Weights & Biases; needs tpsrl[wandb]")
    wandb_project: str = option("ver_trainer", "project there")
    progress: bool = option(True, "show progress on the terminal")
    checkpoint_interval: int = option(50, "updates between checkpoints", min=1)
    keep_checkpoints: int = option(3, "latest ones kept beside the best", min=1)
    best_by: str = option(
        "auto",
        "what the best checkpoint is best at; auto: eval where there is evaluation, else success"
        " where episodes tell of it, else return; last: none is best, the newest counts",
        choices=("auto", "return", "success", "eval", "last"),
    )
    eval_interval: int = option(0, "updates between evaluations; 0: none", min=0)
    eval_episodes: int = option(10, "episodes of an evaluation", min=1)
    eval_video: bool = option(False, "write a video of each evaluation")


@dataclass
class TrainConfig:
    """Keys of the trainer."""

    env: str = option("CartPole-v1", "Gymnasium id; package.module:Name-v0 imports the module")
    env_args: dict[str, Any] = option({}, "arguments of gymnasium.make; env_args.NAME=VALUE")
    preload: list[str] = option([], "modules imported once, before workers are forked")
    info_keys: list[str] = option(["success", "is_success"], "of an episode's last info, logged")
    scheme: str = option(
        "ver", "how collection and learning take turns", choices=SCHEMES, open=True
    )
    algorithm: str = option("ppo", "what learns from a rollout", choices=("ppo",), open=True)
    collector: str = option(
        "workers",
        "processes, or this one, which repeats bit for bit",
        choices=("workers", "inline"),
    )
    seed: int = option(1, "of everything random", min=0)
    total_steps: int = option(200_000, "environment steps over all ranks", min=1)
    out: str = option("runs/train", "run folder; the same command again continues the run in it")
    resume: str = option(
        "auto",
        "exact: inline, bit for bit; loose: environments begin anew; never: refuse a used folder",
        choices=("auto", "exact", "loose", "never"),
    )
    device: str = option("auto", "torch device; auto: a GPU if there is one")
    threads: int = option(
        0, "torch threads while learning; 0: one a core (inline: 1, overlapping: half)", min=0
    )
    precision: str = option("float32", "of the encoder", choices=("float32", "bf16", "fp16"))
    pretrained: str = option("", "weights file, checkpoint or run folder to start from")
    pretrained_parts: list[str] = option(
        [], "parts of it: encoder, core, actor, critic; empty: all"
    )
    pretrained_std: float = option(
        0.0, "deviation that its normal actions begin with; 0: its own", min=0, max=2.7
    )
    collect: CollectConfig = field(default_factory=CollectConfig)
    net: NetConfig = field(default_factory=NetConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    cpc: CPCConfig = field(default_factory=CPCConfig)
    log: LogConfig = field(default_factory=LogConfig)


# A run may be continued with other values of these.
FREE_ON_RESUME = (
    *("total_steps", "out", "resume", "log", "device", "threads", "collect.max_faults"),
    *("collect.step_timeout", "collect.start_timeout", "collect.worker_nice"),
    *("collect.threads", "collect.worlds", "collect.envs_per_worker", "collect.overlap"),
)


def load_config(overrides: Sequence[str] = (), **values: Any) -> TrainConfig:
    """Builds a configuration from defaults, YAML files and overrides, in this order.

    Args:
        overrides: ``key=value`` with dots for nesting; ``config=FILE.yaml`` (repeatable) reads a
            file first.
        values: the same as keyword arguments (top level, or dotted keys by ``**{...}``).

    Raises:
        ConfigError: naming the key or value that is wrong and the nearest valid one.
    """
    config = load(TrainConfig, overrides, values=values)
    validate(config)
    return config


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
    if config.net.freeze_norm and not config.net.normalize_obs:
        raise ConfigError(
            "'net.freeze_norm' keeps statistics of observations, which net.normalize_obs=false"
            " does not take: set that, or leave net.freeze_norm out"
        )
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
    if config.scheme == "ddppo" and collect.final_batch == "dispatch":
        raise ConfigError(
            "collect.final_batch=dispatch lets environments step while the learner works, and"
            " scheme=ddppo waits for all of them: use another scheme, or leave it out"
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
    if config.ppo.max_std and config.net.std != "parameter":
        raise ConfigError(
            f"ppo.max_std bounds a parameter, which net.std={config.net.std} does not have: use"
            " net.std=parameter"
        )
    if config.ppo.max_std and config.scheme == "decoupled":
        raise ConfigError(
            "ppo.max_std is not for scheme=decoupled, whose weights are changed elsewhere: use"
            " another scheme, or leave it out"
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
