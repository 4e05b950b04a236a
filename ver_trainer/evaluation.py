"""Runs a policy without learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ver_trainer.envs.inline import InlinePool
from ver_trainer.envs.pool import PoolOptions, WorkerPool
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.transfer import Transfer


@dataclass
class EvaluationResult:
    """Per-episode results; ``info`` holds the values of ``info_keys`` (NaN where missing)."""

    returns: np.ndarray
    lengths: np.ndarray
    info: dict[str, np.ndarray]

    def summary(self) -> dict[str, float]:
        """Means over episodes."""
        found = {"return": float(self.returns.mean()), "length": float(self.lengths.mean())}
        for name, values in self.info.items():
            if not np.isnan(values).all():
                found[name] = float(np.nanmean(values))
        return found


@torch.inference_mode()
def evaluate(
    policy: Policy,
    factory: EnvFactory,
    episodes: int = 10,
    seed: int = 1_000_000,
    num_envs: int = 4,
    deterministic: bool = True,
    workers: bool = True,
    info_keys: tuple[str, ...] = ("success", "is_success"),
    video: Path | None = None,
    limits: PoolOptions | None = None,
    should_stop: Callable[[], None] | None = None,
) -> EvaluationResult:
    """Evaluates a policy over episodes with seeds of their own.

    Every environment contributes the same number of episodes, rounded up, so that short episodes
    are not over-represented.

    Args:
        policy: the policy; its device is used.
        factory: makes the environments.
        episodes: number of episodes (rounded up to a multiple of the environments).
        seed: base of the episode seeds.
        num_envs: environments stepped in parallel.
        deterministic: take the most likely action.
        workers: use processes.
        info_keys: entries of the last ``info`` to keep.
        video: folder for a video of the first episode of every environment.
        limits: whose time limits, number of faults and niceness hold for these environments too.
        should_stop: called while waiting for environments; what it raises ends the evaluation.

    Raises:
        WorkerFailure: after too many faults.
    """
    num_envs = min(num_envs, episodes)
    if video is not None:
        target = partial(with_video_of, factory.target, str(video))
        factory = EnvFactory(target, factory.kwargs, factory.preload)
    options = replace(
        limits or PoolOptions(num_envs),
        num_envs=num_envs,
        envs_per_worker=1,
        seed=seed,
        seed_offset=0,
        info_keys=info_keys,
        first_episodes=(),
        carried=(),
    )
    kind = WorkerPool if workers else InlinePool
    pool = kind(factory, policy.acting_spec, options)  # the critic stays out of it
    if should_stop is not None:
        pool.should_stop = should_stop
    try:
        return _run(policy, pool, -(-episodes // num_envs), deterministic, seed, info_keys)
    finally:
        pool.close()


def with_video_of(target: Any, folder: str, **kwargs: Any) -> Any:
    """Makes a recording environment (a module-level function, so that workers can import it)."""
    from ver_trainer.envs.video import with_video

    return with_video(target, folder, **kwargs)


def _run(
    policy: Policy,
    pool: WorkerPool | InlinePool,
    quota: int,
    deterministic: bool,
    seed: int,
    info_keys: tuple[str, ...],
) -> EvaluationResult:
    device = next(policy.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    transfer = Transfer(pool.buffers, policy.spec.action, device)
    state = policy.initial_state(pool.num_envs, device)
    started = np.zeros(pool.num_envs, bool)
    done = np.zeros(pool.num_envs, np.int64)
    records: list[tuple[float, int, list[float]]] = []
    buffers = pool.buffers
    while (done < quota).any():
        envs = np.array(sorted(pool.receive(None)), np.int64)
        for fault in pool.take_faults():
            rows = list(fault.rows)
            started[rows], state[rows] = False, 0.0
        ended = (buffers["terminated"][envs] != 0) | (buffers["truncated"][envs] != 0)
        for env in envs[ended & started[envs]].tolist():
            state[env] = 0.0
            done[env] += 1
            if done[env] <= quota:
                records.append(
                    (
                        float(buffers["episode_return"][env]),
                        int(buffers["episode_length"][env]),
                        buffers["info"][env].tolist(),
                    )
                )
        started[envs] = True
        envs = envs[done[envs] < quota]
        if len(envs):
            index = torch.from_numpy(envs).to(device)
            obs = transfer.read(list(policy.actor_obs), envs)
            step = policy.act(obs, state[index], generator, deterministic)
            state[index] = step.state
            transfer.write_actions(envs, step.action)
            pool.send(envs)
    info = {k: np.array([r[2][i] for r in records]) for i, k in enumerate(info_keys)}
    return EvaluationResult(
        np.array([r[0] for r in records]), np.array([r[1] for r in records]), info
    )
