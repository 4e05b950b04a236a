"""Watch a plan being carried out: what holds, what failed, where to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.model import Atom
from planner.search import Plan

Oracle = Callable[[Atom], bool]
"""Says whether an atom holds in the world now."""


@dataclass(frozen=True)
class Check:
    """What the monitor saw after a step.

    Attributes:
        missing: positive effects of the action that do not hold.
        lingering: atoms that the action should have made false and that still hold.
        resume: index of the action to go on with, ``len(plan)`` if the goal holds, ``None`` if no
            part of the plan leads to the goal from here and a new plan is needed.
    """

    missing: tuple[Atom, ...]
    lingering: tuple[Atom, ...]
    resume: int | None

    @property
    def ok(self) -> bool:
        """Whether the action had its effects."""
        return not self.missing and not self.lingering


class Monitor:
    """Compares a plan with the world through an oracle.

    Args:
        plan: what is being carried out.
        holds: the oracle. It is asked only about atoms that the plan depends on.
    """

    def __init__(self, plan: Plan, holds: Oracle) -> None:
        self.plan = plan
        self._holds = holds
        self._required = plan.required()

    def ready(self, index: int) -> tuple[Atom, ...]:
        """Return the preconditions of action ``index`` that do not hold, sorted."""
        return tuple(sorted(a for a in self.plan.actions[index].pre if not self._holds(a)))

    def threatened(self, index: int) -> tuple[Atom, ...]:
        """Return what the plan from ``index`` on relies on and does not hold, sorted."""
        return tuple(sorted(a for a in self._required[index] if not self._holds(a)))

    def check(self, index: int) -> Check:
        """Judge the world right after action ``index`` was carried out."""
        action = self.plan.actions[index]
        before = self.plan.states[index]
        removed = sorted(a for a in before if action.deletes(a))
        return Check(
            missing=tuple(a for a in action.effects if not self._holds(a)),
            lingering=tuple(a for a in removed if self._holds(a)),
            resume=self.resume(),
        )

    def resume(self) -> int | None:
        """Return the latest position from which the rest of the plan reaches the goal."""
        for index in range(len(self._required) - 1, -1, -1):
            if all(self._holds(a) for a in self._required[index]):
                return index
        return None
