"""Where the episodes of a skill's environment begin."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from skills.interface import SkillCall
from skills.tasks.base import NOWHERE, Task
from skills.tasks.handoff import HandoffStart, apply_start, read_starts
from skills.tasks.places import kind_of
from skills.tasks.starts import NoStartError, Spawn
from skills.tasks.state import GoalRow
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.sim.door import Simulator

_TRIES = 20
_PLACE_TRIES = 300
"""Starts drawn until one is about a wanted kind of place."""
_KIND_TRIES = 40
"""The same where kinds have shares; then any of them will do."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where an episode comes from: enough to repeat it with ``options={"seed": ...}``.

    Attributes:
        episode_id: of the file.
        layout: of the furniture.
        seed: of everything random in the start state.
        call: what a plan would have called, ``None`` for PointNav, Flee and Explore.
    """

    episode_id: str
    layout: str
    seed: int
    call: SkillCall | None = None


class Starts:
    """Draws start states and puts worlds there.

    Args:
        task: the skill's contract.
        sim: the simulator.
        episodes: drawn uniformly.
        spawn: see :data:`skills.tasks.starts.Spawn`.
        starts: hand-off starts of this skill.
        handoff_fraction: probability that an episode begins at one of ``starts``.
        places: kind of place (``skills.tasks.places.KINDS``) that Pick and Place are about -> how
            often it is drawn beside the others; whatever an episode holds if empty. Several that
            are alike often are taken as they come.

    Attributes:
        episodes, starts: that it draws from.

    Raises:
        UserError: there is nothing to start from.
    """

    def __init__(
        self,
        task: Task,
        sim: Simulator,
        episodes: Sequence[Episode],
        *,
        spawn: Spawn = "hab",
        starts: Sequence[HandoffStart] = (),
        handoff_fraction: float = 0.0,
        places: Mapping[str, float] | None = None,
    ) -> None:
        if not episodes and (not starts or handoff_fraction < 1.0):
            raise UserError(f"the skill '{task.name}' has no episodes to start from.")
        self._task, self._sim, self._spawn = task, sim, spawn
        # Replaced once, so that an engine sees the same episodes again and again.
        self.episodes = [dataclasses.replace(episode, start=NOWHERE) for episode in episodes]
        self.starts, self._handoff_fraction = list(starts), handoff_fraction
        self._places = dict(places or {})
        self._kinds: dict[int, str] = {}

    def draw(self, env_id: int, seed: int, index: int | None = None) -> tuple[Origin, GoalRow]:
        """Draw the start that a seed decides, and put a world there.

        Args:
            env_id: which world.
            seed: decides everything random.
            index: of the start of :attr:`starts` that is taken, instead of one that is drawn.

        Raises:
            UserError: none was found in many episodes, or there is no start of that index.
        """
        if index is not None:
            if not 0 <= index < len(self.starts):
                raise UserError(
                    f"there is no start {index} of '{self._task.name}', but {len(self.starts)},"
                    " counted from 0."
                )
            return self._put(env_id, seed, self.starts[index])
        rng = np.random.default_rng([seed, 0])
        chained = bool(self.starts) and rng.random() < self._handoff_fraction
        wanted = () if chained and len(set(self._places.values())) > 1 else self._wanted(rng)
        reason, tries = "", _PLACE_TRIES if wanted else _TRIES
        for attempt in range(tries):
            if wanted and attempt == _KIND_TRIES:
                wanted = tuple(self._places)  # these episodes may hold no place of a kind
            try:
                if chained:
                    start = self.starts[int(rng.integers(len(self.starts)))]
                    origin, goal = self._put(env_id, seed, start)
                else:
                    origin, goal = self._draw(env_id, seed, rng, wanted)
            except NoStartError as error:
                reason = str(error)
                continue
            kind = kind_of(self._task.carrier(goal))
            if wanted and kind not in wanted:
                reason = _elsewhere(self._task.name, kind)
                continue
            return origin, goal
        raise UserError(
            f"the skill '{self._task.name}' found no start state in {tries} episodes;"
            f" the last one: {reason}; use other episodes."
        )

    def _put(self, env_id: int, seed: int, start: HandoffStart) -> tuple[Origin, GoalRow]:
        """Put a world into a state in which the chain called this skill."""
        apply_start(self._sim, env_id, start, seed)
        origin = Origin(start.episode.episode_id, start.episode.layout, seed, start.call)
        return origin, self._task.goal_for(self._sim, env_id, start.call)

    def _wanted(self, rng: np.random.Generator) -> tuple[str, ...]:
        """Return the kinds of places of which one will do, all if there are none."""
        shares = np.array([*self._places.values()])
        if len(set(shares)) < 2:
            return tuple(self._places)
        return (str(rng.choice([*self._places], p=shares / shares.sum())),)

    def _draw(
        self, env_id: int, seed: int, rng: np.random.Generator, wanted: Sequence[str]
    ) -> tuple[Origin, GoalRow]:
        """Draw an episode and a start state; raises NoStartError."""
        index = int(rng.integers(len(self.episodes)))
        episode, drawn = self.episodes[index], int(rng.integers(2**31))
        known = self._kinds.get(index)
        if wanted and known is not None and known not in wanted:  # as if it had been started
            raise NoStartError(_elsewhere(self._task.name, known))
        try:
            begun = self._task.draw_start(self._sim, env_id, episode, drawn, self._spawn)
        except NoStartError as error:
            raise NoStartError(f"{error} (episode '{episode.episode_id}')") from None
        if len(episode.targets) == 1:
            self._kinds[index] = kind_of(self._task.carrier(begun.goal))
        return Origin(episode.episode_id, episode.layout, seed, begun.call), begun.goal


def _elsewhere(skill: str, kind: str) -> str:
    return f"what '{skill}' is about lies in a place of kind '{kind}'"


def beginnings(files: Iterable[str | Path], skill: str) -> tuple[list[HandoffStart], int]:
    """Return the starts of a skill, and how many more there are at which it could not succeed.

    Where ``executor=hab`` goes on with what Pick has taken, Place is called while the hand is empty
    or holds another object: no start of Place, whose condition in the plan is to hold its own, but
    a failure of Pick.

    Args:
        files: as ``tpsrl handoff`` writes them.
        skill: of :data:`skills.book.BOOK`.

    Raises:
        UserError: a file is missing, damaged or of another format.
    """
    called = [s for file in files for s in read_starts(file) if s.call.skill == skill]
    found = [start for start in called if _holds_its_own(start)]
    return found, len(called) - len(found)


def _holds_its_own(start: HandoffStart) -> bool:
    target = start.call.target
    if start.call.skill != "place" or target is None:
        return True
    return start.held_object == start.episode.targets[target].object_index
