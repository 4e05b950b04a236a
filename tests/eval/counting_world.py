"""A tiny world whose episodes say how they go: tests the runner's mechanics, not robotics.

The robot drives 0.1 m a step; the goal holds after ``joints["goal_step"]`` steps. The episode's
``extra`` makes the agent misbehave: kill its process, hang, raise, or wait for a file.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from eval.spec import EvaluationSpec, Factory
from planner.chain.interface import AgentReport, SkillRecord
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.sim.door import EngineInfo

HERE = "tests.eval.counting_world"


class CountingSimulator:
    num_envs = 1
    info = EngineInfo("counting", "1", 30, 120)

    def __init__(self, broken: str = "") -> None:
        if broken == "user":
            raise UserError("no OpenGL here; install it")
        if broken == "die":
            os._exit(3)

    def reset(self, episodes: Any, seeds: Any, env_ids: Any = None) -> None:
        (self._episode,) = episodes
        if "unknown_object" in self._episode.extra:
            raise UserError("object '999_thing' is unknown")
        self.count = 0
        self.offset = np.random.default_rng(seeds[0]).uniform()

    def step(self, actions: np.ndarray) -> None:
        assert actions.shape == (1, 10)
        self.count += 1

    def state(self) -> Any:
        diverges = self._episode.extra.get("diverge_at", -1)
        return SimpleNamespace(
            base_pose=np.array([[0.1 * self.count + self.offset, 0.0, 0.0]]),
            force=np.array([float(self.count % 5)]),
            force_sum=np.array([float(self.count)]),
            hold_violation=np.array([False]),
            diverged=np.array([self.count == diverges]),
        )

    def close(self) -> None:
        pass


class CountingAgent:
    name = "counting"

    def reset(self, sim: Any, env_id: int, episode: Episode, seed: int) -> None:
        self.episode, self.seed = episode, seed
        extra = episode.extra
        if "pid_file" in extra:
            Path(extra["pid_file"]).write_text(str(os.getpid()))
        if "die_until" in extra:
            log = Path(extra["log"])
            with open(log, "a") as file:
                file.write("x")
            if len(log.read_text()) <= extra["die_until"]:
                os.kill(os.getpid(), signal.SIGKILL)
        if "raise" in extra:
            raise ZeroDivisionError("planned")
        while "wait_for" in extra and not Path(extra["wait_for"]).exists():
            time.sleep(0.02)

    def act(self, sim: Any, env_id: int) -> np.ndarray | None:
        time.sleep(self.episode.extra.get("pause", 0.0))
        if sim.count >= self.episode.extra.get("stop_step", 10):
            return None
        return np.zeros(10)

    def report(self) -> AgentReport:
        outcome, cause = self.episode.extra.get("skill", ("success", ""))
        return AgentReport(skills=[SkillRecord("pick", "pick(0)", 10, outcome, cause)])


class CountingTask:
    def __init__(self, episode: Episode) -> None:
        self.goal_step = episode.joints["goal_step"]

    def stages(self, sim: Any, env_id: int) -> dict[str, bool]:
        return {
            "stage_0_5": sim.count == 3,
            "stage_1": sim.count >= self.goal_step,
        }

    def success(self, sim: Any, env_id: int) -> bool:
        return bool(sim.count >= self.goal_step)


def episode(index: int, goal_step: int = 5, **extra: Any) -> Episode:
    return Episode(
        episode_id=str(index),
        scenario="counting",
        layout="flat",
        objects=(),
        targets=(),
        joints={"goal_step": float(goal_step)},
        extra=extra,
    )


def spec(max_steps: int = 50, seed: int = 0, broken: str = "", **config: Any) -> EvaluationSpec:
    return EvaluationSpec(
        simulator=Factory(f"{HERE}:CountingSimulator", {"broken": broken}),
        agent=Factory(f"{HERE}:CountingAgent"),
        task=Factory(f"{HERE}:CountingTask"),
        config={"scenario": "counting", "seed": seed, "max_steps": max_steps, **config},
        max_steps=max_steps,
        seed=seed,
    )
