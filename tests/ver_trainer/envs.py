"""Environments for the trainer's tests; imported by workers, so no torch here."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Ragged(gym.Env[Any, Any]):
    """Episodes of random length that end by termination or truncation; rewards tell the step."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, longest: int = 9, cut: bool = True, render_mode: str = "") -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1e6, 1e6, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._longest, self._cut = longest, cut

    def _obs(self) -> np.ndarray:
        return np.array([self._t, self._length, self._id], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        self._length = int(self.np_random.integers(1, self._longest + 1))
        self._id = int(self.np_random.integers(1000))
        return self._obs(), {}

    def render(self) -> np.ndarray:
        return np.full((32, 32, 3), 20 * self._t, np.uint8)

    def step(self, action: int) -> Any:
        self._t += 1
        over = self._t >= self._length
        cut = over and self._cut and self._length % 2 == 0
        info = {"success": float(self._length > 4)} if over else {}
        return self._obs(), self._t + 0.1 * int(action), over and not cut, cut, info


class Carrying(Ragged):
    """Carries how many episodes have ended, and pays that."""

    carried = 0.0

    def step(self, action: int) -> Any:
        obs, _, terminated, truncated, info = super().step(action)
        reward = self.carried
        self.carried += terminated or truncated
        return obs, reward, terminated, truncated, info


class DictEnv(gym.Env[Any, Any]):
    """A nested Dict observation with an image, a vector and a discrete leaf; Box actions."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "depth": spaces.Box(0, 1, (36, 36, 1), np.float32),
                "rgb": spaces.Box(0, 255, (36, 36, 3), np.uint8),
                "robot": spaces.Dict({"joints": spaces.Box(-1, 1, (5,), np.float64)}),
                "goal": spaces.Discrete(4),
            }
        )
        self.action_space = spaces.Box(-2, 2, (2, 2), np.float32)
        self._t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._t = 0
        return self.observation_space.sample(), {}

    def step(self, action: np.ndarray) -> Any:
        assert action.shape == (2, 2) and np.abs(action).max() <= 2
        self._t += 1
        return self.observation_space.sample(), 1.0, False, self._t >= 7, {}


class Faulty(Ragged):
    """Raises, dies, hangs or emits NaN at a given step of one episode of one environment."""

    def __init__(self, fault: str = "", marker: str = "", at: int = 40, seconds=0.0):
        super().__init__(longest=20)
        self._seconds = seconds
        self._fault, self._marker, self._at, self._count = fault, marker, at, 0

    def step(self, action: int) -> Any:
        self._count += 1
        time.sleep(self._seconds)
        if self._count == self._at and self._claims():
            if self._fault == "raise":
                raise RuntimeError("the robot fell over")
            if self._fault == "die":
                os.kill(os.getpid(), 9)
            if self._fault == "hang":
                time.sleep(1000)
        result = super().step(action)
        if self._fault == "nan_reward" and self._count == self._at:
            return result[0], float("nan"), *result[2:]
        if self._fault == "nan_obs" and self._count == self._at:
            return np.full(3, np.nan, np.float32), *result[1:]
        if self._fault == "nan_final" and result[3] and self._count >= self._at:
            return np.full(3, np.nan, np.float32), *result[1:]
        return result

    def _claims(self) -> bool:
        """Only one process misbehaves: the one that creates the marker file."""
        if not self._marker:
            return True
        try:
            os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Slow(Ragged):
    """Sleeps for a time that depends on the episode, so that environments differ in speed."""

    def step(self, action: int) -> Any:
        time.sleep(0.0005 if self._id % 2 else 0.004)
        return super().step(action)


class SplitCartPole(gym.ObservationWrapper[Any, Any, Any]):
    """CartPole whose observation is a Dict of positions and velocities."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict({"position": box, "velocity": box})

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"position": observation[[0, 2]], "velocity": observation[[1, 3]]}


class Unseeded(Ragged):
    """Not a function of its seed."""

    def step(self, action: int) -> Any:
        obs, *rest = super().step(action)
        return obs + np.random.default_rng().random(3).astype(np.float32), *rest


class Stateful(Ragged):
    """Has a state; ``odd`` puts something into it that no checkpoint can hold."""

    def __init__(self, odd: bool = False, longest: int = 9) -> None:
        super().__init__(longest)
        self._odd = odd

    def get_state(self) -> dict[str, Any]:
        state = {"t": self._t, "length": np.int64(self._length), "id": self._id}
        rng = self.np_random
        return state | {"rng": rng if self._odd else rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self._t, self._length, self._id = state["t"], state["length"], state["id"]
        self.np_random.bit_generator.state = state["rng"]


class Counting(gym.Wrapper[Any, Any, Any, Any]):
    """Adds to the reward how many steps it has seen: a state of its own."""

    def reset(self, **kwargs: Any) -> Any:
        self._seen = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        self._seen += 1
        return obs, float(reward) + self._seen, *rest


def wrapped(how: str) -> gym.Env[Any, Any]:
    """An environment with a state in a wrapper that has one, too."""
    env = Stateful(longest=40)
    return gym.wrappers.TimeLimit(env, 6) if how == "limit" else Counting(env)


def make(kind: str = "Ragged", **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes one of these environments by name."""
    return globals()[kind](**kwargs)
