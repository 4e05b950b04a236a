"""Goals one after the other: which follow from wishes, which can be reached, which lead astray."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from planner import Atom, Plan, PlannerError, Problem, State, find_plan
from planner.chain.errand import about
from planner.words.goals import NOT_HOLDING, Wish
from tpsrl.errors import UserError

Goal = tuple[Atom, ...]

_MOST_AT_ONCE = 5
"""Objects whose order the planner chooses, what is shut away counting twice, since opening makes
the search longer; of more, these come first and then those after them."""


def goals_of(wishes: Sequence[Wish], shut: Collection[str] = ()) -> list[Goal]:
    """Return goals that are to be reached one after the other.

    Wishes that can hold together make one goal. A new one begins after "then", after going
    somewhere, and where a wish undoes another; what the earlier ones achieved stays, unless it is
    undone. The last goal is the one of the whole.

    Args:
        wishes: in the order of the words.
        shut: labels of objects in containers.
    """
    goals: list[list[Atom]] = []
    for index, wish in enumerate(wishes):
        now = goals[-1] if goals else []
        busy = _laid_down(now, wish, wishes[index + 1 :])
        moved_on = any(atom.name == "robot_at" for atom in now)
        if not goals or wish.then or moved_on or busy or not _agree(now, wish.atoms):
            goals.append([atom for atom in _kept(now, wish.atoms) if atom not in busy])
        for atom in wish.atoms:
            before = goals[-2] if len(goals) > 1 else ()
            moved = [a for a in (*goals[-1], atom) if a.name == "object_at" and a not in before]
            if len(moved) + sum(a.args[0] in shut for a in moved) > _MOST_AT_ONCE:
                goals.append(list(goals[-1]))
            goals[-1] += [atom] if atom not in goals[-1] else []
    return [finished(goal) for goal in goals]


def _laid_down(now: Sequence[Atom], wish: Wish, later: Sequence[Wish]) -> list[Atom]:
    """Return what is in the hand, where a door is to be moved and the thing has a place to go."""
    if not any(atom.name.startswith(("opened_", "closed_")) for atom in wish.atoms):
        return []
    going = {a.args[0] for w in later for a in w.atoms if a.name == "object_at"}
    return [atom for atom in now if atom.name == "holding" and atom.args[0] in going]


def finished(goal: Iterable[Atom]) -> Goal:
    """Return a goal with an empty hand at its end, unless something is to be held."""
    atoms = [atom for atom in goal if atom != NOT_HOLDING]
    held = any(atom.name == "holding" for atom in atoms)
    return tuple(atoms if held else [*atoms, NOT_HOLDING])


def plan_on(problem: Problem, goals: Sequence[Goal]) -> list[Plan] | None:
    """Return a plan for each goal, from where the one before it ends; ``None`` if one has none."""
    plans: list[Plan] = []
    state = problem.init
    for goal in goals:
        plan = solve(problem, state, goal)
        if plan is None:
            return None
        plans.append(plan)
        state = _after(plan, state)
    return plans


def onward(problem: Problem, goals: Sequence[Goal]) -> tuple[list[Plan], list[Goal]]:
    """Return plans as :func:`plan_on`, and the goals on the way that were left out.

    A goal on the way that cannot be reached is left out; what it asked for lastingly is part of the
    goals after it anyway: the fridge is closed when the hand is free again.

    Raises:
        UserError: the last goal cannot be reached.
    """
    plans: list[Plan] = []
    left_out: list[Goal] = []
    state = problem.init
    for index, goal in enumerate(goals):
        plan = solve(problem, state, goal)
        if plan is not None:
            plans.append(plan)
            state = _after(plan, state)
        elif index < len(goals) - 1:
            left_out.append(goal)
        else:
            raise UserError(
                f"no plan reaches the goal {', '.join(map(str, goal))}; ask for something that one"
                " hand can do"
            )
    return plans, left_out


def worthwhile(
    problem: Problem, steps: Sequence[Wish], goal: Goal
) -> tuple[list[Wish], list[Wish]]:
    """Return which proposed steps are kept and which are dropped: impossible ones and detours.

    A step is kept if a shortest plan to the goal leads through it.

    Args:
        problem: of the whole.
        steps: in the order in which they were proposed.
        goal: that the plan is to end with.
    """
    kept: list[Wish] = []
    dropped: list[Wish] = []
    state, achieved = problem.init, list[Atom]()
    for step in steps:
        wanted = [*_kept(achieved, step.atoms), *step.atoms]
        direct, there = solve(problem, state, goal), solve(problem, state, finished(wanted))
        if there is None or direct is None:
            dropped.append(step)
            continue
        rest = solve(problem, _after(there, state), goal)
        if rest is None or len(there) + len(rest) > len(direct):
            dropped.append(step)
            continue
        state, achieved = _after(there, state), wanted
        kept.append(step)
    return kept, dropped


def solve(problem: Problem, state: State, goal: Sequence[Atom]) -> Plan | None:
    """Return a shortest plan from a state to a goal, ``None`` if there is none.

    Raises:
        UserError: the goal is too large to search for.
    """
    try:
        return find_plan(about(problem, goal, state))
    except PlannerError as error:
        raise UserError(str(error)) from error


def _after(plan: Plan, state: State) -> State:
    for action in plan.actions:
        state = action.apply(state)
    return state


def _kept(earlier: Sequence[Atom], new: Sequence[Atom]) -> list[Atom]:
    """Return what lasts of an earlier goal when new atoms are to hold."""
    return [a for a in earlier if a.name != "robot_at" and _agree([a], new) and a not in new]


def _agree(atoms: Sequence[Atom], others: Sequence[Atom]) -> bool:
    return not any(_undoes(a, b) or _undoes(b, a) for a in atoms for b in others)


def _undoes(atom: Atom, other: Atom) -> bool:
    """Return whether two atoms cannot hold together."""
    if atom.name.startswith("opened_") and other.name.startswith("closed_"):
        return atom.args == other.args
    if atom.name == "holding":
        mine = other.name == "object_at" and other.args[0] == atom.args[0]
        return mine or other == NOT_HOLDING or (other.name == "holding" and other != atom)
    return atom.name == other.name == "robot_at" and atom != other
