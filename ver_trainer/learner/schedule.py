"""What changes along the training: by progress alone, without state, or by the KL divergence."""

from __future__ import annotations

import math

from ver_trainer.config import OptimConfig, PPOConfig


def learning_rate(config: OptimConfig, progress: float, batch: int) -> float:
    """Learning rate after a share ``progress`` in [0, 1] of the training.

    ``cosine`` and ``linear`` fall from the scaled rate to ``final_lr`` of it. ``scaled_to_base``
    falls from the scaled rate to ``lr`` itself along a cosine, over the first half of the training
    (Shacklett et al. 2021, appendix B), and stays there.

    Args:
        config: schedule, base rate, warm-up and final share.
        progress: steps done over total steps.
        batch: rows of one mini-batch over all ranks, for ``batch_scaling`` (Shacklett et al. 2021,
            section 3.4).
    """
    scale = 1.0
    if config.batch_scaling:
        scale = max(math.sqrt(batch / config.batch_scaling), 1.0)
    progress = min(max(progress, 0.0), 1.0)
    if config.warmup and progress < config.warmup:
        return config.lr * scale * (0.5 + 0.5 * progress / config.warmup)
    if config.schedule == "scaled_to_base":
        factor = (1 + math.cos(math.pi * min(2 * progress, 1.0))) / 2
        return config.lr * (1 + (scale - 1) * factor)
    factor = 1.0
    if config.schedule == "cosine":
        factor = (1 + math.cos(math.pi * progress)) / 2
    elif config.schedule == "linear":
        factor = 1 - progress
    return config.lr * scale * (config.final_lr + (1 - config.final_lr) * factor)


def discount(config: PPOConfig, progress: float) -> float:
    """Return the discount of a step after a share ``progress`` in [0, 1] of the training.

    A short horizon is learned fast and a long one decides better (François-Lavet et al. 2015): the
    horizon 1 / (1 - gamma) grows by the same factor in equal shares of the training.
    """
    if not config.final_gamma:
        return config.gamma
    first, last = math.log(1.0 - config.gamma), math.log(1.0 - config.final_gamma)
    return 1.0 - math.exp(first + min(max(progress, 0.0), 1.0) * (last - first))


def divergence(config: OptimConfig, progress: float) -> float:
    """Return the KL divergence that an update aims at after a share ``progress`` in [0, 1].

    From ``kl_target`` to ``final_kl`` by the same factor in equal shares of the training.
    """
    if not config.final_kl:
        return config.kl_target
    share = min(max(progress, 0.0), 1.0)
    return config.kl_target ** (1.0 - share) * config.final_kl**share


class AdaptiveRate:
    """Raises and lowers the learning rate to hold the KL divergence of an update near a target.

    The rule of rsl_rl (Schwarke et al. 2025), after Schulman et al. 2017, section 4: above twice
    ``kl_target`` the rate falls by 1.5, below half of it it rises by 1.5, within bounds.

    Attributes:
        value: the rate; 0 before the first update.
    """

    factor = 1.5

    def __init__(self, config: OptimConfig) -> None:
        self.config = config
        self.value = 0.0
        self._target = config.kl_target
        self._seen: list[float] = []

    def begin(self, first: float, progress: float = 0.0) -> float:
        """Starts an update; ``first`` is the rate of the very first one."""
        self.value = self._bounded(self.value or first)
        self._target = divergence(self.config, progress)
        self._seen = []
        return self.value

    def observe(self, found: float) -> float:
        """Takes the divergence, in nats, that earlier gradient steps of this update have caused.

        Args:
            found: mean over the mini-batches of all ranks.

        Returns:
            The rate of the coming gradient step.
        """
        if self.config.kl_every == "mini_batch":
            self._move(found)
        else:
            self._seen.append(found)
        return self.value

    def end(self) -> None:
        """Ends an update."""
        if self._seen:
            self._move(sum(self._seen) / len(self._seen))

    def _move(self, found: float) -> None:
        if found > 2 * self._target:
            self.value = self._bounded(self.value / self.factor)
        elif found < self._target / 2:
            self.value = self._bounded(self.value * self.factor)

    def _bounded(self, rate: float) -> float:
        return min(max(rate, self.config.min_lr), self.config.max_lr)
