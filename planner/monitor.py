"""Watch a plan being carried out: whether what it relies on still holds."""

from __future__ import annotations

from collections.abc import Callable

from planner.model import Atom
from planner.search import Plan

Oracle = Callable[[Atom], bool]
"""Says whether an atom holds in the world now."""


class Monitor:
    """Compares a plan with the world through an oracle.

    Args:
        plan: what is being carried out.
        holds: the oracle. It is asked only about atoms that the plan depends on.
    """

    def __init__(self, plan: Plan, holds: Oracle) -> None:
        self._holds = holds
        self._required = plan.required()

    def threatened(self, index: int) -> tuple[Atom, ...]:
        """Return what the plan from ``index`` on relies on and does not hold, sorted."""
        return tuple(sorted(a for a in self._required[index] if not self._holds(a)))
