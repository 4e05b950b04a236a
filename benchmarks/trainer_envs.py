"""Environments of the trainer benchmarks: NumPy and Gymnasium only, so that any peer runs them."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

ACTION_COST = (1.0, 1.0, 2.0, 4.0)


class Waiting(gym.Env):
    """Sleeps instead of simulating; step times have a heavy tail.

    A step takes ``scale`` x action cost (1, 1, 2 or 4) x episode factor (log-normal, sigma 0.6) x
    step factor (log-normal, sigma 0.8) seconds: rearrangement simulators differ by action (contact
    or none), by episode (scene) and from step to step. Episodes have 20 to 140 steps.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, scale: float = 0.002, index: int = 0) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._scale = scale
        self._rng = np.random.default_rng(index)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Starts an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._factor = self._scale * float(self._rng.lognormal(0, 0.6))
        self._left = int(self._rng.integers(20, 141))
        return self._observe(), {}

    def _observe(self) -> np.ndarray:
        return self._rng.uniform(-1, 1, 8).astype(np.float32)

    def step(self, action: Any) -> Any:
        """Sleeps."""
        factor = float(self._rng.lognormal(0, 0.8))
        time.sleep(self._factor * ACTION_COST[int(action)] * factor)
        self._left -= 1
        # The reward says nothing about the action, so no policy learns to prefer quick ones.
        return self._observe(), float(self._rng.normal()), self._left <= 0, False, {}


class DepthNav(gym.Env):
    """A robot in a square room with pillars looks for the centre; 64x64 depth by ray casting.

    Observations are ``uint8`` depth images ``[1, 64, 64]``, actions stop, forward, left, right.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    SIZE, PILLARS = 64, 6

    def __init__(self, index: int = 0) -> None:
        self.observation_space = spaces.Box(0, 255, (1, self.SIZE, self.SIZE), np.uint8)
        self.action_space = spaces.Discrete(4)
        self._rng = np.random.default_rng(index)
        self._angles = np.linspace(-0.7, 0.7, self.SIZE, dtype=np.float32)
        rows = np.abs(np.linspace(-1, 1, self.SIZE, dtype=np.float32))[:, None]
        self._slope = 1.2 / np.maximum(rows, 1e-3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Starts an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._pillars = self._rng.uniform(-4, 4, (self.PILLARS, 2)).astype(np.float32)
        self._position = self._rng.uniform(-4.5, 4.5, 2).astype(np.float32)
        self._heading = float(self._rng.uniform(-np.pi, np.pi))
        self._steps = 0
        return self._observe(), {}

    def _observe(self) -> np.ndarray:
        angles = self._heading + self._angles
        dx, dy = np.cos(angles), np.sin(angles)
        x, y = self._position
        wall_x = (np.where(dx > 0, 5.0, -5.0) - x) / np.where(np.abs(dx) < 1e-6, 1e-6, dx)
        wall_y = (np.where(dy > 0, 5.0, -5.0) - y) / np.where(np.abs(dy) < 1e-6, 1e-6, dy)
        depth = np.minimum(wall_x, wall_y)
        for px, py in self._pillars - self._position:
            along = dx * px + dy * py
            off = np.abs(dx * py - dy * px)
            depth = np.where((off < 0.3) & (along > 0), np.minimum(depth, along), depth)
        image = np.minimum(depth[None, :], self._slope)
        return (np.minimum(image * 25.5, 255)).astype(np.uint8)[None]

    def step(self, action: Any) -> Any:
        """Moves the robot and renders."""
        action = int(action)
        self._steps += 1
        before = float(np.hypot(*self._position))
        if action == 1:
            ahead = np.array([np.cos(self._heading), np.sin(self._heading)], np.float32)
            self._position = np.clip(self._position + 0.25 * ahead, -4.9, 4.9)
        elif action > 1:
            self._heading += 0.3 if action == 2 else -0.3
        after = float(np.hypot(*self._position))
        reached = action == 0 and after < 0.5
        reward = before - after - 0.01 + (2.5 if reached else 0.0)
        return self._observe(), reward, reached, self._steps >= 128, {}


WORKLOADS: dict[str, dict[str, Any]] = {
    "waiting": {"env": Waiting, "num_envs": 16, "steps": 128, "recurrent": False},
    "compute": {"env": DepthNav, "num_envs": 16, "steps": 32, "recurrent": True},
}


def make(workload: str, index: int = 0) -> gym.Env:
    """Makes the environment of a workload."""
    return WORKLOADS[workload]["env"](index=index)
