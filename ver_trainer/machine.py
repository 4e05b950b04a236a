"""Automatic values of a configuration: what this machine has."""

from __future__ import annotations

import os

from ver_trainer.config import TrainConfig
from ver_trainer.errors import ConfigError
from ver_trainer.schemes import scheme_of


def cores() -> int:
    """Processor cores for this rank: those that the process may use, shared by the machine's ranks.

    ``torchrun`` says how many ranks there are.
    """
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    return max(found // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


def settle_threads(config: TrainConfig) -> None:
    """Puts numbers in the place of automatic threads.

    One thread where a run is meant to repeat bit for bit on any machine, and half of the cores
    where the environments step at the same time.
    """
    if not config.threads:
        simultaneous = config.collect.overlap or scheme_of(config).overlap
        most = max(cores() // 2, 1) if simultaneous else cores()
        config.threads = 1 if config.collector == "inline" else most


def settle_batches(config: TrainConfig, made: int | None, has_batches: bool) -> None:
    """Puts numbers in the place of automatic worker and batch sizes.

    Args:
        config: changed in place.
        made: worlds of the batch that the user's function makes, 0 if it makes single
            environments, ``None`` if the environment comes from an id.
        has_batches: whether the id has batched environments.

    Raises:
        ConfigError: if sizes are wanted that do not go together.
    """
    collect = config.collect
    if made is not None:
        _check_made(collect.worlds, made)
        collect.worlds = made or 1
    if not collect.worlds:
        share = collect.envs_per_worker or _share(collect.num_envs, config)
        collect.worlds = share if has_batches else 1
    if collect.num_envs % collect.worlds:
        raise ConfigError(
            f"collect.num_envs={collect.num_envs} is not a multiple of the {collect.worlds} "
            f"environments of a batch: use {_near(collect.num_envs, collect.worlds)}, or another "
            "collect.worlds"
        )
    if not collect.envs_per_worker:
        batched = made or collect.worlds > 1
        share = _share(collect.num_envs, config) if batched else 1
        collect.envs_per_worker = max(share // collect.worlds, 1) * collect.worlds
    if collect.envs_per_worker % collect.worlds:
        raise ConfigError(
            f"collect.envs_per_worker={collect.envs_per_worker} is not a multiple of the "
            f"{collect.worlds} environments of a batch: use "
            f"{_near(collect.envs_per_worker, collect.worlds)}, or 0 for the automatic choice"
        )


def _check_made(wanted: int, made: int) -> None:
    if wanted in (0, 1, made):
        return
    what = f"batches of {made}" if made else "single environments"
    raise ConfigError(
        f"collect.worlds={wanted}, but the function that makes environments makes {what}: leave "
        "collect.worlds out, or let it return a gymnasium.vector.VectorEnv of that size"
    )


def _share(count: int, config: TrainConfig) -> int:
    """Environments of one worker if there is one a core, all of them equally full."""
    if config.collector == "inline":
        return count
    workers = next(n for n in range(min(cores(), count), 0, -1) if count % n == 0)
    return count // workers


def _near(count: int, size: int) -> int:
    return max(round(count / size), 1) * size
