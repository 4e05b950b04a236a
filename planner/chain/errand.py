"""An episode that has a task of its own in place of its scenario's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from planner import Problem, State
from planner.chain.problems import GOAL_PREFIX, containers, hab_domain, hab_problem
from planner.model import Atom, make_problem
from tpsrl.episodes.types import Episode
from tpsrl.generation.rules import OPENED


@dataclass(frozen=True)
class Errand(Episode):
    """An episode with a task of its own.

    Its targets are what the task is about. The goals are to be reached one after the other; the
    last is the one that holds in the end.

    Attributes:
        goals: atoms over the targets' labels and containers, at least one set.
        stages: name -> atoms that evaluation reports.
        words: what was asked for.
        notes: how it was understood: a sentence for each choice.
    """

    goals: tuple[tuple[Atom, ...], ...] = ()
    stages: Mapping[str, tuple[Atom, ...]] = field(default_factory=dict)
    words: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, episode: Episode, **changes: Any) -> Errand:
        """Return an errand in an episode; ``changes`` are further or other fields."""
        kept = {f.name: getattr(episode, f.name) for f in fields(Episode)}
        return cls(**{**kept, **changes})

    def noting(self, note: str) -> Errand:
        """Return the errand with one more note."""
        return replace(self, notes=(*self.notes, note))

    def problem(self) -> Problem:
        """Return the planning problem, its start state as the episode's file has it."""
        labels = [target.label for target in self.targets]
        kinds = dict.fromkeys(labels, "movable_entity_type")
        kinds |= dict.fromkeys([GOAL_PREFIX + label for label in labels], "goal_entity_type")
        goal = self.goals[-1]
        return make_problem(
            "the goal in words", hab_domain(), kinds, self._start(), goal, self.stages
        )

    def _start(self) -> list[Atom]:
        around, joints = containers()
        handles = {joint: marker for marker, joint in joints.items()}
        atoms = [Atom("not_holding")]
        for target in self.targets:
            goal = GOAL_PREFIX + target.label
            atoms.append(Atom("belongs", (target.label, goal)))
            lies = self.objects[target.object_index].receptacle or target.start_receptacle
            for entity, place in ((target.label, lies), (goal, target.goal_receptacle)):
                marker = handles.get(around.get(place, place))
                if marker is not None:
                    atoms.append(Atom("in", (entity, marker)))
        for marker, joint in joints.items():
            short, limit = ("fridge", "hinge") if "fridge" in marker else ("cab", "slide")
            state = "opened" if self.joints.get(joint, 0.0) > OPENED[limit] else "closed"
            atoms.append(Atom(f"{state}_{short}", (marker,)))
        return atoms


def about(problem: Problem, goal: Sequence[Atom], state: State | None = None) -> Problem:
    """Return a problem with one of its goals and no more objects than matter.

    Args:
        problem: of the whole.
        goal: objects that it does not name are left out, unless they are held.
        state: start state, by default the problem's own.
    """
    start = problem.init if state is None else state
    held = [atom for atom in start if atom.name == "holding"]
    named = {arg.removeprefix(GOAL_PREFIX) for atom in (*goal, *held) for arg in atom.args}
    objects = {o: k for o, k in problem.objects.items() if o.removeprefix(GOAL_PREFIX) in named}
    entities = {*problem.domain.constants, *objects}
    kept = [atom for atom in start if entities.issuperset(atom.args)]
    return problem.replace(init=kept, goal=goal, objects=objects, stages={})


def problem_of(episode: Episode, scenario: str = "") -> Problem:
    """Return what is to be done in an episode.

    Args:
        episode: an errand has a task of its own.
        scenario: planning problem of other episodes; ``""`` takes the one that each names.

    Raises:
        UserError: the scenario has no planning problem.
    """
    if isinstance(episode, Errand):
        return episode.problem()
    return hab_problem(scenario or episode.scenario)
