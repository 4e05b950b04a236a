"""The training schemes: which parts wait for which.

| scheme | inference waits for | quota per environment | collection and learning | correction |
|---|---|---|---|---|
| ver | a batch of requests | none | alternate | truncated importance weights |
| nover | a batch of requests | T steps | alternate | - |
| ddppo | all environments | T steps | alternate | - |
| htsrl | a batch of requests | T steps | overlap, delayed gradients | - |
| async | a batch of requests | none | overlap, newest weights | V-trace |
| decoupled | a batch of requests | none | alternate; an owner applies older gradients | as ver |

``scheme=package.module:NAME`` is a row of somebody else's: a :class:`Scheme`, or a class of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ver_trainer.config import TrainConfig
from ver_trainer.errors import ConfigError
from ver_trainer.plugins import is_foreign, resolve
from ver_trainer.rollout.collector import CollectRules


@dataclass(frozen=True)
class Scheme:
    """Properties of a scheme; see the table of this module.

    Attributes:
        lock_step: every inference waits for all environments.
        quota: every environment collects the same number of steps.
        overlap: collection runs in a thread of its own while the learner works.
        continuous: with ``overlap``, newest weights for every inference; otherwise the two meet
            after every rollout.
        delayed_gradient: gradients of the weights that collected, applied to the newest.
        vtrace: V-trace's targets and advantages instead of GAE.
        importance_weights: truncated weights for environments that ran ahead.
        preemption: how several ranks end rollouts early: ``time`` (VER's decider), ``fraction``
            (DD-PPO's threshold) or ``none``.
        owner: gradients are computed at weights at most ``optim.gradient_lag`` gradient steps old,
            and applied by an owner of the newest ones.
    """

    lock_step: bool = False
    quota: bool = True
    overlap: bool = False
    continuous: bool = False
    delayed_gradient: bool = False
    vtrace: bool = False
    importance_weights: bool = False
    preemption: str = "none"
    owner: bool = False


SCHEMES = {
    "ver": Scheme(quota=False, importance_weights=True, preemption="time"),
    "nover": Scheme(),
    "ddppo": Scheme(lock_step=True, preemption="fraction"),
    "htsrl": Scheme(overlap=True, delayed_gradient=True),
    "async": Scheme(quota=False, overlap=True, continuous=True, vtrace=True),
    "decoupled": Scheme(quota=False, importance_weights=True, owner=True, preemption="time"),
}


def scheme_of(config: TrainConfig) -> Scheme:
    """The configured row of the table.

    Raises:
        ConfigError: it is no scheme, or one that these collectors and options cannot do.
    """
    name = config.scheme
    found = resolve(name, "scheme") if is_foreign(name) else SCHEMES[name]
    if isinstance(found, type) and issubclass(found, Scheme):
        found = found()
    if not isinstance(found, Scheme):
        raise ConfigError(f"scheme={name} is not a ver_trainer.schemes.Scheme: make it one")
    alone = config.collector == "workers" and config.collect.num_inference_workers == 1
    if found.overlap and not alone:
        raise ConfigError(
            f"scheme={name} overlaps collection and learning: use collector=workers and "
            "collect.num_inference_workers=1"
        )
    if found.owner and found.delayed_gradient:
        raise ConfigError(f"scheme={name} has both owner and delayed_gradient: choose one")
    if found.owner and config.precision == "fp16":
        raise ConfigError(
            f"scheme={name} applies gradients elsewhere than they are scaled for precision=fp16: "
            "use bf16"
        )
    return found


def collect_rules(config: TrainConfig) -> CollectRules:
    """Rules of the collector for the configured scheme."""
    scheme, collect = scheme_of(config), config.collect
    n, workers = collect.num_envs, collect.num_inference_workers
    # One half of the environments steps while the policy runs on the other. Where several
    # processes infer there is always something to step meanwhile.
    most = -(-n // 2) if workers == 1 else min(-(-3 * n // (2 * workers)), n)
    highest = collect.max_batch or max(most, collect.min_batch)
    few = -(-n // 2) if workers == 1 else max(int(n / workers / 1.5), 1)
    lowest = collect.min_batch or few
    return CollectRules(
        lock_step=scheme.lock_step,
        quota=scheme.quota,
        replay=scheme.lock_step or _replays(config, scheme),
        min_batch=min(lowest, highest),
        max_batch=n if scheme.lock_step else highest,
    )


def _replays(config: TrainConfig, scheme: Scheme) -> bool:
    """Whether the environments of a rollout's last batch wait for the new weights.

    Else they step while the learner works, on an action of the old weights. Where these also leave
    a recurrent state behind, no learner can reproduce what the rows after it were acted on with.
    """
    if config.collect.final_batch != "auto":
        return config.collect.final_batch == "replay"
    overlaps = scheme.overlap or config.collect.overlap
    return config.net.core != "none" and not overlaps
