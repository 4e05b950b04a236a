"""Builds the parts of a run from its configuration."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ver_trainer.config import TrainConfig
from ver_trainer.distributed.group import Group
from ver_trainer.distributed.preemption import FractionPreemption, Preemption, TimePreemption
from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory, describe_env, is_batched
from ver_trainer.envs.spaces import EnvSpec
from ver_trainer.errors import ConfigError
from ver_trainer.export import load_pretrained
from ver_trainer.inference.team import InferenceTeam, TeamOptions
from ver_trainer.learner.cpc import ActionCPC
from ver_trainer.learner.extras import Extra
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.learner.teacher import make_anchor, make_teacher
from ver_trainer.machine import settle_batches, settle_threads
from ver_trainer.memory import keep_freed_memory
from ver_trainer.nets.heads import GaussianHead
from ver_trainer.nets.policy import Policy, make_policy
from ver_trainer.plugins import is_foreign, resolve
from ver_trainer.protocols import ALGORITHM, STORAGE, Algorithm, Setup
from ver_trainer.rollout.collector import Collector
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.schemes import collect_rules, scheme_of

_NO_EVALUATION = (
    "log.eval_interval is for environments that step one at a time: use log.eval_interval=0 with a"
    " batched environment and evaluate its checkpoints apart"
)


@dataclass
class Parts:
    """Everything that a run consists of."""

    group: Group
    device: torch.device
    factory: EnvFactory
    spec: EnvSpec
    policy: Policy
    learner: Algorithm
    storage: RolloutStorage
    pool: Any
    collector: Any
    generator: torch.Generator
    rng: np.random.Generator
    preemption: Preemption | None
    team: InferenceTeam | None = None


def choose_device(name: str) -> torch.device:
    """The device for inference and learning; of several GPUs the one of this rank.

    Raises:
        ConfigError: if the device does not exist.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device={name} is not a torch device: use auto, cpu or cuda") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(f"device={name} but torch sees no GPU: use device=cpu")
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        index = device.index if device.index is not None else local_rank
        count = torch.cuda.device_count()
        if index >= count:
            who = f"rank {local_rank} of this machine" if device.index is None else f"device={name}"
            raise ConfigError(
                f"{who} asks for GPU {index}, and torch sees {count} (counted from 0): start as "
                "many ranks as there are GPUs, or use device=cpu"
            )
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    return device


def seed_everything(seed: int) -> None:
    """Seeds Python's, NumPy's and torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def build(
    config: TrainConfig,
    env: Callable[..., Any] | None = None,
    first_episodes: tuple[int, ...] = (),
    carried: tuple[float, ...] = (),
) -> Parts:
    """Builds all parts; environment processes start first, so that they load meanwhile.

    Args:
        config: the validated configuration; its automatic values are replaced by numbers.
        env: function that makes an environment (or a batched torch environment), instead of
            ``config.env``.
        first_episodes: number of every environment's first episode, for a run that goes on.
        carried: what every environment carried (``envs.slot.carried``), for such a run.
    """
    settle_threads(config)
    scheme = scheme_of(config)
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    group = Group.from_environment(device)
    seed_everything(config.seed)
    if device.type == "cpu":
        keep_freed_memory()
    factory = EnvFactory(env or config.env, dict(config.env_args), tuple(config.preload))
    factory, spec, batched = _probe(factory, config, group)
    n = batched.num_envs if batched is not None else config.collect.num_envs
    pool = (
        batched
        if batched is not None
        else make_pool(config, factory, spec, group, first_episodes, carried)
    )
    team = None
    try:
        policy = make_policy(spec, config.net, config.precision).to(device)
        if config.pretrained:
            load_pretrained(policy, config.pretrained, list(config.pretrained_parts))
            if config.pretrained_std and isinstance(policy.actor, GaussianHead):
                policy.actor.log_std.data.fill_(math.log(config.pretrained_std))
        group.broadcast_module(policy)
        generator = torch.Generator(device).manual_seed(config.seed + 1000 * group.rank)
        rng = np.random.default_rng([config.seed, group.rank])
        preempts = config.collect.preempt and group.size > 1 and scheme.preemption != "none"
        preempts = preempts and not config.collect.overlap
        # DD-PPO trains on the shortened rollout as it is, VER fills it up.
        keep_stale = preempts and scheme.preemption == "time"
        storage = make_storage(config, spec, policy, device, n, keep_stale)
        extras = tuple(make_extras(config, policy, n))
        learner = make_learner(Setup(policy, config, scheme, group, rng, extras))
        team = _make_team(config, pool, storage, policy, group)
        collector = _make_collector(config, pool, storage, policy, generator, device, team)
    except BaseException:
        if team is not None:
            team.close()
        pool.close()
        raise
    preemption = _make_preemption(config, group, storage.size) if preempts else None
    return Parts(
        group, device, factory, spec, policy, learner, storage, pool, collector, generator, rng,
        preemption, team,
    )  # fmt: skip


def make_pool(
    config: TrainConfig,
    factory: EnvFactory,
    spec: EnvSpec,
    group: Group,
    first_episodes: tuple[int, ...] = (),
    carried: tuple[float, ...] = (),
) -> WorkerPool | InlinePool:
    """Makes the environments of this rank."""
    collect = config.collect
    options = PoolOptions(
        collect.num_envs,
        collect.envs_per_worker,
        config.seed,
        group.rank * collect.num_envs,
        tuple(config.info_keys),
        collect.step_timeout,
        collect.start_timeout,
        collect.max_faults,
        collect.worker_nice,
        first_episodes,
        carried,
    )
    kind = InlinePool if config.collector == "inline" else WorkerPool
    return kind(factory, spec, options)


def make_storage(
    config: TrainConfig,
    spec: EnvSpec,
    policy: Policy,
    device: torch.device,
    num_envs: int,
    keep_stale: bool = False,
) -> RolloutStorage:
    """Makes a rollout storage on the learner's device."""
    steps = config.collect.steps
    name = config.collect.storage
    kind = RolloutStorage if not is_foreign(name) else resolve(name, "collect.storage", STORAGE)
    return kind(spec, num_envs, steps, policy.state_size, device, keep_stale)


