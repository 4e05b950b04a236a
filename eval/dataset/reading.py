"""Reads data sets that ``tpsrl dataset export`` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from eval.dataset.frames import STATE, goal_sensors
from eval.dataset.lerobot import PROBLEMS, RUNS, VERSION, parquet
from skills.tasks.sensors import SENSORS
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from ver_trainer.reading import read_json

_HINT = "give data= a folder that 'tpsrl dataset export' wrote"


@dataclass(frozen=True)
class Recorded:
    """An episode of a data set.

    Attributes:
        number: its ``episode_index``.
        problem: what was to be solved.
        seed: of simulator and agent.
        actions: (steps, 10) float32.
        success: the agent called stop and the goal held.
        states: digest of every state.
    """

    number: int
    problem: Episode
    seed: int
    actions: np.ndarray
    success: bool
    states: str

    def __str__(self) -> str:
        return f"episode {self.number}"


class DataSet:
    """A data set of this package.

    Args:
        path: its folder.

    Raises:
        UserError: there is none, or one that something else wrote.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / "meta/info.json").exists():
            raise UserError(f"{path} holds no data set: meta/info.json is missing; {_HINT}")
        self.info = read_json(path / "meta/info.json", hint=_HINT)
        if self.info.get("codebase_version") != VERSION or not (path / RUNS).exists():
            raise UserError(f"{path} is no data set of format {VERSION} with {RUNS}; {_HINT}")
        self.runs = read_json(path / RUNS, hint=_HINT)

    def episodes(self, count: int | None = None) -> Iterator[Recorded]:
        """Yield the first episodes, in order."""
        problems = load_episodes(self.path / PROBLEMS).episodes
        begin = 0
        for number, run in enumerate(self.runs["episodes"][:count]):
            actions = self._actions[begin : begin + run["steps"]]
            begin += run["steps"]
            problem = problems[run["index"]]
            yield Recorded(number, problem, run["seed"], actions, run["success"], run["states"])

    def of_skill(self, skill: str, sensors: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the frames in which a skill runs.

        Args:
            skill: which.
            sensors: observations to return, of those in ``observation.state`` and
                ``observation.environment_state``.

        Returns:
            ``action`` (n, 10), ``episode_index`` (n,) and each sensor (n, size).

        Raises:
            UserError: the skill does not run in the set.
        """
        words = parquet().read_table(self.path / "meta/subtasks.parquet")
        named = words.select(["subtask_index", "skill"]).to_pylist()
        numbers = [row["subtask_index"] for row in named if row["skill"] == skill]
        rows = np.isin(self._column("subtask_index"), numbers)
        if not rows.any():
            raise UserError(f"in no frame of {self.path} does the skill '{skill}' run")
        found = {
            "action": self._actions[rows],
            "episode_index": self._column("episode_index")[rows],
        }
        for feature, names in (
            ("observation.state", STATE), ("observation.environment_state", goal_sensors())
        ):  # fmt: skip
            values, begin = self._column(feature)[rows], 0
            for name in names:
                end = begin + SENSORS[name].size
                if name in sensors:
                    found[name] = values[:, begin:end]
                begin = end
        return found

    @cached_property
    def _table(self) -> Any:
        import pyarrow

        files = sorted((self.path / "data").glob("*/*.parquet"))
        return pyarrow.concat_tables([parquet().read_table(file) for file in files])

    @cached_property
    def _actions(self) -> np.ndarray:
        return self._column("action")

    def _column(self, name: str) -> np.ndarray:
        column = self._table[name].combine_chunks()
        size = self.info["features"][name]["shape"][0]
        if size == 1:
            return column.to_numpy(zero_copy_only=False)
        return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, size)
