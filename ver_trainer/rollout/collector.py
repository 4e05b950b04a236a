"""Fills the rollout buffer: waits for environments, batches inference, sends actions back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from ver_trainer.envs.pool import Fault
from ver_trainer.errors import NonFiniteError
from ver_trainer.inference.step import Inference
from ver_trainer.inference.team import Batch, InferenceTeam
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.rollout.transfer import Transfer


class Pool(Protocol):
    """What the collector needs of environments: see ``envs.pool.WorkerPool``."""

    num_envs: int
    unit_size: int
    waits: bool
    buffers: dict[str, np.ndarray]

    def send(self, rows: np.ndarray) -> None: ...  # noqa: D102
    def receive(self, max_wait: float | None) -> list[int]: ...  # noqa: D102
    def take_faults(self) -> list[Fault]: ...  # noqa: D102


@dataclass(frozen=True)
class CollectRules:
    """How environments share a rollout.

    Attributes:
        lock_step: every inference waits for all environments (DD-PPO).
        quota: every environment collects the same number of steps (all but VER and async).
        replay: at the end of a rollout environments wait for the new policy; otherwise the old one
            gives them an action, they step while the learner works, and the step belongs to the
            next rollout.
        min_batch: requests that start an inference at once; fewer wait for half the time that an
            inference takes.
        max_batch: most requests of one inference.
    """

    lock_step: bool
    quota: bool
    replay: bool
    min_batch: int
    max_batch: int


@dataclass
class EpisodeEnd:
    """One finished episode."""

    length: int
    reward: float
    info: dict[str, float]


@dataclass
class CollectStats:
    """What happened during one rollout; times in seconds."""

    steps: int = 0
    wait: float = 0.0
    inference: float = 0.0
    total: float = 0.0
    batches: int = 0
    requests: int = 0
    dropped: int = 0
    ended_early: bool = False
    episodes: list[EpisodeEnd] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class Collector:
    """Collects rollouts from a pool of environments.

    Rows of a batched environment step together, so they are given actions together. Where a
    rollout is full with some of them, these wait (``_pending``) for the others, whose results open
    the next one.

    Attributes:
        version: number of the policy used for inference, stored with every row.
        ends_early: called while waiting (in lock step after every step of all environments); true
            ends the rollout before it is full.
        before_inference: called before every inference (fetches new weights in ``async``).
        step_seconds: running mean of the seconds between successive steps of each environment,
            waiting for inference and for its turn included, learning excluded ``[num_envs]``.
    """

    def __init__(
        self,
        pool: Pool,
        storage: RolloutStorage,
        policy: Policy,
        rules: CollectRules,
        generator: torch.Generator,
        device: torch.device,
        info_keys: tuple[str, ...] = (),
        check_finite: bool = True,
        team: InferenceTeam | None = None,
    ) -> None:
        self.pool, self.storage, self.policy, self.rules = pool, storage, policy, rules
        self.generator, self.device, self.info_keys = generator, device, info_keys
        self.team = team
        self.version = 0
        self.ends_early: Callable[[], bool] | None = None
        self.before_inference: Callable[[], None] = lambda: None
        self.transfer = Transfer(pool.buffers, policy.spec.action, device)
        self.state = policy.initial_state(pool.num_envs, device) if team is None else team.state
        self.step_of_env = np.zeros(pool.num_envs, np.int64)
        self.served = np.zeros(pool.num_envs, np.int64)
        self.step_seconds = np.zeros(pool.num_envs)
        self._window = 5 * storage.size // storage.num_envs  # steps that step_seconds averages
        self._collected_seconds = 0.0  # in rollouts before this one
        self._begin = 0.0
        self._step_began = np.full(pool.num_envs, np.nan)  # in seconds of collection
        self.stats = CollectStats()
        self._ready: list[int] = []  # results not looked at yet
        self._pending = np.zeros(0, np.int64)  # results taken, waiting for an action
        self._unit = pool.unit_size
        self._inference_seconds = 0.002
        self._finite = [k for k in storage.obs if storage.obs[k].is_floating_point()]
        self._check_rewards = check_finite
        if not check_finite:
            self._finite = []

    @torch.inference_mode()
    def collect(self) -> CollectStats:
        """Fills the storage with one rollout and bootstraps its unfinished episodes.

        Raises:
            NonFiniteError: for a NaN or infinity in an observation or a reward.
            WorkerFailure: after too many faults.
        """
        stats = self.stats = CollectStats()
        self._begin = time.perf_counter()
        if len(self._pending):
            self._act(self._take_pending())
        while True:
            self._take_results(self._wait())
            if self.storage.num_complete >= self.storage.size:
                break
            if self.ends_early is not None and self.ends_early():
                stats.ended_early = True
                break
            self._act(self._below_quota())
        self._bootstrap()
        stats.steps = self.storage.num_complete
        stats.total = time.perf_counter() - self._begin
        self._collected_seconds += stats.total
        return stats

    def _below_quota(self) -> np.ndarray:
        if not self.rules.quota:
            return self._take_pending()
        quota = self.storage.size // self.pool.num_envs
        # A unit goes on while one of its rows is behind (it was idle, or lost an episode).
        least = self.storage.steps_of_env.reshape(-1, self._unit).min(1)
        return self._take_pending(least < quota)

    def _take_pending(self, units: np.ndarray | None = None) -> np.ndarray:
        """Takes the rows of ``units`` (mask) that are there as a whole; others go on waiting."""
        envs, unit = self._pending, self._pending // self._unit
        taken = np.ones(len(envs), bool) if units is None else units[unit]
        if self._unit > 1:
            taken &= np.bincount(unit, minlength=1)[unit] == self._unit
        self._pending = envs[~taken]
        return envs[taken]

    def _wait(self) -> np.ndarray:
        """Sleeps until there is a batch; least-served environments first."""
        begin = time.perf_counter()
        first: float | None = begin if self._ready else None
        while True:
            wanted, patience = self._wanted()
            count = len(self._ready)
            now = time.perf_counter()
            if count >= wanted:
                break
            if count and first is not None and now - first >= patience:
                break
            left = None if first is None else max(first + patience - now, 0.0)
            # In lock step a rollout ends between two steps of all environments.
            if self.ends_early is not None and not self.rules.lock_step:
                if self.ends_early():
                    break
                left = min(left, 0.005) if left is not None else 0.005
            if self.team is not None:
                self._poll_team()
                if self.team.busy:  # a worker that fails must not be waited for
                    left = min(left, 0.1) if left is not None else 0.1
            new = self.pool.receive(left)
            self._handle_faults()
            self._ready += new  # all of them after faults: also first ones of new processes
            if first is None and self._ready:
                first = time.perf_counter()
        self.stats.wait += time.perf_counter() - begin
        ready = np.array(self._ready, np.int64)
        # Rows of a unit stay together.
        order = np.lexsort((ready, self.served[ready // self._unit * self._unit]))
        most = max(self.rules.max_batch // self._unit, 1) * self._unit
        room = self.storage.size - self.storage.num_complete
        taken = order[: min(most, room)]
        self._ready = np.delete(ready, taken).tolist()
        return ready[taken]

    def _wanted(self) -> tuple[int, float]:
        """Requests to wait for, and for how long after the first one."""
        outstanding = self.pool.num_envs - len(self._pending)
        if self.rules.lock_step:
            return outstanding, float("inf")
        # Where results come as soon as they are asked for, the clock must decide nothing.
        patience = self._inference_seconds / 2 if self.pool.waits else float("inf")
        return min(self.rules.min_batch, outstanding), patience

    def _handle_faults(self) -> None:
        faults = self.pool.take_faults()
        if faults and self.team is not None:
            self._wait_for_team()  # before rows move
            self.team.reconnect()
        for fault in faults:
            self.stats.faults.append(fault)
            rows = np.array(fault.rows, np.int64)
            self.stats.dropped += self.storage.drop_episodes(rows)
            self.state[torch.from_numpy(rows).to(self.device)] = 0.0
            self.step_of_env[rows] = 0
            # The new process announces itself with a first observation.
            self._ready = [e for e in self._ready if e not in fault.rows]
            self._pending = self._pending[~np.isin(self._pending, rows)]

    def _take_results(self, envs: np.ndarray) -> None:
        self._check_finite(envs)
        self._pending = np.concatenate((self._pending, envs))
        self._time_steps(envs)
        envs = envs[self.storage.open_row[envs] >= 0]  # the others bring a first observation
        if not len(envs):
            return
        buffers = self.pool.buffers
        terminated = buffers["terminated"][envs] != 0
        truncated = (buffers["truncated"][envs] != 0) & ~terminated
        ended = terminated | truncated
        final = np.zeros(len(envs), np.float32)
        if truncated.any():
            self._check_observations(envs[truncated], "final_obs/")  # the others' is not used
            final[truncated] = self._final_values(envs[truncated])
        self.storage.finish_step(envs, buffers["reward"][envs], ended, final)
        self.served[envs] += 1
        self.step_of_env[envs] += 1
        if ended.any():
            self._end_episodes(envs[ended])

    def _time_steps(self, envs: np.ndarray) -> None:
        now = self._collected_seconds + time.perf_counter() - self._begin
        seconds = now - self._step_began[envs]
        self._step_began[envs] = now
        known = (self.storage.open_row[envs] >= 0) & np.isfinite(seconds)
        envs, seconds = envs[known], seconds[known]
        weight = 1 / np.clip(self.served[envs] + 1, 1, self._window)
        self.step_seconds[envs] += weight * (seconds - self.step_seconds[envs])

    def _final_values(self, envs: np.ndarray) -> np.ndarray:
        obs = self.transfer.read_final(list(self.storage.obs), envs)
        state = self.state[torch.from_numpy(envs).to(self.device)]
        return self.policy.value(obs, state).float().cpu().numpy()

    def _end_episodes(self, envs: np.ndarray) -> None:
        self.state[torch.from_numpy(envs).to(self.device)] = 0.0
        self.step_of_env[envs] = 0
        buffers = self.pool.buffers
        for env in envs.tolist():
            row = buffers["info"][env].tolist()
            info = {k: v for k, v in zip(self.info_keys, row, strict=True) if v == v}
            self.stats.episodes.append(
                EpisodeEnd(
                    int(buffers["episode_length"][env]),
                    float(buffers["episode_return"][env]),
                    info,
                )
            )

    def _check_finite(self, envs: np.ndarray) -> None:
        buffers = self.pool.buffers
        if self._check_rewards and not np.isfinite(buffers["reward"][envs]).all():
            bad = envs[~np.isfinite(buffers["reward"][envs])].tolist()
            raise NonFiniteError(
                f"the reward of environment {bad} is not finite: fix the environment; the last "
                "checkpoint is kept"
            )
        self._check_observations(envs, "obs/")

    def _check_observations(self, envs: np.ndarray, prefix: str) -> None:
        for name in self._finite:
            values = self.pool.buffers[prefix + name][envs]
            if not np.isfinite(values).all():
                axes = tuple(range(1, values.ndim))
                bad = envs[~np.isfinite(values).all(axis=axes)].tolist()
                raise NonFiniteError(
                    f"the observation '{name}' of environment {bad} is not finite: fix the "
                    "environment; the last checkpoint is kept"
                )

    def _act(self, envs: np.ndarray) -> None:
        """Infers for ``envs``, sends their actions and stores the rows."""
        if not len(envs):
            return
        envs = self._without_idle(envs)
        if not len(envs):
            return
        self.before_inference()
        episodes = self.pool.buffers["episode"][envs]
        rows = self.storage.append(envs, episodes, self.step_of_env[envs], self.version)
        if self.team is not None:
            self._poll_team()
            if self.team.take(Batch(envs, rows)):
                return
        self._infer(envs, rows)

    def _without_idle(self, envs: np.ndarray) -> np.ndarray:
        """Rows whose next step is experience; sends units that have none of them."""
        idle = self.pool.buffers["idle"][envs] != 0
        if not idle.any():
            return envs
        acting, waiting = envs[~idle], envs[idle]
        alone = waiting[~np.isin(waiting // self._unit, acting // self._unit)]
        if len(alone):
            self.pool.send(alone)
        return acting

    def _infer(self, envs: np.ndarray, rows: slice) -> None:
        begin = time.perf_counter()
        inference = Inference(
            self.policy, self.storage.tensors, self.state, self.transfer, self.generator
        )
        outcome = inference.act(envs, rows)
        self.pool.send(envs)
        inference.store(outcome)
        self._note_inference(len(envs), time.perf_counter() - begin)

    def _note_inference(self, count: int, seconds: float) -> None:
        self._inference_seconds += 0.02 * (seconds - self._inference_seconds)
        self.stats.inference += seconds
        self.stats.batches += 1
        self.stats.requests += count

    def _poll_team(self, timeout: float = 0.0) -> None:
        """Hears from the inference workers; does the work of one that failed."""
        assert self.team is not None
        for batch in self.team.poll(timeout):
            self._infer(batch.envs, batch.rows)
        for count, seconds in self.team.finished:
            self._note_inference(count, seconds)
        self.team.finished.clear()
        self.stats.faults += self.team.take_faults()

    def _wait_for_team(self) -> None:
        """Returns when no other process touches weights, rows or recurrent states."""
        while self.team is not None and self.team.busy:
            self._poll_team(0.1)

    def _bootstrap(self) -> None:
        """Gives unfinished episodes the value of the state in which the rollout leaves them."""
        self._wait_for_team()
        if not self.rules.replay:
            self._act(self._take_pending())
            self._wait_for_team()
        if len(envs := self._pending):
            obs = self.transfer.read(list(self.storage.obs), envs)
            state = self.state[torch.from_numpy(envs).to(self.device)]
            values = self.policy.value(obs, state).float().cpu().numpy()
            self.storage.bootstrap(envs, values)
        self.storage.bootstrap_in_flight()

    def capture(self) -> dict[str, Any]:
        """State between rollouts, for an exact resume."""
        return {
            "state": self.state.cpu().clone(),
            "step_of_env": self.step_of_env.copy(),
            "served": self.served.copy(),
            "step_seconds": self.step_seconds.copy(),
            "ready": list(self._ready),
            "pending": self._pending.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`capture`."""
        self.state.copy_(state["state"])
        self.step_of_env = np.array(state["step_of_env"])
        self.served = np.array(state["served"])
        self.step_seconds = np.array(state["step_seconds"])
        self._ready = [int(e) for e in state["ready"]]
        self._pending = np.array(state["pending"], np.int64)
