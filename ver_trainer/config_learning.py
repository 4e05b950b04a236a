"""Configuration of the algorithm and of its optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from ver_trainer.options import option


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
    max_correlation: list[float] = option(
        [], "most of net.noise_correlation along the training, e.g. [0.8, 0]; empty: any",
        above=-1, below=1,
    )  # fmt: skip
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
