"""Environments that step thousands of worlds at once and hand over torch tensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from ver_trainer.envs.spaces import ActionSpec, describe
from ver_trainer.errors import NonFiniteError, TrainerError
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.collector import CollectStats, EpisodeEnd
from ver_trainer.rollout.storage import RolloutStorage


class BatchedEnv:
    """Adapter for a batched torch environment.

    The environment has ``num_envs``, ``single_observation_space``, ``single_action_space`` and

    * ``reset(seed=int) -> (obs, info)``
    * ``step(action) -> (obs, reward, terminated, truncated, info)``

    as in ``gymnasium.vector.VectorEnv`` with automatic reset in the same step: observations are a
    tensor ``[n, *shape]`` or a (nested) dict of them, ``info["final_obs"]`` holds, where an
    episode ended, its last observation (same structure, all ``n`` rows). Continuous actions arrive
    mapped to the action space's bounds. All tensors lie where the policy is. Batched environments
    of NumPy arrays step in an ``envs.batch_slot.BatchSlot`` instead.

    Raises:
        SpaceError: its spaces cannot be trained on.
        TrainerError: it says that it resets otherwise.
    """

    buffers: dict[str, np.ndarray]

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self.seed = env, seed
        self.num_envs: int = env.num_envs
        self.spec = describe(env.single_observation_space, env.single_action_space)
        self.should_stop: Any = lambda: None
        self._first: dict[str, Any] | None = None

    def hands_over_tensors(self) -> bool:
        """Whether observations are torch tensors; resets the environment.

        Raises:
            TrainerError: they are, and the environment does not reset in the same step.
        """
        observation, _ = self.env.reset(seed=self.seed)
        self._first = flatten(observation)
        if not all(isinstance(value, Tensor) for value in self._first.values()):
            return False
        metadata = getattr(self.env, "metadata", None) or {}
        mode = AutoresetMode(metadata.get("autoreset_mode", AutoresetMode.SAME_STEP))
        if mode is not AutoresetMode.SAME_STEP:
            raise TrainerError(
                f"{type(self.env).__name__} hands over tensors and has the autoreset mode "
                f"{mode.value}: let it reset in the same step, or hand over NumPy arrays"
            )
        return True

    def reset(self) -> dict[str, Tensor]:
        """Starts all episodes."""
        first, self._first = self._first, None
        return first if first is not None else flatten(self.env.reset(seed=self.seed)[0])

    def go_on(self, steps: int) -> None:
        """Seeds the next reset anew, after so many steps of the run before."""
        self.seed, self._first = self.seed + steps, None

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


def flatten(observation: Any, prefix: str = "") -> dict[str, Tensor]:
    """Nested dict of tensors to a flat one with dotted names."""
    if not isinstance(observation, dict):
        return {prefix or "obs": observation}
    flat: dict[str, Tensor] = {}
    for key, value in observation.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


class BatchedCollector:
    """Collects ``steps`` steps of every world; nothing leaves the device but ends of episodes.

    Rows are appended like those of any other collector, so sequences, returns and mini-batches are
    the same code.
    """

    def __init__(
        self,
        env: BatchedEnv,
        storage: RolloutStorage,
        policy: Policy,
        generator: torch.Generator,
        info_keys: tuple[str, ...] = (),
        check_finite: bool = True,
    ) -> None:
        self.env, self.storage, self.policy = env, storage, policy
        self.generator, self.info_keys, self.check_finite = generator, info_keys, check_finite
        self.device = storage.tensors["value"].device
        self.version = 0
        self.step_seconds = np.zeros(env.num_envs)
        self.state = policy.initial_state(env.num_envs, self.device)
        self.ends_early: Callable[[], bool] | None = None
        n = env.num_envs
        self._all = np.arange(n)
        self._episode, self._step = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._return = torch.zeros(n, device=self.device)
        self._obs: dict[str, Tensor] | None = None

    @torch.inference_mode()
    def collect(self) -> CollectStats:
        """Fills the storage with one rollout."""
        stats, begin = CollectStats(), time.perf_counter()
        if self._obs is None:
            self._obs = self.env.reset()
            self._check_device(self._obs)
            self._refuse(self._finite(self._obs).cpu().numpy())
        rewards = []
        rows_per_step = self.env.num_envs
        steps = self.storage.size // rows_per_step
        for done in range(1, steps + 1):
            self.env.should_stop()
            rewards.append(self._one_step(stats))
            if done < steps and self.ends_early is not None and self.ends_early():
                stats.ended_early = True
                break
        values = self.policy.value(self._obs, self.state).float().cpu().numpy()
        self.storage.bootstrap(self._all, values)
        self._store_rewards(torch.stack(rewards))
        stats.steps = self.storage.num_complete
        stats.batches, stats.requests = len(rewards), stats.steps
        stats.total = time.perf_counter() - begin
        self.step_seconds[:] = stats.total / len(rewards)
        return stats

    def _one_step(self, stats: CollectStats) -> Tensor:
        storage, tensors = self.storage, self.storage.tensors
        assert self._obs is not None
        rows = storage.append(self._all, self._episode, self._step, self.version)
        for name, value in self._obs.items():
            storage.obs[name][rows] = value
        step = self.policy.act(self._obs, self.state, self.generator)
        tensors["state"][rows] = self.state
        tensors["action"][rows] = step.action
        tensors["log_prob"][rows] = step.log_prob
        tensors["value"][rows] = step.value
        action = rescale(self.env.spec.action, step.action)
        observation, reward, terminated, truncated, info = self.env.env.step(action)
        self._obs, self.state = flatten(observation), step.state.clone()
        self._return += reward
        self._step += 1
        finite = self._finite(self._obs)  # one transfer with the flags
        flags = torch.stack((terminated.bool(), truncated.bool(), finite)).cpu().numpy()
        self._refuse(flags[2])
        ended = flags[0] | flags[1]
        final = np.zeros(len(ended), np.float32)
        if (cut := flags[1] & ~flags[0]).any():
            final[cut] = self._final_values(info["final_obs"], cut)
        storage.finish_step(self._all, np.zeros(len(ended)), ended, final)
        if ended.any():
            self._end(ended, info, stats)
        return reward.float().clone()  # an engine may write every step into the same tensor

    def _final_values(self, final_obs: Any, cut: np.ndarray) -> np.ndarray:
        index = torch.from_numpy(np.flatnonzero(cut)).to(self.device)
        obs = {name: value[index] for name, value in flatten(final_obs).items()}
        finite = np.ones(len(cut), bool)
        finite[cut] = self._finite(obs).cpu().numpy()
        self._refuse(finite)
        return self.policy.value(obs, self.state[index]).float().cpu().numpy()

    def _check_device(self, obs: dict[str, Tensor]) -> None:
        for name, value in obs.items():
            if value.device.type != self.device.type:
                raise TrainerError(
                    f"{type(self.env.env).__name__} hands over {name} on {value.device.type} and "
                    f"the policy is on {self.device.type}: use device={value.device.type}, or make "
                    "the environment's tensors where the policy is"
                )

    def _finite(self, obs: dict[str, Tensor]) -> Tensor:
        """Which worlds have observations without NaN and infinity ``[n]``; all if unchecked."""
        first = next(iter(obs.values()))
        finite = torch.ones(len(first), dtype=torch.bool, device=first.device)
        for value in obs.values():
            if self.check_finite and value.is_floating_point():
                finite &= torch.isfinite(value).reshape(len(first), -1).all(1)
        return finite

    def _refuse(self, finite: np.ndarray) -> None:
        if not finite.all():
            raise NonFiniteError(
                f"an observation of worlds {np.flatnonzero(~finite).tolist()[:10]} is not finite: "
                "fix the environment; the last checkpoint is kept"
            )

    def _end(self, ended: np.ndarray, info: dict[str, Any], stats: CollectStats) -> None:
        envs = np.flatnonzero(ended)
        index = torch.from_numpy(envs).to(self.device)
        columns = [self._return, *self._found(info).values()]
        found = torch.stack([torch.as_tensor(c)[index].float() for c in columns]).tolist()
        names = list(self._found(info))
        for env, total, *values in zip(envs.tolist(), *found, strict=True):
            shown = {name: v for name, v in zip(names, values, strict=True) if v == v}
            stats.episodes.append(EpisodeEnd(int(self._step[env]), total, shown))
        self._return[index] = 0.0
        self.state[index] = 0.0
        self._episode[envs] += 1
        self._step[envs] = 0

    def _found(self, info: dict[str, Any]) -> dict[str, Any]:
        last = info.get("final_info", info)
        return {key: last[key] for key in self.info_keys if key in last}

    def _store_rewards(self, rewards: Tensor) -> None:
        array = rewards.cpu().numpy().reshape(-1)
        if self.check_finite and not np.isfinite(array).all():
            worlds = np.flatnonzero(~np.isfinite(array)) % self.env.num_envs
            raise NonFiniteError(
                f"the reward of worlds {sorted(set(worlds.tolist()))[:10]} is not finite: fix the "
                "environment; the last checkpoint is kept"
            )
        self.storage.reward[: len(array)] = array


def rescale(spec: ActionSpec, action: Tensor) -> Tensor:
    """Maps policy actions to the action space's bounds, like ``envs.spaces.rescale_action``."""
    if spec.kind == "discrete":
        return action + spec.start
    low = torch.tensor(spec.low, device=action.device)
    high = torch.tensor(spec.high, device=action.device)
    bounded = torch.isfinite(low) & torch.isfinite(high)
    centre = torch.where(bounded, (low + high) / 2, torch.zeros_like(low))
    half = torch.where(bounded, (high - low) / 2, torch.ones_like(low))
    scaled = (action * half + centre).clamp(low, high)
    return scaled.reshape(-1, *spec.shape)
