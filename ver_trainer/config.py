"""Configuration of a run: what every key means.

:func:`load_config` reads YAML files and ``key=value`` words, see :mod:`ver_trainer.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ver_trainer.config_checks import validate
from ver_trainer.config_extras import CPCConfig, DistillConfig
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
    min_batch: int = option(0, "fewest requests of an inference; 0: num_envs / K / 1.5", min=0)
    max_batch: int = option(
        0, "most requests; 0: num_envs / 2, or 1.5 num_envs / K for K > 1 that infer", min=0
    )
    final_batch: str = option(
        "auto",
        "last batch of a rollout: acted on with the old weights, or after the update; auto: replay"
        " for a policy with memory, unless collection and learning overlap, else dispatch",
        choices=("auto", "dispatch", "replay"),
    )
    step_timeout: float = option(60.0, "s before an environment's step counts as hung", above=0)
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
    initial_std: float = option(1.0, "first standard deviation of actions", above=0)
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
class PPOConfig:
    """Losses and returns."""

    epochs: int = option(2, "passes over a rollout", min=1)
    mini_batches: int = option(2, "gradient steps of a pass", min=1)
    clip: float = option(0.2, "of the probability ratio", min=0)
    gamma: float = option(0.99, "discount of a step", min=0, max=1)
    final_gamma: float = option(
        0.0, "discount at the end of the training, evenly in log(1 - gamma); 0: gamma", min=0
    )
    gae_lambda: float = option(0.95, "of generalised advantage estimation", min=0, max=1)
    value_coef: float = option(0.5, "weight of the value loss", min=0)
    clip_value: bool = option(False, "clip the value loss as well")
    normalize_advantage: bool = option(False, "mean 0 and deviation 1 in a rollout")
    reward_scale: float = option(1.0, "rewards are multiplied by it", above=0)
    entropy_coef: float = option(0.01, "weight of the entropy bonus, or its first value", min=0)
    learned_entropy: bool = option(False, "learn that weight, so that entropy_target is kept")
    entropy_target: float = option(0.0, "entropy that learned_entropy keeps, nat")
    max_grad_norm: float = option(0.5, "clips gradients, a separate critic's apart", above=0)
    importance_weights: bool = option(True, "weigh steps of environments that ran ahead")
    max_importance_weight: float = option(1.0, "of these weights", above=0)
    max_sequence: int = option(0, "steps of a sequence for the core; 0: as they come", min=0)
    vtrace_rho: float = option(1.0, "async: cut of V-trace's rho", min=0)
    vtrace_c: float = option(1.0, "async: cut of V-trace's c", min=0)
    max_std: list[float] = option(
        [], "most deviation of actions along the training, e.g. [1, 0.2]; empty: any", above=0
    )
    critic_warmup: int = option(0, "updates in which only the critic learns", min=0)
    target_kl: float = option(
        0.0, "the policy's update ends when its approximate KL divergence is above; 0: never", min=0
    )
    anchor_coef: float = option(0.0, "weight of KL(pretrained policy || policy)", min=0)
    anchor_steps: int = option(0, "steps in which anchor_coef falls to 0; 0: total_steps", min=0)


@dataclass
class OptimConfig:
    """Optimizer and learning-rate schedule."""

    name: str = option("adam", "optimizer", choices=("adam", "lamb"))
    lr: float = option(2.5e-4, "learning rate at first", above=0)
    critic_lr: float = option(0.0, "of the critic's own parameters; 0: lr", min=0)
    entropy_lr: float = option(0.01, "of a learned entropy coefficient, constant", above=0)
    eps: float = option(1e-5, "of the optimizer", min=0)
    weight_decay: float = option(0.0, "decoupled, as in AdamW", min=0)
    schedule: str = option(
        "cosine",
        "how lr falls over total_steps; scaled_to_base: to its unscaled value in the first half; "
        "kl: up and down, to hold kl_target",
        choices=("cosine", "linear", "constant", "scaled_to_base", "kl"),
    )
    kl_target: float = option(
        0.01, "schedule=kl: below half of it lr rises, above twice it falls, by 1.5", above=0
    )
    final_kl: float = option(0.0, "kl_target at the end of the training; 0: as at first", min=0)
    kl_every: str = option(
        "mini_batch", "schedule=kl: how often lr may change", choices=("mini_batch", "update")
    )
    min_lr: float = option(1e-5, "schedule=kl: lowest lr", above=0)
    max_lr: float = option(1e-2, "schedule=kl: highest lr", above=0)
    final_lr: float = option(0.0, "cosine, linear: lr at the end, as a fraction of lr", min=0)
    warmup: float = option(0.0, "rise from half of lr, as a fraction of total_steps", min=0, max=1)
    lamb_rho: float = option(
        0.01, "lamb: a layer's step stays within [rho, 1 / rho] of lr; 1: AdamW", above=0, max=1
    )
    gradient_lag: int = option(
        2, "decoupled: gradient steps that the weights of a gradient are behind, at most", min=1
    )
    batch_scaling: int = option(
        0, "lr is multiplied by max(sqrt(batch / batch_scaling), 1); 0: it is not", min=0
    )


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
        0.0, "deviation that its normal actions begin with; 0: its own", min=0
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
