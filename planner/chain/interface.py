"""What evaluation needs of an agent, whatever is inside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.sim.door import Simulator


@dataclass
class SkillRecord:
    """One run of a skill within an episode.

    Attributes:
        skill: e.g. ``"pick"``.
        action: the plan's action, e.g. ``"pick(any_targets|0)"``.
        steps: control steps it took.
        outcome: ``"running"``, ``"success"`` (its effects hold), ``"failure"`` or ``"timeout"``.
        cause: short reason of a failure, e.g. ``"dropped"``, ``"unreachable"``.
        policy: ``"learned"`` or ``"scripted"`` (a stand-in, which reads privileged state); ``""``
            for arm resets and waits, which are scripted in the benchmark too.
        optional: whether it succeeds does not matter: it is never blamed.
    """

    skill: str
    action: str
    steps: int = 0
    outcome: str = "running"
    cause: str = ""
    policy: str = ""
    optional: bool = False


@dataclass
class AgentReport:
    """What the agent did so far; shown in videos and stored with results.

    Attributes:
        plan: actions of the present plan, as text.
        cursor: index of the running action in ``plan``.
        skills: every skill run, in order.
        replans: how often the agent planned again.
        why: why the present plan is not the first one, ``""`` if it is.
        extra: further numbers to store.
    """

    plan: list[str] = field(default_factory=list)
    cursor: int = 0
    skills: list[SkillRecord] = field(default_factory=list)
    replans: int = 0
    why: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


class Agent(Protocol):
    """Decides robot actions in one world of a simulator."""

    name: str

    def reset(self, sim: Simulator, env_id: int, episode: Episode, seed: int) -> None:
        """Begin an episode that the simulator has just been reset to."""

    def act(self, sim: Simulator, env_id: int) -> np.ndarray | None:
        """Return the next (10,) robot action, or ``None`` to call stop."""

    def report(self) -> AgentReport:
        """Say what has been done so far."""


class EpisodeMeasure(Protocol):
    """How well an episode is solved; evaluated on simulator state, never by the agent."""

    def stages(self, sim: Simulator, env_id: int) -> dict[str, bool]:
        """Return for each stage of the scenario, in order, whether its goal holds now."""

    def success(self, sim: Simulator, env_id: int) -> bool:
        """Return whether the scenario's goal holds now."""