def make_extras(config: TrainConfig, policy: Policy, num_envs: int) -> list[Extra]:
    """Makes the losses beside PPO's that the configuration asks for."""
    extras: list[Extra] = []
    if config.ppo.anchor_coef:
        extras.append(make_anchor(policy, config.ppo, num_envs))
    if config.distill.teacher:
        device = next(policy.parameters()).device
        extras.append(make_teacher(policy, config.distill, num_envs, device))
    if config.cpc.coef:
        extras.append(ActionCPC(policy, config.cpc))
    return extras


def make_learner(setup: Setup) -> Algorithm:
    """Makes the configured algorithm."""
    name = setup.config.algorithm
    if is_foreign(name):
        return resolve(name, "algorithm", ALGORITHM)(setup)
    return make_ppo(setup)


def make_ppo(setup: Setup) -> PPOLearner:
    """Makes PPO for the configured scheme; see :class:`ver_trainer.protocols.Setup`."""
    config, scheme = setup.config, setup.scheme
    ppo = config.ppo
    if not scheme.importance_weights:
        ppo = type(ppo)(**{**vars(ppo), "importance_weights": False})
    learner = PPOLearner(
        setup.policy,
        ppo,
        config.optim,
        setup.group,
        setup.rng,
        scheme.vtrace,
        scheme.delayed_gradient,
        setup.extras,
        config.distill.ppo_coef if config.distill.teacher else [1.0],
        config.optim.gradient_lag if scheme.owner else 0,
    )
    setup.group.broadcast_module(learner.own)
    return learner


def _make_collector(
    config: TrainConfig,
    pool: Any,
    storage: RolloutStorage,
    policy: Policy,
    generator: torch.Generator,
    device: torch.device,
    team: InferenceTeam | None,
) -> Any:
    from ver_trainer.rollout.batched import BatchedCollector, BatchedEnv

    if isinstance(pool, BatchedEnv):
        return BatchedCollector(
            pool, storage, policy, generator, tuple(config.info_keys), config.collect.check_finite
        )
    return Collector(
        pool,
        storage,
        policy,
        collect_rules(config),
        generator,
        device,
        tuple(config.info_keys),
        config.collect.check_finite,
        team,
    )


def _make_team(
    config: TrainConfig, pool: Any, storage: RolloutStorage, policy: Policy, group: Group
) -> InferenceTeam | None:
    collect = config.collect
    if collect.num_inference_workers == 1:
        return None
    options = TeamOptions(
        collect.num_inference_workers - 1,
        collect.threads,
        # A run that goes on draws other noise than when it began.
        config.seed + 1000 * group.rank + sum(pool.options.first_episodes),
        # Before the environments that wait for it are taken for dead.
        collect.step_timeout / 2,
        collect.start_timeout,
        collect.max_faults,
    )
    return InferenceTeam(policy, storage, pool, options)


def _make_preemption(config: TrainConfig, group: Group, quota: int) -> Preemption:
    if scheme_of(config).preemption == "time":
        return TimePreemption(group, quota)
    # Ranks learn together, so each has a row for every mini-batch.
    shortest = max(0.25, config.ppo.mini_batches / quota)
    return FractionPreemption(group, quota, config.collect.preempt_fraction, shortest)


def _probe(
    factory: EnvFactory, config: TrainConfig, group: Group
) -> tuple[EnvFactory, EnvSpec, Any]:
    """Makes one environment to see what it is.

    Returns:
        The factory, which knows the batch's size now; the layout of one environment; and the
        environment itself if it hands over tensors and is stepped in this process, else None.
    """
    named = not callable(factory.target)
    if named:
        settle_batches(config, None, factory.has_batches())
        worlds = config.collect.worlds
        factory = replace(factory, worlds=worlds if worlds > 1 else 0)
    env = replace(factory, worlds=min(factory.worlds, 1))()
    made = int(env.num_envs) if is_batched(env) else 0
    if made and config.log.eval_interval and not named:
        raise ConfigError(_NO_EVALUATION)
    if made and config.collector == "inline":
        from ver_trainer.rollout.batched import BatchedEnv

        # Worlds are seeded with successive numbers, so ranks begin far apart.
        batched = BatchedEnv(env, config.seed + 1_000_003 * group.rank)
        if batched.hands_over_tensors():
            if config.log.eval_interval:
                raise ConfigError(_NO_EVALUATION)
            if named:
                env.close()
                batched = BatchedEnv(factory(), batched.seed)
            return factory, batched.spec, batched
    spec = describe_env(env)
    env.close()
    if not named:
        settle_batches(config, made, False)
        factory = replace(factory, worlds=made)
    return factory, spec, None
