"""The training schemes: which parts wait for which.

| scheme | inference waits for | quota per environment | collection and learning | correction |
|---|---|---|---|---|
| ver | a batch of requests | none | alternate | truncated importance weights |
| nover | a batch of requests | T steps | alternate | - |
| ddppo | all environments | T steps | alternate | - |
| htsrl | a batch of requests | T steps | overlap, delayed gradients | - |
| async | a batch of requests | none | overlap, newest weights | V-trace |
"""

from __future__ import annotations

from dataclasses import dataclass

from ver_trainer.config import TrainConfig
from ver_trainer.rollout.collector import CollectRules


@dataclass(frozen=True)
class Scheme:
    """Properties of a scheme; see the table of this module.

    ``preemption`` is how several ranks end rollouts early: ``time`` (VER's decider), ``fraction``
    (DD-PPO's threshold) or ``none``.
    """

    lock_step: bool = False
    quota: bool = True
    overlap: bool = False
    continuous: bool = False
    delayed_gradient: bool = False
    vtrace: bool = False
    importance_weights: bool = False
    preemption: str = "none"


SCHEMES = {
    "ver": Scheme(quota=False, importance_weights=True, preemption="time"),
    "nover": Scheme(),
    "ddppo": Scheme(lock_step=True, preemption="fraction"),
    "htsrl": Scheme(overlap=True, delayed_gradient=True),
    "async": Scheme(quota=False, overlap=True, continuous=True, vtrace=True),
}


def collect_rules(config: TrainConfig) -> CollectRules:
    """Rules of the collector for the configured scheme."""
    scheme, collect = SCHEMES[config.scheme], config.collect
    n, workers = collect.num_envs, collect.num_inference_workers
    # One half of the environments steps while the policy runs on the other. Where several
    # processes infer there is always something to step meanwhile.
    most = -(-n // 2) if workers == 1 else min(-(-3 * n // (2 * workers)), n)
    highest = collect.max_batch or max(most, collect.min_batch)
    lowest = collect.min_batch or max(int(n / workers / 1.5), 1)
    return CollectRules(
        lock_step=scheme.lock_step,
        quota=scheme.quota,
        # DD-PPO acts only on the newest weights; the others may overlap one step with learning.
        replay=collect.final_batch == "replay" or scheme.lock_step,
        min_batch=min(lowest, highest),
        max_batch=n if scheme.lock_step else highest,
    )
