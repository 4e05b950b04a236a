"""Same seed, same result: one episode has the same states to the bit wherever it is run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eval.episode import EpisodeRecord, run_episode
from eval.runner import evaluate, read_run
from eval.spec import EvaluationSpec, evaluation_spec
from planner.chain.interface import Agent
from tpsrl.cli import main
from tpsrl.episodes.shipped import load_shipped

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
STEPS = 90


def evaluated(scenario: str, out: Path, episodes: int, workers: int) -> dict[int, str]:
    """Return the digest of each episode that worker processes ran, as ``tpsrl eval`` does."""
    spec = evaluation_spec(scenario=scenario, agent="tpsrl", executor="replan", max_steps=STEPS)
    evaluate(spec, load_shipped(scenario, "val").episodes[:episodes], out, workers)
    return {index: record.states for index, record in read_run(out)[1].items()}


def recorded(scenario: str, index: int, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> str:
    """Return the digest that ``tpsrl record`` prints, on several threads if they may be used."""
    words = [f"scenario={scenario}", "agent=tpsrl", f"max_steps={STEPS}", "speed=30"]
    with threadpool_limits(limits=2, user_api="blas"):
        assert main(["record", *words, f"episode={index}", f"out={tmp_path / 'x.mp4'}"]) == 0
    return capsys.readouterr().out.split()[-1]


def test_record_and_any_number_of_workers_run_the_same_episodes(tmp_path, capsys):
    one = evaluated("tidy_house", tmp_path / "one", episodes=2, workers=1)
    assert evaluated("tidy_house", tmp_path / "two", episodes=2, workers=2) == one
    assert len(set(one.values())) == 2
    # The second of a worker, the first of this process.
    assert recorded("tidy_house", 1, capsys, tmp_path) == one[1]


@pytest.mark.parametrize("scenario", SCENARIOS[1:])
def test_record_and_eval_run_the_same_episode(scenario, tmp_path, capsys):
    found = evaluated(scenario, tmp_path / "run", episodes=1, workers=1)
    assert recorded(scenario, 0, capsys, tmp_path) == found[0]


class Keeper:
    """An agent that keeps its actions, or repeats those that another kept."""

    name = "keeper"

    def __init__(self, agent: Agent, actions: list[np.ndarray] | None = None) -> None:
        self._agent, self.actions, self._repeat = agent, [], actions
        self.reset, self.report = agent.reset, agent.report

    def act(self, sim: Any, env_id: int) -> np.ndarray | None:
        wanted = self._agent.act(sim, env_id) if self._repeat is None else self._next()
        self.actions.append(wanted)
        return wanted

    def _next(self) -> np.ndarray:
        return self._repeat[len(self.actions)]


def run(sim: Any, spec: EvaluationSpec, index: int, agent: Agent) -> EpisodeRecord:
    episode = load_shipped("set_table", "val").episodes[index]
    record = spec.job(index, episode).empty_record()
    return run_episode(sim, agent, spec.task.build(episode), record, episode, spec.max_steps)


def test_kept_actions_repeat_the_states_in_another_simulator():
    make = partial(evaluation_spec, scenario="set_table", executor="replan", max_steps=STEPS)
    spec, scripted = make(agent="tpsrl"), make(agent="scripted")
    with spec.simulator.build() as sim:
        keeper = Keeper(spec.agent.build())
        first = run(sim, spec, 0, keeper)
    with scripted.simulator.build() as sim:  # renders nothing, and has been used
        run(sim, scripted, 1, scripted.agent.build())
        again = run(sim, spec, 0, Keeper(scripted.agent.build(), keeper.actions))
    assert len(keeper.actions) == STEPS and again.states == first.states
