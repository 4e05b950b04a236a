"""Batches of worlds in processes of their own, as Stable-Baselines3 calls vectors of environments.

Its own ``SubprocVecEnv`` has one simulator a process, which steps at a quarter of the rate.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv


def serve(pipe: Connection, made: bytes) -> None:
    """Make an environment and answer until the other side is gone.

    Args:
        pipe: what comes is a seed or ``None``, which begins anew, or (n, size) actions.
        made: a pickled function that returns a vector of environments that reset in the same step.
    """
    env = cloudpickle.loads(made)()
    pipe.send((env.single_observation_space, env.single_action_space))
    try:
        while True:
            word = pipe.recv()
            if not isinstance(word, np.ndarray):
                pipe.send(env.reset(seed=word)[0])
                continue
            seen, reward, terminated, truncated, info = env.step(word)
            last = (info["success"], info.get("final_obs"))
            pipe.send((seen, reward, terminated, truncated, *last))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        env.close()


class Batches(VecEnv):
    """As many worlds as all processes have together.

    Args:
        make: returns a vector of ``worlds`` environments; called once in every process.
        processes: that many.
        worlds: of each.
    """

    def __init__(self, make: Any, processes: int, worlds: int) -> None:
        context = multiprocessing.get_context("forkserver")
        self.worlds, self.pipes, self.processes = worlds, [], []
        for _ in range(processes):
            here, there = context.Pipe()
            process = context.Process(
                target=serve, args=(there, cloudpickle.dumps(make)), daemon=True
            )
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)
        spaces = [pipe.recv() for pipe in self.pipes]
        super().__init__(processes * worlds, *spaces[0])

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """World ``i`` begins with ``seed + i`` at the next reset."""
        self._seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
        return self._seeds

    def reset(self) -> Any:
        """Begin an episode in every world."""
        for k, pipe in enumerate(self.pipes):
            pipe.send(self._seeds[k * self.worlds])
        self._seeds = [None] * self.num_envs
        return self._together([pipe.recv() for pipe in self.pipes])

    def step_async(self, actions: np.ndarray) -> None:
        """Send (n, size) actions."""
        for pipe, part in zip(self.pipes, np.split(actions, len(self.pipes)), strict=True):
            pipe.send(part)

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Return observations, rewards, ends and infos."""
        seen, reward, terminated, truncated, success, last = zip(
            *(pipe.recv() for pipe in self.pipes), strict=True
        )
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        done = np.concatenate(terminated) | np.concatenate(truncated)
        for i in map(int, np.flatnonzero(done)):
            k, world = divmod(i, self.worlds)
            infos[i] = {
                "is_success": bool(success[k][world]),
                "TimeLimit.truncated": bool(truncated[k][world] and not terminated[k][world]),
                "terminal_observation": {name: a[world] for name, a in last[k].items()},
            }
        return self._together(seen), np.concatenate(reward).astype(np.float32), done, infos

    def close(self) -> None:
        """End the processes."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(10)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Nothing is drawn; other attributes stay where they are."""
        if attr_name != "render_mode":
            raise AttributeError(attr_name)
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not needed here."""
        raise NotImplementedError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **more: Any) -> Any:
        """Not needed here."""
        raise NotImplementedError(method_name)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> list[bool]:
        """No world is wrapped."""
        return [False] * self.num_envs

    @staticmethod
    def _together(parts: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        parts = list(parts)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
