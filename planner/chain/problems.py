"""The planning problem of a scenario, as its rules for episodes have it."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from planner import Domain, PlannerError, Problem, find_plan, load_domain, load_problem
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.generation.rules import (
    OPENED,
    Scenario,
    find_scenario,
    load_scenario,
    scenario_names,
)
from tpsrl.rooms import CONFIGS
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.geometry import enclosing_joints

GOAL_PREFIX = "TARGET_"


@cache
def hab_domain() -> Domain:
    """Return the domain of the Home Assistant Benchmark (``configs/domain.yaml``)."""
    return load_domain(CONFIGS / "domain.yaml")


def scenarios() -> list[str]:
    """Return the names of the scenarios that ship and have a planning problem."""
    return [name for name in scenario_names() if load_scenario(name).to_solve()]


def to_solve(scenario: str) -> Scenario:
    """Return a scenario that has a planning problem.

    Args:
        scenario: name of one that ships, or the path of a YAML file.

    Raises:
        UserError: there is none, it is malformed, or it asks for nothing or for the impossible.
    """
    hab_problem(scenario)
    return load_scenario(scenario)


def hab_problem(scenario: str) -> Problem:
    """Return the problem of a scenario, not yet grounded in an episode.

    Its targets go to their goals one after the other; containers that certainly hold one of them
    are known, the others are seen in an episode.

    Args:
        scenario: name of one that ships, or the path of a YAML file.

    Raises:
        UserError: as :func:`to_solve`.
    """
    path = find_scenario(scenario)
    return _problem(str(path), path.stat().st_mtime_ns)


def goal_problem(episode: Episode) -> Problem:
    """Return the problem of bringing every target of an episode to its goal, in their order.

    Where things are at the start is not in it: an executor sees that.
    """
    labels = [target.label for target in episode.targets]
    goal = [f"object_at({label}, {GOAL_PREFIX}{label})" for label in labels]
    entities = dict.fromkeys(labels, "movable_entity_type")
    entities |= dict.fromkeys([GOAL_PREFIX + label for label in labels], "goal_entity_type")
    described = {"name": "goal", "objects": entities, "goal": [*goal, "not_holding()"]}
    return load_problem({**described, "init": ["not_holding()"], "stages": {}}, hab_domain())


@lru_cache(maxsize=16)
def _problem(path: str, changed: int) -> Problem:
    rules = load_scenario(path)
    if not rules.to_solve():
        raise UserError(
            f"{path} has no 'goals', so there is nothing to plan; of those that ship,"
            f" {', '.join(scenarios())} have some"
        )
    try:
        problem = load_problem(_described(rules), hab_domain())
        plan = find_plan(problem)
    except PlannerError as error:
        raise UserError(f"{path}: problem: {error}") from error
    if plan is None:
        raise UserError(f"{path}: problem: no plan reaches its goal from where its episodes begin")
    return problem


def _described(rules: Scenario) -> dict[str, Any]:
    labels = [label for label, _ in rules.targets()]
    done = [f"object_at({label}, {GOAL_PREFIX}{label})" for label in labels]
    stages = {}
    for k, label in enumerate(labels):
        stages[f"stage_{k}_5"] = [*done[:k], f"holding({label})"]
        stages[f"stage_{k + 1}"] = [*done[: k + 1], "not_holding()"]
    return {
        "name": rules.name,
        "objects": {
            **dict.fromkeys(labels, "movable_entity_type"),
            **dict.fromkeys([GOAL_PREFIX + label for label in labels], "goal_entity_type"),
        },
        "init": _start(rules),
        "goal": rules.problem.goal or [*done, "not_holding()"],
        "stages": rules.problem.stages or stages,
    }


@cache
def containers() -> tuple[dict[str, str], dict[str, str]]:
    """Return receptacle -> joint of the container around it, and handle -> joint that it moves."""
    apartment = load_apartment()
    joints = {m.name: f"{p.name}/{m.link}" for p in apartment.furniture for m in p.markers}
    return enclosing_joints(apartment), joints


def _start(rules: Scenario) -> list[str]:
    """Return what holds at the start of every episode."""
    around, joints = containers()
    atoms, used = ["not_holding()"], set[str | None]()
    for label, goal in rules.targets():
        atoms.append(f"belongs({label}, {GOAL_PREFIX}{label})")
        starts = rules.samplers[goal.sampler].receptacles
        for entity, places in ((label, starts), (GOAL_PREFIX + label, goal.receptacles)):
            openers = {around.get(place) for place in places}
            if len(openers) == 1:
                used |= openers
                atoms += [f"in({entity}, {m})" for m, joint in joints.items() if joint in openers]
    for marker, kind in hab_domain().constants.items():
        start = dict(rules.joints)
        start |= {k: q for k, q in rules.open_if_used.items() if k in used}
        short, limit = ("cab", "slide") if kind == "cab_type" else ("fridge", "hinge")
        opened = start.get(joints[marker], 0.0) > OPENED[limit]
        atoms.append(f"{'opened' if opened else 'closed'}_{short}({marker})")
    return atoms
