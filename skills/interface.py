"""The one interface of scripted and learned skills: reset, act, done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tpsrl.sim.door import Simulator

SkillName = str
"""Of a row in :mod:`skills.book`, or one of :data:`HELPERS`."""
HELPERS = ("reset_arm", "wait")
"""What a chain does between skills: part of no plan, scripted in the benchmark too."""


@dataclass(frozen=True)
class SkillCall:
    """One grounded use of a skill.

    Attributes:
        skill: which skill.
        target: index into ``Episode.targets`` of the object concerned, ``None`` if none is.
        place: navigate: ``"start"``, ``"goal"`` (where the target lies, where it belongs) or
            ``"receptacle"`` (the handle of ``joint``). For a target that is held, ``"start"``
            is where it lay at reset; place with ``"start"`` puts it back there, to free the
            hand for opening a container. ``"front"`` is a point before the front of ``joint``, on
            the way to its handle.
        joint: furniture joint to open, close or drive to, e.g. ``"fridge/top_door"``.
        steps: for ``wait``.
    """

    skill: SkillName
    target: int | None = None
    place: Literal["start", "goal", "receptacle", "front"] | None = None
    joint: str | None = None
    steps: int | None = None


@dataclass(frozen=True)
class SkillStatus:
    """How a running skill sees itself.

    Attributes:
        done: it says that it has finished (never a claim of success).
        failed: it gave up; ``reason`` says why in a few words.
    """

    done: bool = False
    failed: bool = False
    reason: str = ""


class Skill(ABC):
    """A skill in one world. An instance serves one world at a time.

    Attributes:
        name: which skill.
        privileged: it reads simulator state that a robot could not sense.
        failed_before: how often the same call has failed in this episode; who starts the skill
            says so before :meth:`reset`.
    """

    name: SkillName
    privileged: bool
    failed_before: int = 0

    @abstractmethod
    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """Start the skill from the present state of the world."""

    @abstractmethod
    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """Return the next (10,) float64 robot action in [-1, 1] (see ``Simulator.step``)."""

    @abstractmethod
    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """Say whether the skill has finished, judged on the present state."""


class WatchedSkill(Skill):
    """Does what another skill does, and is told what that one is told; subclasses watch it.

    Args:
        skill: that acts.
    """

    def __init__(self, skill: Skill) -> None:
        self.name, self.privileged = skill.name, skill.privileged
        self._skill = skill

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._skill.failed_before = self.failed_before
        self._skill.reset(sim, env_id, call, seed)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        return self._skill.act(sim, env_id)

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        return self._skill.status(sim, env_id)
