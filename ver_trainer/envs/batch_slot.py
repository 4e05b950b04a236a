"""A batched environment and its rows in the transfer buffers: used by workers and inline alike."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from ver_trainer.envs.slot import (
    EnvFactory,
    EnvSlot,
    carried,
    describe_env,
    episode_seed,
    info_number,
    take_up,
    with_prefix,
)
from ver_trainer.envs.spaces import ObservationWriter, to_env_actions
from ver_trainer.errors import TrainerError


def reset_mode(env: Any) -> AutoresetMode:
    """How a batched environment begins its next episodes.

    Returns:
        ``DISABLED`` for all that can be reset by a mask: then no step is lost.

    Raises:
        TrainerError: if it does not say, or says something else than Gymnasium's three modes.
    """
    declared = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    try:
        mode = AutoresetMode(declared)
    except ValueError:
        raise TrainerError(
            f"the batched environment {type(env).__name__} has metadata['autoreset_mode']="
            f"{declared!r}: set it to one of gymnasium.vector.AutoresetMode, which say where the "
            "last observation of an episode is found"
        ) from None
    masked = isinstance(getattr(env, "unwrapped", None), SyncVectorEnv | AsyncVectorEnv)
    return AutoresetMode.DISABLED if mode is AutoresetMode.NEXT_STEP and masked else mode


class BatchSlot:
    """Steps the worlds of one batched environment and writes their results into its rows.

    When an episode ends, ``final_obs`` holds its last observation and ``obs`` the first one of the
    next episode. Where the environment resets only in its next step (``NEXT_STEP``), ``obs`` is
    the last one as well and the row is ``idle``: its next step is no experience.

    Only the first reset is seeded; later episodes follow from the environment's own generators.

    Attributes:
        row: the first of its rows.
        count: their number.
    """

    def __init__(
        self,
        factory: EnvFactory,
        buffers: dict[str, np.ndarray],
        row: int,
        base_seed: int,
        info_keys: tuple[str, ...],
        seed_index: int,
        first_episodes: tuple[int, ...],
    ) -> None:
        self.env = factory()
        self.row, self.count = row, int(self.env.num_envs)
        self._mode = reset_mode(self.env)
        self._buffers = {name: array[row : row + self.count] for name, array in buffers.items()}
        self._obs = with_prefix(self._buffers, "obs/")
        self._final_obs = with_prefix(self._buffers, "final_obs/")
        self._info_keys = info_keys
        self._writer = ObservationWriter(self.env.single_observation_space)
        self._spec = describe_env(self.env).action
        self._action_type = self.env.single_action_space.dtype
        self._seed = episode_seed(base_seed, seed_index, first_episodes[0])
        self._buffers["episode"][:] = first_episodes
        self._return = np.zeros(self.count)
        self._length = np.zeros(self.count, np.int64)
        self._begun = False
        take_up(self.env, float(self._buffers["carried"].mean()))  # batches may have been others

    def reset(self) -> None:
        """Begins an episode in every world and writes the first observations."""
        observation, _ = self.env.reset(seed=self._seed)
        self._begun = True
        self._refuse_gpu(observation)
        self._buffers["idle"][:] = 0
        self._return[:], self._length[:] = 0.0, 0
        self._writer.write_batch(observation, self._obs)

    def step(self) -> None:
        """Steps all worlds with the actions in their rows and writes the results."""
        buffers = self._buffers
        actions = to_env_actions(self._spec, buffers["action"], self._action_type)
        observation, reward, terminated, truncated, info = self.env.step(actions)
        begun = buffers["idle"] != 0
        self._return += reward
        self._length += 1
        if begun.any():
            buffers["idle"][begun] = 0
            self._begin(begun)
        buffers["reward"][:] = reward
        buffers["terminated"][:], buffers["truncated"][:] = terminated, truncated
        ended = (buffers["terminated"] | buffers["truncated"]) != 0
        self._writer.write_batch(observation, self._obs)
        if ended.any():
            self._end(ended, observation, info)

    def _end(self, ended: np.ndarray, observation: Any, info: dict[str, Any]) -> None:
        buffers = self._buffers
        buffers["episode_return"][ended] = self._return[ended]
        buffers["episode_length"][ended] = self._length[ended]
        buffers["carried"][:] = carried(self.env)
        self._write_info(info, ended)
        if self._mode is AutoresetMode.SAME_STEP:
            self._write_final(info, ended)
            self._begin(ended)
            return
        self._writer.write_batch(observation, self._final_obs, ended)
        if self._mode is AutoresetMode.NEXT_STEP:
            buffers["idle"][ended] = 1
            return
        observation, _ = self.env.reset(options={"reset_mask": ended.copy()})
        self._writer.write_batch(observation, self._obs, ended)
        self._begin(ended)

    def _begin(self, worlds: np.ndarray) -> None:
        self._return[worlds], self._length[worlds] = 0.0, 0
        self._buffers["episode"][worlds] += 1

    def _write_final(self, info: dict[str, Any], ended: np.ndarray) -> None:
        final = info.get("final_obs")
        if final is None:
            raise TrainerError(
                f"{type(self.env).__name__} resets in the same step and gives no "
                "info['final_obs'] where an episode ended: return the last observations there, as "
                "gymnasium.vector.SyncVectorEnv does"
            )
        if isinstance(final, np.ndarray) and final.dtype == object:
            for world in np.flatnonzero(ended).tolist():
                self._writer.write(final[world], self._final_obs, world)
        else:
            self._writer.write_batch(final, self._final_obs, ended)

    def _write_info(self, info: dict[str, Any], ended: np.ndarray) -> None:
        last = info.get("final_info", info)  # of SAME_STEP: info itself is of the new episode
        for column, key in enumerate(self._info_keys):
            target = self._buffers["info"][:, column]
            target[ended] = np.nan
            if key not in last:
                continue
            known = ended & np.asarray(last.get(f"_{key}", True))
            values = np.asarray(last[key])
            target[known] = [info_number(value) for value in values[known]]

    def _refuse_gpu(self, observation: Any) -> None:
        leaf = observation
        while isinstance(leaf, dict):
            leaf = next(iter(leaf.values()))
        if getattr(leaf, "is_cuda", False):
            raise TrainerError(
                "the batched environment hands over tensors on a GPU, which another process "
                "cannot read: use collector=inline"
            )

    @property
    def can_resume(self) -> bool:
        """Whether the environment can be brought back to where it was."""
        inner: Any = getattr(self.env, "unwrapped", self.env)
        return all(callable(getattr(inner, name, None)) for name in ("get_state", "set_state"))

    def capture(self) -> dict[str, Any]:
        """State for an exact resume, beside the buffers; before the first reset none of its own."""
        inner: Any = getattr(self.env, "unwrapped", self.env)
        return {
            "env": copy.deepcopy(inner.get_state()) if self._begun else None,  # of live arrays?
            "return": self._return.copy(),
            "length": self._length.copy(),
        }

    def restore(self, state: dict[str, Any], expected: dict[str, np.ndarray]) -> None:
        """Brings the environment back to a captured state; ``expected`` are its observations."""
        self.reset()
        if state["env"] is not None:
            getattr(self.env, "unwrapped", self.env).set_state(state["env"])
        self._return[:], self._length[:] = state["return"], state["length"]
        for name, values in expected.items():
            self._obs[name][:] = values

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


def make_slot(
    factory: EnvFactory,
    buffers: dict[str, np.ndarray],
    row: int,
    base_seed: int,
    info_keys: tuple[str, ...],
    seed_offset: int,
    first_episodes: tuple[int, ...],
) -> EnvSlot | BatchSlot:
    """Makes the environment whose first row is ``row``, single or batched.

    Args:
        factory: says which, see ``EnvFactory.worlds``.
        buffers: name to array ``[num_envs, ...]``.
        row: its first, or only, row.
        base_seed: of the run.
        info_keys: entries of the last ``info`` of an episode to write.
        seed_offset: added to the row to form the seed index (one block per rank).
        first_episodes: number of the first episode of each of its rows.
    """
    index = row + seed_offset
    if factory.worlds:
        return BatchSlot(factory, buffers, row, base_seed, info_keys, index, first_episodes)
    return EnvSlot(factory, buffers, row, base_seed, info_keys, index, first_episodes[0])
