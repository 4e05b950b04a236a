"""Simple agents for the real engine; they solve nothing and say so."""

from __future__ import annotations

from typing import Any

import numpy as np

from eval.spec import EvaluationSpec, Factory
from planner.chain.interface import AgentReport, SkillRecord
from tpsrl.episodes.types import Episode

HERE = "tests.eval.real"


class Wanderer:
    """Drives and turns at random for some steps, then calls stop."""

    name = "wanderer"

    def __init__(self, steps: int = 40) -> None:
        self._steps = steps

    def reset(self, sim: Any, env_id: int, episode: Episode, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        label = episode.targets[0].label
        self._report = AgentReport(
            plan=[f"nav({label})", f"pick({label})"],
            skills=[SkillRecord("navigate", f"nav({label})")],
        )

    def act(self, sim: Any, env_id: int) -> np.ndarray | None:
        record = self._report.skills[-1]
        if record.steps == self._steps:
            record.outcome, record.cause = "failure", "lost"
            return None
        record.steps += 1
        action = np.zeros(10)
        action[8:] = self._rng.uniform(-1, 1, 2)
        return action

    def report(self) -> AgentReport:
        return self._report


def spec(steps: int = 40, depth: int | None = None, scenario: str = "tidy_house") -> EvaluationSpec:
    return EvaluationSpec(
        simulator=Factory("tpsrl.engines:make_simulator", {"depth": depth}),
        agent=Factory(f"{HERE}:Wanderer", {"steps": steps}),
        task=Factory("planner.chain.make:make_task", {"scenario": scenario}),
        config={"scenario": scenario, "agent": "wanderer", "seed": 0},
        max_steps=100,
        seed=0,
    )
