"""The training loop."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from ver_trainer.config import TrainConfig, load_config, validate_pretrained
from ver_trainer.distributed.ranks import adopt_slurm_step
from ver_trainer.envs.pool import Fault
from ver_trainer.envs.slot import function_name
from ver_trainer.errors import Interrupted, WorkerFailure
from ver_trainer.evaluation import evaluate
from ver_trainer.export import policy_header
from ver_trainer.logger import Logger
from ver_trainer.parts import Parts, build, make_storage
from ver_trainer.recent import RecentEpisodes, interleave
from ver_trainer.resume import agree_on_checkpoint, capture, restore
from ver_trainer.rollout.collector import CollectStats
from ver_trainer.rollout.overlap import OverlappedCollector
from ver_trainer.run_folder import RunFolder
from ver_trainer.schemes import scheme_of
from ver_trainer.signals import StopSignals


@dataclass
class TrainResult:
    """How a run ended.

    Attributes:
        finished: whether ``total_steps`` were reached; otherwise a signal stopped the run.
        steps, updates: done so far.
        mean_return: mean over the last ``log.window`` episodes (NaN if none ended).
        signal: number of the signal that stopped the run, or 0.
        folder: the run folder.
    """

    finished: bool
    steps: int
    updates: int
    mean_return: float
    signal: int
    folder: Path


def train(
    config: TrainConfig | None = None,
    env: Callable[..., Any] | None = None,
    on_record: Callable[[dict[str, Any]], None] | None = None,
    **values: Any,
) -> TrainResult:
    """Trains a policy; the same call again continues the run in ``out``.

    Args:
        config: a configuration, or None to build one from ``values``.
        env: function that makes an environment, instead of a Gymnasium id.
        on_record: called with every record of the log.
        **values: configuration values, e.g. ``scheme="ver"`` or ``**{"ppo.epochs": 4}``.
    """
    return Runner(config or load_config(**values), env, on_record).run()


class Runner:
    """Runs a configuration from start, or from the last checkpoint, to its end.

    Attributes:
        steps, updates: environment steps (over all ranks) and policy updates so far.
        episodes: the last ``log.window`` episodes of all ranks, the same on every rank.
    """

    def __init__(
        self,
        config: TrainConfig,
        env: Callable[..., Any] | None = None,
        on_record: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._on_record = on_record or (lambda record: None)
        validate_pretrained(config)
        self.config = config = copy.deepcopy(config)  # automatic values are replaced in it
        if env is not None:
            config.env = function_name(env)
        self.folder = RunFolder(config)
        adopt_slurm_step()
        size = int(os.environ.get("WORLD_SIZE", "1"))
        rank = int(os.environ.get("RANK", "0")) if size > 1 else 0
        try:
            self._found = self.folder.open(config, rank, size)
            self.checkpoint = self._found.path if self._found else None
            self._resumed = self._found.state if self._found else {}
            first_episodes = tuple(self._resumed.get("next_episodes", ()))
            carried = tuple(self._resumed.get("carried", ()))
            self.parts: Parts = build(config, env, first_episodes, carried)
        except BaseException:
            self.folder.close()
            raise
        self.steps = 0
        self.episodes = RecentEpisodes(config.log, config.info_keys)
        self.signals = StopSignals()
        self.fault_count = 0
        self._seconds_before = 0.0
        self._rate: deque[tuple[float, int]] = deque(maxlen=20)
        self._boundary: dict[str, Any] | None = None
        self._eval_score: float | None = None  # of the weights as they are now
        self._due = False  # an evaluation of them that a signal interrupted
        self._saved_update = -1

    @property
    def updates(self) -> int:
        """Policy updates so far."""
        return self.parts.learner.updates

    def run(self) -> TrainResult:
        """Trains until ``total_steps`` or a signal."""
        parts = self.parts
        logger = None
        try:
            agree_on_checkpoint(parts.group, self.checkpoint)
            if self.checkpoint is not None:
                restore(self, self.checkpoint, self._resumed)
                self._resumed = {}
            if parts.group.is_first:
                self.folder.settle(self._found)
                if self.steps < self.config.total_steps:
                    self.folder.write_provenance(self.config)
            parts.group.barrier()
            resumed = self.updates if self.checkpoint is not None else None
            logger = self._open_logger(resumed)
            self.logger = logger
            with self.signals:
                finished = self._loop()
            return self._result(finished)
        finally:
            if parts.team is not None:
                parts.team.close()
            parts.pool.close()
            parts.group.close()
            self.folder.close()
            if logger is not None:
                logger.close()

    def _open_logger(self, resumed: int | None) -> Logger:
        run_config: Any = OmegaConf.to_container(OmegaConf.structured(self.config))
        logger = Logger(
            self.config.log,
            self.folder.path,
            {str(k): v for k, v in run_config.items()},
            self.config.total_steps,
            resumed,
            self.parts.group.is_first,
        )
        if resumed is not None:
            logger.message(f"continuing '{self.folder.path}' after {self.steps:,} steps")
        return logger

    def _result(self, finished: bool) -> TrainResult:
        return TrainResult(
            finished, self.steps, self.updates, self.mean_return(), self.signals.received,
            self.folder.path,
        )  # fmt: skip

    def mean_return(self) -> float:
        """Mean return of the last episodes, NaN if there is none."""
        return self.episodes.mean_return()

    def _loop(self) -> bool:
        self._start = time.perf_counter()
        self._rate.append((self._start, self.steps))
        try:
            if self._is_due():
                self._saved_update = -1  # without what it is worth
                self._measure()
            if scheme_of(self.config).overlap or self.config.collect.overlap:
                self._overlapped()
            else:
                self._alternating()
            if self._is_due():
                self._stop_together()
        except Interrupted:
            self._save(self._boundary)
            self._say_stopped()
            return False
        except WorkerFailure:
            if self.parts.group.size == 1:  # other ranks would have to save with it
                self._save(self._boundary)
            raise
        self._save(None)
        return True

    def _say_stopped(self) -> None:
        queued = self.parts.group.is_first and self.signals.requeue()
        again = "put back into the queue" if queued else "run the command again"
        self.logger.message(
            f"stopped by a signal after {self.steps:,} steps; checkpoint written, {again} to go on"
        )

    def _alternating(self) -> None:
        """Collection and learning take turns: ver, nover and ddppo."""
        parts = self.parts
        single = parts.group.size == 1
        if single:
            parts.pool.should_stop = self.signals.check
        parts.collector.version = self.updates
        while self.steps < self.config.total_steps:
            self._stop_together()
            if self.config.collector == "inline" and single:
                self._boundary = capture(self)
            torch.set_num_threads(self.config.collect.threads)
            stats = self._collect()
            begin = time.perf_counter()
            torch.set_num_threads(self.config.threads)
            metrics = parts.learner.update(parts.storage, self._progress(), steps=self.steps)
            learn = time.perf_counter() - begin
            parts.storage.after_update()
            self._boundary = None
            parts.collector.version = self.updates
            if parts.preemption is not None:
                parts.preemption.end(learn)
            self._after_update(stats, metrics, learn)

    def _collect(self) -> CollectStats:
        parts = self.parts
        preemption = parts.preemption
        if preemption is None:
            return parts.collector.collect()
        preemption.begin(parts.collector.step_seconds)
        parts.collector.ends_early = lambda: preemption.should_end(parts.storage.num_complete)
        stats = parts.collector.collect()
        preemption.collected(stats.steps)
        return stats

    def _overlapped(self) -> None:
        """Collection runs while the learner works: htsrl, async and ver with collect.overlap."""
        parts, config = self.parts, self.config
        scheme = scheme_of(config)
        count = config.collect.queue if scheme.continuous else 1
        spare = [
            make_storage(config, parts.spec, parts.policy, parts.device, config.collect.num_envs)
            for _ in range(count)
        ]
        learner = parts.learner
        parts.collector.policy = copy.deepcopy(parts.policy)  # the learner changes its own
        overlapped = OverlappedCollector(
            parts.collector, spare, scheme.continuous, scheme.delayed_gradient
        )
        parts.pool.should_stop = overlapped.stop_requested
        overlapped.start(learner.policy, self.updates)
        try:
            while self.steps < config.total_steps:
                self._stop_together()
                item = overlapped.take()
                if not scheme.continuous:
                    overlapped.publish(learner.policy, self.updates)
                    overlapped.resume()
                begin = time.perf_counter()
                metrics = learner.update(item.storage, self._progress(), item.behaviour, self.steps)
                overlapped.give_back(item.storage)
                if scheme.continuous:
                    overlapped.publish(learner.policy, self.updates)
                self._after_update(item.stats, metrics, time.perf_counter() - begin)
        finally:
            overlapped.close()

    def _progress(self) -> float:
        return min(self.steps / self.config.total_steps, 1.0)

    def _stop_together(self) -> None:
        """Raises Interrupted on all ranks if one of them received a signal."""
        group = self.parts.group
        if group.size == 1:
            self.signals.check()
        elif found := int(group.gather_array(np.array([float(self.signals.received)])).max()):
            self.signals.received = self.signals.received or found
            raise Interrupted("signal")

    def _after_update(
        self, stats: CollectStats, metrics: dict[str, float], learn_seconds: float
    ) -> None:
        self.folder.check()
        group, log = self.parts.group, self.config.log
        self._eval_score = None
        total = int(group.sum_array(np.array([float(stats.steps)]))[0])
        self.steps += total
        found = group.gather((stats.episodes, stats.faults))
        self.episodes.extend(interleave([episodes for episodes, _ in found]))
        self._report_faults([faults for _, faults in found])
        if log.eval_interval and self.updates % log.eval_interval == 0:
            self._measure()
        if self.updates % log.interval == 0:
            record = self._record(stats, metrics, learn_seconds)
            self.logger.record(record)
            self._on_record(record)
        if self.updates % log.checkpoint_interval == 0:
            self._save(None)

    def _report_faults(self, of_ranks: list[list[Fault]]) -> None:
        self.fault_count += sum(map(len, of_ranks))
        for rank, faults in enumerate(of_ranks):
            where = f" of rank {rank}" if len(of_ranks) > 1 else ""
            for fault in faults:
                self.logger.message(
                    f"{fault.who}{where} replaced ({fault.kind}, {self.fault_count} so far, "
                    f"{self.config.collect.max_faults} allowed in one start): {fault.brief}"
                )

    def _record(
        self, stats: CollectStats, metrics: dict[str, float], learn_seconds: float
    ) -> dict[str, Any]:
        self._rate.append((now := time.perf_counter(), self.steps))
        then, steps_then = self._rate[0]
        record: dict[str, Any] = {
            "step": self.steps,
            "update": self.updates,
            "time/seconds": self._seconds_before + now - self._start,
            "time/steps_per_second": (self.steps - steps_then) / max(now - then, 1e-9),
            "time/collect": stats.total,
            "time/wait": stats.wait,
            "time/inference": stats.inference,
            "time/learn": learn_seconds,
            "collect/steps": stats.steps,
            "collect/batch": stats.requests / max(stats.batches, 1),
            "collect/ended_early": int(stats.ended_early),
            "fault/count": self.fault_count,
            "fault/dropped_steps": stats.dropped,
        }
        record |= {f"learner/{name}": value for name, value in metrics.items()}
        return record | self.episodes.means()

    def _measure(self) -> None:
        """Evaluates, and keeps what was measured; after a signal it is due when the run goes on."""
        self._due = True
        with contextlib.suppress(Interrupted):  # the loop sees the signal, with all ranks
            self._evaluate()
            self._due = False
        if self.episodes.best_by() == "eval":
            self._save(None)

    def _is_due(self) -> bool:
        """Whether an evaluation is due, on all ranks alike: the first one makes it."""
        due = self.parts.group.gather_array(np.array([float(self._due)]))
        return bool(due.max() > 0)

    def _evaluate(self) -> None:
        """Periodic evaluation with episodes of its own, and a video if wanted."""
        parts, log = self.parts, self.config.log
        if not parts.group.is_first or not hasattr(parts.pool, "send"):
            return
        video = None
        if log.eval_video:
            video = self.folder.path / "videos" / f"update_{self.updates:09d}"
        result = evaluate(
            parts.policy,
            parts.factory.single(),
            log.eval_episodes,
            workers=self.config.collector == "workers",
            info_keys=tuple(self.config.info_keys),
            video=video,
            limits=parts.pool.options,
            should_stop=self.signals.check,
        ).summary()
        self._eval_score = result.get("success", result["return"])
        record = {f"eval/{name}": value for name, value in result.items()}
        self.logger.record_evaluation(self.steps, self.updates, record)

    def _save(self, boundary: dict[str, Any] | None) -> None:
        """Writes a checkpoint; ``boundary`` is the state if collection was interrupted."""
        parts = self.parts
        if self.updates == self._saved_update:
            return
        state = boundary if boundary is not None else capture(self)
        self.folder.checkpoints.save(
            self.updates,
            parts.policy.state_dict(),
            policy_header(parts.policy, {"env": self.config.env, "env_args": self.config.env_args}),
            state,
            {
                "steps": self.steps,
                "mean_return": self.mean_return() if self.episodes.ended else None,
                "seconds": state["seconds"],
                "ranks": parts.group.size,
                "actor_obs": list(parts.policy.actor_obs),
                "critic_obs": list(parts.policy.critic_obs),
                "config": dataclasses.asdict(self.config),
            },
            self.episodes.score(self._eval_score),
            self.episodes.kind(),
            parts.group,
        )
        self._saved_update = self.updates
