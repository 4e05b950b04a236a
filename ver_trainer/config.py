"""Configuration: typed dataclasses, read from YAML and ``key=value`` overrides.

An unknown key or value is refused by name with the nearest valid one; see :func:`load_config`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ver_trainer.errors import ConfigError

SCHEMES = ("ver", "nover", "ddppo", "htsrl", "async")
CHOICES = {
    "scheme": SCHEMES,
    "collector": ("workers", "inline"),
    "resume": ("auto", "exact", "loose", "never"),
    "precision": ("float32", "bf16", "fp16"),
    "collect.final_batch": ("dispatch", "replay"),
    "net.encoder": ("auto", "mlp", "cnn", "resnet18", "se_resnet9"),
    "net.core": ("none", "lstm"),
    "net.std": ("parameter", "state"),
    "net.activation": ("tanh", "relu", "elu"),
    "optim.name": ("adam", "lamb"),
    "optim.schedule": ("cosine", "linear", "constant", "scaled_to_base"),
    "log.best_by": ("return", "eval"),
}


@dataclass
class CollectConfig:
    """Collection of experience: N environments, T steps each on average."""

    num_envs: int = 16
    steps: int = 128
    envs_per_worker: int = 1
    threads: int = 1  # torch threads while collecting, when the environments need the cores
    num_inference_workers: int = 1  # processes that infer, the main one included
    min_batch: int = 0  # 0: num_envs / num_inference_workers / 1.5
    max_batch: int = 0  # 0: num_envs / 2; 1.5 * num_envs / K for K > 1 inference workers
    final_batch: str = "dispatch"
    step_timeout: float = 60.0
    start_timeout: float = 180.0
    max_faults: int = 10
    worker_nice: int = 0
    check_finite: bool = True
    preempt_fraction: float = 0.6  # ddppo: share of finished ranks that ends a rollout
    preempt: bool = True  # several ranks: end rollouts early where that raises throughput
    queue: int = 2  # async: rollouts collected ahead of the learner


@dataclass
class NetConfig:
    """Policy network: an encoder, a core and heads."""

    encoder: str = "auto"  # auto: cnn if there are images, else mlp
    mlp: list[int] = field(default_factory=lambda: [64, 64])
    activation: str = "tanh"
    image_features: int = 512
    fusion: list[int] = field(default_factory=list)  # MLP on image features and vectors together
    width: int = 32  # resnet18: channels of the first stage
    core: str = "none"
    core_size: int = 512
    core_layers: int = 2
    separate_critic: bool = False
    critic_mlp: list[int] = field(default_factory=list)  # a separate critic without memory
    normalize_obs: bool = False
    std: str = "parameter"
    initial_std: float = 1.0
    binary_actions: list[int] = field(default_factory=list)  # dimensions that are -1 or +1
    binary_initial: float = 0.05  # probability of +1 at first
    noise_correlation: float = 0.0  # of the exploration noise of successive steps
    freeze_norm: bool = False  # keep the pretrained observation statistics
    compile: bool = False


@dataclass
class PPOConfig:
    """Losses and returns."""

    epochs: int = 2
    mini_batches: int = 2
    clip: float = 0.2
    gamma: float = 0.99
    gae_lambda: float = 0.95
    value_coef: float = 0.5
    clip_value: bool = False
    normalize_advantage: bool = False
    reward_scale: float = 1.0
    entropy_coef: float = 0.01
    learned_entropy: bool = False
    entropy_target: float = 0.0
    max_grad_norm: float = 0.5
    importance_weights: bool = True
    max_importance_weight: float = 1.0
    max_sequence: int = 0  # 0: sequences as long as they come
    vtrace_rho: float = 1.0
    vtrace_c: float = 1.0
    critic_warmup: int = 0  # updates in which only the critic learns
    target_kl: float = 0.0  # > 0: an update ends when its approximate KL divergence is above
    anchor_coef: float = 0.0  # of KL(pretrained policy || policy)
    anchor_steps: int = 0  # steps in which anchor_coef falls to 0; 0: total_steps


@dataclass
class OptimConfig:
    """Optimizer and learning-rate schedule."""

    name: str = "adam"
    lr: float = 2.5e-4
    critic_lr: float = 0.0  # of the critic's own parameters; 0: lr
    entropy_lr: float = 1e-2  # of a learned entropy coefficient; constant
    eps: float = 1e-5
    weight_decay: float = 0.0
    schedule: str = "cosine"
    final_lr: float = 0.0  # as a fraction of lr, for cosine and linear
    warmup: float = 0.0  # as a fraction of total_steps
    lamb_rho: float = 0.01
    batch_scaling: int = 0  # > 0: lr is multiplied by max(sqrt(batch / batch_scaling), 1)


@dataclass
class LogConfig:
    """What is written, and how often."""

    interval: int = 1  # updates between records
    window: int = 100  # episodes averaged
    tensorboard: bool = True
    wandb: bool = False
    wandb_project: str = "ver_trainer"
    progress: bool = True
    checkpoint_interval: int = 50  # updates
    keep_checkpoints: int = 3
    best_by: str = "return"
    eval_interval: int = 0  # updates; 0: no evaluation during training
    eval_episodes: int = 10
    eval_video: bool = False


@dataclass
class TrainConfig:
    """Everything that decides a run."""

    env: str = "CartPole-v1"
    env_args: dict[str, Any] = field(default_factory=dict)
    preload: list[str] = field(default_factory=list)
    info_keys: list[str] = field(default_factory=lambda: ["success", "is_success"])
    scheme: str = "ver"
    collector: str = "workers"
    seed: int = 1
    total_steps: int = 200_000
    out: str = "runs/train"
    resume: str = "auto"
    device: str = "auto"
    threads: int = 1  # torch threads while learning
    precision: str = "float32"
    pretrained: str = ""
    pretrained_parts: list[str] = field(default_factory=list)
    pretrained_std: float = 0.0  # > 0: standard deviation that its normal actions begin with
    collect: CollectConfig = field(default_factory=CollectConfig)
    net: NetConfig = field(default_factory=NetConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    log: LogConfig = field(default_factory=LogConfig)


POSITIVE = (
    *("total_steps", "threads", "optim.lr", "ppo.epochs", "ppo.mini_batches"),
    "optim.entropy_lr",
    *("collect.num_envs", "collect.steps", "collect.envs_per_worker", "collect.threads"),
    *("collect.num_inference_workers", "collect.queue"),
    *("log.interval", "log.keep_checkpoints", "log.checkpoint_interval"),
)

NOT_NEGATIVE = (
    *("ppo.critic_warmup", "ppo.target_kl", "ppo.anchor_coef", "ppo.anchor_steps"),
    *("optim.critic_lr", "pretrained_std"),
)
OPEN_RANGES = {"net.binary_initial": (0.0, 1.0), "net.noise_correlation": (-1.0, 1.0)}

# A run may be continued with other values of these.
FREE_ON_RESUME = (
    *("total_steps", "out", "resume", "log", "device", "threads", "collect.max_faults"),
    *("collect.step_timeout", "collect.start_timeout", "collect.worker_nice"),
    "collect.threads",
)


def load_config(overrides: Iterable[str] = (), **values: Any) -> TrainConfig:
    """Builds a configuration from defaults, YAML files and overrides, in this order.

    Args:
        overrides: ``key=value`` with dots for nesting; ``config=FILE.yaml`` (repeatable) reads a
            file first.
        values: the same as keyword arguments (top level, or dotted keys by ``**{...}``).

    Raises:
        ConfigError: naming the key or value that is wrong and the nearest valid one.
    """
    files, pairs = _split(overrides)
    pairs += [(key, value) for key, value in values.items()]
    config = OmegaConf.structured(TrainConfig)
    try:
        for path in files:
            loaded = _read(path)
            _check_keys(OmegaConf.to_container(loaded), path.name)
            config = OmegaConf.merge(config, loaded)
        for key, value in pairs:
            _check_key(key)
            OmegaConf.update(config, key, value, merge=True)
        result = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        where = getattr(error, "full_key", None)
        raise ConfigError(f"the value of '{where}' does not fit: {reason}") from error
    assert isinstance(result, TrainConfig)
    validate(result)
    return result


def _split(overrides: Iterable[str]) -> tuple[list[Path], list[tuple[str, Any]]]:
    files, pairs = [], []
    for text in overrides:
        key, sep, value = text.partition("=")
        if not sep:
            raise ConfigError(f"'{text}' is not an override: write key=value")
        if key == "config":
            files.append(Path(value))
        else:
            pairs.append((key, _parse(key, value)))
    return files, pairs


def _parse(key: str, value: str) -> Any:
    try:
        parsed: Any = OmegaConf.create(f"value: {value}")
        return parsed["value"] if value else ""
    except Exception as error:
        raise ConfigError(f"the value of '{key}' is not valid YAML: {value}") from error


def _read(path: Path) -> Any:
    try:
        return OmegaConf.load(path)
    except FileNotFoundError:
        raise ConfigError(f"the configuration file '{path}' does not exist") from None
    except Exception as error:
        raise ConfigError(f"the configuration file '{path}' is not valid YAML: {error}") from error


def known_keys(cls: type = TrainConfig, prefix: str = "") -> list[str]:
    """All dotted keys of the configuration, sections included."""
    keys = []
    for item in fields(cls):
        keys.append(prefix + item.name)
        default = item.default_factory() if callable(item.default_factory) else None
        if is_dataclass(default):
            keys += known_keys(type(default), f"{prefix}{item.name}.")
    return keys


def _check_key(key: str, where: str = "") -> None:
    keys = known_keys()
    if key in keys or key.startswith("env_args."):
        return
    tails = {name.rsplit(".", 1)[-1]: name for name in keys}
    close = difflib.get_close_matches(key, [*keys, *tails], n=1, cutoff=0.5)
    hint = tails.get(close[0], close[0]) if close else "see docs/trainer.md"
    raise ConfigError(
        f"unknown configuration key '{key}'{' in ' + where if where else ''}; did you mean "
        f"'{hint}'?"
    )


def _check_keys(tree: Any, where: str, prefix: str = "") -> None:
    for key, value in (tree or {}).items():
        _check_key(prefix + str(key), where)
        if isinstance(value, dict) and prefix + str(key) != "env_args":
            _check_keys(value, where, f"{prefix}{key}.")


def get(config: Any, key: str) -> Any:
    """Value of a dotted key."""
    for part in key.split("."):
        config = getattr(config, part)
    return config


def validate(config: TrainConfig) -> None:
    """Refuses values and combinations that cannot work, with the remedy.

    Raises:
        ConfigError: for the first problem found.
    """
    for key, options in CHOICES.items():
        value = get(config, key)
        if value not in options:
            close = difflib.get_close_matches(str(value), options, n=1, cutoff=0.4)
            hint = f"did you mean '{close[0]}'?" if close else f"use one of {', '.join(options)}"
            raise ConfigError(f"'{value}' is not a valid value of '{key}'; {hint}")
    for key in POSITIVE:
        if get(config, key) <= 0:
            raise ConfigError(f"'{key}' is {get(config, key)}: it must be greater than 0")
    for key in NOT_NEGATIVE:
        if get(config, key) < 0:
            raise ConfigError(f"'{key}' is {get(config, key)}: it must not be negative")
    for key, (low, high) in OPEN_RANGES.items():
        if not low < get(config, key) < high:
            raise ConfigError(f"'{key}' is {get(config, key)}: it must be between {low} and {high}")
    _validate_together(config)


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


def _validate_together(config: TrainConfig) -> None:
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
    if config.scheme in ("htsrl", "async") and config.collector == "inline":
        raise ConfigError(
            f"scheme={config.scheme} overlaps collection and learning, which collector=inline "
            "cannot do: use collector=workers"
        )
    if config.resume == "exact" and config.collector != "inline":
        raise ConfigError(
            "resume=exact needs collector=inline, since worker timing cannot be repeated: use "
            "collector=inline or resume=auto"
        )
    if collect.num_inference_workers > 1 and (
        config.collector == "inline" or config.scheme in ("htsrl", "async")
    ):
        raise ConfigError(
            f"collect.num_inference_workers={collect.num_inference_workers} needs "
            "collector=workers and scheme=ver, nover or ddppo: use 1, or change these"
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
    if config.log.best_by == "eval" and not config.log.eval_interval:
        raise ConfigError(
            "log.best_by=eval needs evaluations during training: set log.eval_interval, or use "
            "log.best_by=return"
        )
    if config.optim.schedule == "scaled_to_base" and not config.optim.batch_scaling:
        raise ConfigError(
            "optim.schedule=scaled_to_base falls from a scaled learning rate: set "
            "optim.batch_scaling, or use optim.schedule=constant"
        )
    if not 0 < collect.preempt_fraction <= 1:
        raise ConfigError(
            f"collect.preempt_fraction={collect.preempt_fraction} must be in (0, 1]; 1 waits for "
            "every rank"
        )
