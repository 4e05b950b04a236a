"""What a run must remember to go on as if it had never stopped."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ver_trainer.checkpoint import CheckpointManager, read_weights
from ver_trainer.config import TrainConfig
from ver_trainer.digests import read_meta
from ver_trainer.distributed.group import Group
from ver_trainer.envs.inline import InlinePool
from ver_trainer.errors import CheckpointError
from ver_trainer.learner.extras import Extra
from ver_trainer.parts import Parts
from ver_trainer.recent import RecentEpisodes
from ver_trainer.rollout.batched import BatchedEnv
from ver_trainer.rollout.collector import Collector, EpisodeEnd


class Run(Protocol):
    """What of a run is remembered; see ``runner.Runner``."""

    parts: Parts
    config: TrainConfig
    steps: int
    fault_count: int
    episodes: RecentEpisodes
    _seconds_before: float
    _start: float
    _saved_update: int
    _due: bool


def capture(runner: Run) -> dict[str, Any]:
    """State of a run between two updates.

    With inline collection this is everything: learner, random generators, environments, rows in
    flight and recurrent states. With workers the environments start new episodes on resume.
    """
    parts = runner.parts
    exact = isinstance(parts.pool, InlinePool) and parts.pool.can_resume
    state: dict[str, Any] = {
        "steps": runner.steps,
        "seconds": runner._seconds_before + time.perf_counter() - runner._start,
        "fault_count": runner.fault_count,
        "due": runner._due,
        "learner": parts.learner.state_dict(),
        "episodes": [[e.length, e.reward, e.info] for e in runner.episodes.ended],
        "random": capture_random(parts.generator, parts.rng),
        "exact": exact,
    }
    if exact:
        state["pool"] = parts.pool.capture()
        state["collector"] = parts.collector.capture()
        state["storage"] = parts.storage.capture()
    if isinstance(parts.collector, Collector):
        state["next_episodes"] = parts.pool.next_episodes()
        state["carried"] = parts.pool.buffers["carried"].tolist()
    return state


def read_state(checkpoint: Path, rank: int, size: int, loose: bool) -> dict[str, Any]:
    """Reads what a rank needs to go on.

    Args:
        checkpoint: folder of the checkpoint.
        rank: this rank.
        size: number of ranks of this run.
        loose: whether another number of ranks may go on. A rank that is new gets what all ranks
            share, and begins its environments and random generators afresh.

    Raises:
        CheckpointError: if the checkpoint is damaged, or was written by another number of ranks.
    """
    if loose and not (checkpoint / f"state.{rank}.pt").is_file():
        shared = CheckpointManager.load(checkpoint, 0)
        return {k: v for k, v in shared.items() if k not in ("random", "next_episodes")}
    saved = read_meta(checkpoint).get("ranks", size)
    if saved != size and not loose:
        raise CheckpointError(
            f"'{checkpoint}' was written by {saved} rank(s) and this run has {size}: start "
            f"{saved}, or resume=loose to go on with new episodes"
        )
    return CheckpointManager.load(checkpoint, rank)


def restore(runner: Run, checkpoint: Path, state: dict[str, Any]) -> None:
    """Brings a freshly built run to the state of a checkpoint.

    Args:
        runner: a run built from the same configuration.
        checkpoint: folder of the checkpoint, for the weights.
        state: this rank's state, as read by :func:`read_state`.

    Raises:
        CheckpointError: if the checkpoint is damaged, or ``resume=exact`` and it was not written
            with inline collection of environments that can be brought back.
        TrainerError: if an environment cannot be brought back exactly.
    """
    parts, config = runner.parts, runner.config
    exact = state["exact"] and isinstance(parts.pool, InlinePool) and config.resume != "loose"
    if config.resume == "exact" and not exact:
        raise CheckpointError(
            f"'{checkpoint}' was not written with collector=inline, or its batched environment "
            "has no get_state() and set_state(), so it cannot be resumed exactly: use resume=auto"
        )
    parts.policy.load_state_dict(read_weights(checkpoint / "weights.safetensors")[0])
    parts.learner.load_state_dict(state["learner"])
    runner.steps, runner.fault_count = int(state["steps"]), int(state["fault_count"])
    runner._seconds_before = float(state["seconds"])
    runner.episodes.extend(EpisodeEnd(int(n), float(r), info) for n, r, info in state["episodes"])
    runner._saved_update = parts.learner.updates
    runner._due = bool(state.get("due", False))
    _check_teachers(getattr(parts.learner, "extras", ()), config)
    if exact:
        parts.pool.restore(state["pool"])
        parts.collector.restore(state["collector"])
        parts.storage.restore(state["storage"])
    if isinstance(parts.pool, BatchedEnv):
        parts.pool.go_on(runner.steps)
    if "random" in state:
        restore_random(state["random"], parts.generator, parts.rng)


def _check_teachers(extras: Sequence[Extra], config: TrainConfig) -> None:
    """Says where a teacher is not the one that the run had; ``resume=exact`` refuses it."""
    for extra in extras:
        if not getattr(extra, "is_another", False):
            continue
        others = " or distill.others" if config.distill.others else ""
        key = "pretrained" if extra.name == "anchor" else f"distill.teacher{others}"
        sentence = (
            f"the policy of {key} is not the one that this run had: its run folder has another "
            "best or newest checkpoint now"
        )
        if config.resume == "exact":
            raise CheckpointError(f"{sentence}; name the checkpoint, or give resume=auto")
        print(f"{sentence}; going on with this one", file=sys.stderr)


def agree_on_checkpoint(group: Group, checkpoint: Path | None) -> None:
    """Refuses ranks that would go on from different updates, all ranks alike.

    Raises:
        CheckpointError: e.g. if they do not see the same folder.
    """
    number = -1.0 if checkpoint is None else float(checkpoint.name.removeprefix("update_"))
    numbers = sorted(set(group.gather_array(np.array([number])).ravel().tolist()))
    if len(numbers) > 1:
        names = ", ".join("none" if n < 0 else f"update {n:.0f}" for n in numbers)
        raise CheckpointError(
            f"the ranks found different checkpoints ({names}): out= must be one folder that all "
            "of them see"
        )


def capture_random(generator: torch.Generator, rng: np.random.Generator) -> dict[str, Any]:
    """States of all random generators."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # type: ignore[misc]
    return {
        "python": list(random.getstate()[1]),
        "python_gauss": random.getstate()[2],
        "numpy": [kind, np.array(keys), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "actions": generator.get_state(),
        "mini_batches": rng.bit_generator.state,
    }


def restore_random(
    state: dict[str, Any], generator: torch.Generator, rng: np.random.Generator
) -> None:
    """Inverse of :func:`capture_random`.

    Generators of another kind of device, or of another number of GPUs, keep their fresh seeds.
    """
    random.setstate((3, tuple(state["python"]), state["python_gauss"]))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys, position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    # Kinds of devices differ in how long a generator's state is.
    if len(state["actions"]) == len(generator.get_state()):
        generator.set_state(state["actions"])
    rng.bit_generator.state = state["mini_batches"]
