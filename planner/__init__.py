"""A symbolic task planner: typed STRIPS domains as data, A* search, execution monitor, PDDL."""

from planner.load import load_domain, load_problem
from planner.model import (
    Action,
    ActionSchema,
    Atom,
    Domain,
    PlannerError,
    Problem,
    State,
    make_problem,
)
from planner.search import Plan, find_plan

__all__ = [
    "Action",
    "ActionSchema",
    "Atom",
    "Domain",
    "Plan",
    "PlannerError",
    "Problem",
    "State",
    "find_plan",
    "load_domain",
    "load_problem",
    "make_problem",
]
