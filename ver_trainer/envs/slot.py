"""One environment and its row in the transfer buffers: used by workers and inline alike."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from ver_trainer.envs.spaces import EnvSpec, ObservationWriter, describe, to_env_action
from ver_trainer.errors import TrainerError


@dataclass(frozen=True)
class EnvFactory:
    """Makes an environment from a Gymnasium id or from a function.

    ``target`` is an id (``CartPole-v1``, or ``package.module:Name-v0`` to import the module that
    registers it first) or a callable returning a ``gymnasium.Env`` or a batched environment.
    ``preload`` names modules to import before the workers are forked. ``worlds`` is the size of
    the batches that are made, 0 for single environments.
    """

    target: str | Callable[..., Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    worlds: int = 0

    def __call__(self, **extra: Any) -> Any:
        """Makes one environment.

        Raises:
            TrainerError: if the id is not registered, its package cannot be imported, or batches
                are wanted and it has none.
        """
        if callable(self.target):
            return self.target(**self.kwargs, **extra)
        try:
            if self.worlds:
                return gym.make_vec(
                    self.target, self.worlds, "vector_entry_point", **self.kwargs, **extra
                )
            return gym.make(self.target, disable_env_checker=True, **self.kwargs, **extra)
        except (gym.error.UnregisteredEnv, ModuleNotFoundError) as error:
            raise self._cannot(error) from error

    def _cannot(self, error: Exception) -> TrainerError:
        return TrainerError(
            f"the environment '{self.target}' cannot be made ({error}): use a registered id, "
            "or 'package.module:Name-v0' to import the package that registers it"
        )

    def single(self) -> EnvFactory:
        """The same, but of single environments (a function makes what it makes)."""
        return replace(self, worlds=0)

    def has_batches(self) -> bool:
        """Whether the id has a batched environment of its own (``vector_entry_point``).

        Raises:
            TrainerError: the module before the colon is not there.
        """
        if callable(self.target):
            return False
        module, _, name = self.target.rpartition(":")
        if module:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                raise self._cannot(error) from error
        known = gym.registry.get(name)
        return known is not None and known.vector_entry_point is not None

    def import_preloads(self) -> None:
        """Imports the modules of ``preload``."""
        for name in self.preload:
            importlib.import_module(name)


def carried(env: Any) -> float:
    """The number that an environment carries from episode to episode; 0 where it has none.

    ``env.unwrapped.carried`` is a number that may be set: e.g. how much is mastered so far, if
    rewards depend on it. It goes on in a process that takes the place of another one, and when a
    run is resumed.
    """
    return float(getattr(getattr(env, "unwrapped", env), "carried", 0.0))


def take_up(env: Any, value: float) -> None:
    """Give an environment what one before it carried; see :func:`carried`."""
    inner: Any = getattr(env, "unwrapped", env)
    if value and hasattr(inner, "carried"):
        inner.carried = value


def is_batched(env: Any) -> bool:
    """Whether ``env`` steps many worlds at once, as ``gymnasium.vector.VectorEnv`` does."""
    return hasattr(env, "num_envs") and hasattr(env, "single_observation_space")


def describe_env(env: Any) -> EnvSpec:
    """Describes a single environment, or one world of a batched one."""
    if is_batched(env):
        return describe(env.single_observation_space, env.single_action_space)
    return describe(env.observation_space, env.action_space)


def probe(factory: EnvFactory) -> EnvSpec:
    """Makes one environment only to read its spaces."""
    env = factory()
    try:
        return describe_env(env)
    finally:
        env.close()


def episode_seed(base_seed: int, index: int, episode: int) -> int:
    """Seed of one episode: a function of run seed, environment index and episode number.

    Seeding every episode makes an environment's state a function of its seed and of the actions
    since, which is what an exact resume replays.
    """
    sequence = np.random.SeedSequence([base_seed, index, episode])
    return int(sequence.generate_state(1)[0] & 0x7FFFFFFF)


class EnvSlot:
    """Steps one environment with automatic reset and writes results into row ``row``.

    When an episode ends, ``final_obs`` holds its last observation and ``obs`` the first one of the
    next episode.
    """

    def __init__(
        self,
        factory: EnvFactory,
        buffers: dict[str, np.ndarray],
        row: int,
        base_seed: int,
        info_keys: tuple[str, ...],
        seed_index: int | None = None,
        first_episode: int = 0,
    ) -> None:
        self.env = factory()
        self.row = row
        self.episode = first_episode - 1
        self.actions: list[np.ndarray] = []
        self._base_seed = base_seed
        self._seed_index = row if seed_index is None else seed_index
        self._buffers = buffers
        self._obs = with_prefix(buffers, "obs/")
        self._final_obs = with_prefix(buffers, "final_obs/")
        self._info_keys = info_keys
        self._writer = ObservationWriter(self.env.observation_space)
        self._spec = describe(self.env.observation_space, self.env.action_space).action
        self._return = 0.0
        self._begun = False
        take_up(self.env, float(buffers["carried"][row]))

    def reset(self) -> None:
        """Starts the next episode and writes its first observation."""
        self.episode += 1
        self._begun = True
        self._return = 0.0
        self.actions = []
        self._buffers["episode"][self.row] = self.episode
        seed = episode_seed(self._base_seed, self._seed_index, self.episode)
        observation, _ = self.env.reset(seed=seed)
        self._writer.write(observation, self._obs, self.row)

    def step(self) -> None:
        """Steps with the action in the buffers and writes the transition."""
        buffers, row = self._buffers, self.row
        action = np.array(buffers["action"][row])
        self.actions.append(action.copy())  # the environment may change the one that it gets
        observation, reward, terminated, truncated, info = self.env.step(
            to_env_action(self._spec, action)
        )
        self._return += float(reward)
        buffers["reward"][row] = reward
        buffers["terminated"][row] = terminated
        buffers["truncated"][row] = truncated
        buffers["episode_return"][row] = self._return
        buffers["episode_length"][row] = len(self.actions)
        if terminated or truncated:
            for column, key in enumerate(self._info_keys):
                buffers["info"][row, column] = info_number(info.get(key))
            self._writer.write(observation, self._final_obs, row)
            buffers["carried"][row] = carried(self.env)
            self.reset()
        else:
            self._writer.write(observation, self._obs, row)

    def capture(self) -> dict[str, Any]:
        """State for an exact resume: the environment's own state, or the episode so far."""
        state: dict[str, Any] = {"episode": self.episode, "return": self._return}
        state["actions"] = np.array(self.actions) if self.actions else np.zeros((0,))
        # Before its first reset an environment need not have a state.
        if self._begun and _has_whole_state(self.env):
            inner: Any = self.env.unwrapped
            state["env"] = copy.deepcopy(inner.get_state())  # it may be of live arrays
            state["elapsed"] = [limit._elapsed_steps for limit in _time_limits(self.env)]
        return state

    def restore(self, state: dict[str, Any], expected: dict[str, np.ndarray]) -> None:
        """Brings the environment back to a captured state.

        Args:
            state: what :meth:`capture` returned.
            expected: the observation (name to array) that the environment shows then. It is
                compared after a replay; a state that was put back is trusted, since no method of
                an environment tells its observation without a step.

        Raises:
            TrainerError: if a replay does not come to the same observation.
        """
        self.episode = int(state["episode"]) - 1
        self.reset()
        if "env" in state:
            inner: Any = self.env.unwrapped
            inner.set_state(state["env"])
            limits = _time_limits(self.env)
            for limit, elapsed in zip(limits, state.get("elapsed", ()), strict=False):
                limit._elapsed_steps = elapsed
            self.actions = list(state["actions"])
            for name, array in self._obs.items():
                array[self.row] = expected[name]
        else:
            self._replay(list(state["actions"]))
            self._compare(expected)
        self._return = float(state["return"])

    def _compare(self, expected: dict[str, np.ndarray]) -> None:
        for name, value in expected.items():
            if not np.array_equal(self._obs[name][self.row], value, equal_nan=True):
                raise TrainerError(
                    f"environment {self.row} cannot be resumed exactly: after replaying its "
                    f"episode the observation '{name}' differs, so the environment is not a "
                    "function of its seed and actions; give it get_state() and set_state() (with "
                    "no wrappers but Gymnasium's own of gymnasium.make), or resume with "
                    "resume=loose"
                )

    def _replay(self, actions: list[np.ndarray]) -> None:
        for action in actions:
            self.actions.append(action)
            observation, *_ = self.env.step(to_env_action(self._spec, action.copy()))
            self._writer.write(observation, self._obs, self.row)

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


def function_name(make: Callable[..., Any]) -> str:
    """What stands for the id of an environment that a function makes."""
    kind = make if hasattr(make, "__qualname__") else type(make)
    return f"function {kind.__module__}:{kind.__qualname__}"


def _wrappers(env: gym.Env[Any, Any]) -> Iterator[gym.Wrapper[Any, Any, Any, Any]]:
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def _time_limits(env: gym.Env[Any, Any]) -> list[TimeLimit[Any, Any]]:
    return [wrapper for wrapper in _wrappers(env) if isinstance(wrapper, TimeLimit)]


def _has_whole_state(env: gym.Env[Any, Any]) -> bool:
    """Whether ``get_state()`` tells all: a wrapper of another kind may have a state of its own."""
    plain = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
    names = ("get_state", "set_state")
    return all(type(wrapper) in plain for wrapper in _wrappers(env)) and all(
        callable(getattr(env.unwrapped, name, None)) for name in names
    )


def info_number(value: Any) -> float:
    """An entry of ``info`` as a number, NaN if it is none."""
    return float(value) if isinstance(value, (int, float, bool, np.number, np.bool_)) else np.nan


def with_prefix(buffers: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Buffers whose names begin with ``prefix``, under the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in buffers.items() if k.startswith(prefix)}
