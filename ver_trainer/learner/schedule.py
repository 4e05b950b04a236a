"""Learning rate as a function of progress; it keeps no state, so there is none to resume."""

from __future__ import annotations

import math

from ver_trainer.config import OptimConfig


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
