"""The agents of ``tpsrl eval`` by name: whose skills act, and which weights they need.

They are those that VER (Wijmans et al. 2022, section 6 and figure 6) compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner import find_plan
from planner.chain.calls import TpsrlOptions
from planner.chain.problems import hab_problem
from skills.book import chained, skill_for
from skills.learned.cards import (
    SHIPPED,
    Card,
    PolicyFiles,
    digest,
    policies_in,
)
from skills.learned.find import find_policies
from tpsrl.errors import UserError, nearest

WHOLE_TASK = "rearrange_easy"
"""The environment whose policy does everything: one object, from start to goal."""


@dataclass(frozen=True)
class AgentKind:
    """What an agent is made of.

    Attributes:
        text: for help and tables.
        learned: it acts with policies; otherwise with scripted skills.
        actions: action space that its manipulation policies must have, ``None`` for any.
        stand_ins: scripted skills act where there are no weights.
        navigates: its plans have navigation in them.
        folder: of its shipped weights, below ``skills/learned/weights``.
    """

    text: str
    learned: bool = True
    actions: str | None = None
    stand_ins: bool = False
    navigates: bool = True
    folder: str = ""


KINDS: dict[str, AgentKind] = {
    "scripted": AgentKind("sense, plan, act on privileged state", learned=False),
    "tpsrl": AgentKind("learned skills, scripted ones where there are no weights", stand_ins=True),
    "tpsrl-restricted": AgentKind(
        "learned skills, no base movement in manipulation (Habitat 2.0)",
        actions="restricted",
        folder="restricted",
    ),
    "tpsrl-nonav": AgentKind(
        "learned skills without Navigate: Pick, Place, ... drive by themselves",
        actions="full",
        navigates=False,
    ),
    "teacher": AgentKind(
        "learned skills that know the whole state, scripted ones where there are no weights",
        stand_ins=True,
        folder="teacher",
    ),
    "monolithic": AgentKind("one policy for the whole task"),
}
"""Name -> agent."""
AGENTS = tuple(KINDS)
ANYTHING = "*"
"""In place of a scenario: a goal in words, which may call any skill of a chain."""


def agent_kind(agent: str) -> AgentKind:
    """Return what an agent is.

    Raises:
        UserError: unknown agent.
    """
    if agent not in KINDS:
        raise UserError(f"unknown agent '{agent}'{nearest(agent, KINDS)}")
    return KINDS[agent]


def agent_options(agent: str, policies: Mapping[str, PolicyFiles]) -> TpsrlOptions:
    """Return how an agent carries out its plans."""
    drives = "navigate" in policies
    plain = TpsrlOptions(front_first=drives, detour=drives)
    if agent_kind(agent).navigates:
        return plain
    # A skill that drives itself gets the time of the navigation that it replaces.
    return TpsrlOptions(
        skill_steps=plain.skill_steps + plain.navigation_steps, navigate_after_open_cab=False
    )


def skills_of(scenario: str, navigates: bool = True) -> tuple[str, ...]:
    """Return the skills that the plan of a scenario calls, in the order of the book."""
    if scenario == ANYTHING:
        return tuple(s for s in chained() if navigates or s != "navigate")
    plan = find_plan(hab_problem(scenario))
    assert plan is not None  # or the scenario would have been refused
    called = {skill_for(action.label) for action in plan.actions}
    return tuple(s for s in chained() if s in called and (navigates or s != "navigate"))


def policies_of(
    agent: str, scenario: str = "", weights: Path | Mapping[str, PolicyFiles] | None = None
) -> dict[str, PolicyFiles]:
    """Return the policies that an agent acts with, by skill.

    Args:
        agent: name of an agent.
        scenario: what it must be able to do; ``""`` does not ask, :data:`ANYTHING` asks for all.
        weights: what :func:`skills.learned.find.find_policies` takes, or what this function once
            returned for the same agent. Restricted skills lie in ``restricted/`` of a folder, if
            there is one; Navigate has no arm to restrict and may lie outside.

    Raises:
        UserError: the folder is missing, a policy is missing, or has another action space.
    """
    kind = agent_kind(agent)
    if isinstance(weights, Mapping):
        return dict(weights)
    if not kind.learned:
        if weights is not None:
            raise UserError(
                f"weights={weights} would not be used: the skills of agent={agent} are scripted;"
                " give agent=tpsrl, or leave weights= out."
            )
        return {}
    top = SHIPPED if weights is None else weights
    own = bool(kind.folder) and (weights is None or (top / kind.folder).is_dir())
    folder = top / kind.folder if own else top
    if agent == "monolithic":
        found = find_policies(folder, (*chained(), WHOLE_TASK))
        if WHOLE_TASK not in found:
            raise _missing(agent, [WHOLE_TASK], folder)
        return {WHOLE_TASK: found[WHOLE_TASK]}
    found = find_policies(folder) if weights is not None or folder.exists() else {}
    if kind.actions == "restricted" and "navigate" not in found:
        general = {**find_policies(None), **(policies_in(top) if own else {})}
        found |= {k: p for k, p in general.items() if k == "navigate"}
    if not kind.navigates:
        found.pop("navigate", None)
    for name, policy in found.items():
        if kind.actions and name != "navigate" and policy.card.actions != kind.actions:
            raise UserError(
                f"agent={agent} needs policies of actions={kind.actions}, and {policy.path} was"
                f" trained with actions={policy.card.actions}; give another weights=FOLDER."
            )
    if scenario and not kind.stand_ins:
        missing = [s for s in skills_of(scenario, kind.navigates) if s not in found]
        if missing:
            raise _missing(agent, missing, folder)
    return found


def _missing(agent: str, skills: Sequence[str], folder: Path) -> UserError:
    first, run, in_vain = skills[0], f"runs/{skills[0]}", ""
    words = f"skill={first} out={run}"
    if agent_kind(agent).actions == "restricted" and first != "navigate":
        run = f"runs/restricted/{first}"  # such teachers do not ship, skills= makes them, too
        words = f"skills=[{','.join(skills)}] env_args.actions=restricted out=runs/restricted"
        if "open_fridge" in skills:
            in_vain = "a base that stands still is in the fridge door's way (docs/evaluation.md); "
    return UserError(
        f"agent={agent} has no weights of {', '.join(skills)} in {folder}; {in_vain}train them"
        f" ('tpsrl train {words}'), measure them, put them together with 'tpsrl export"
        f" skill={first} weights={run} result=... out=FOLDER' and give weights=FOLDER."
    )


def fingerprints(policies: Mapping[str, PolicyFiles]) -> dict[str, str]:
    """Return the first 16 hex digits of each file's SHA-256: which weights made a result."""
    return {name: digest(policy.path)[:16] for name, policy in sorted(policies.items())}


def stand_ins(agent: str, scenario: str, policies: Mapping[str, PolicyFiles]) -> list[str]:
    """Return the skills of a scenario's plan that a scripted stand-in carries out."""
    if agent == "monolithic":
        return []
    return [s for s in skills_of(scenario, agent_kind(agent).navigates) if s not in policies]


def skill_lines(agent: str, policies: Mapping[str, PolicyFiles]) -> list[str]:
    """Return for each policy a line: learned, with the success on its card, or scripted."""
    wanted = [WHOLE_TASK] if agent == "monolithic" else chained()
    lines = []
    for name in wanted:
        if name in policies:
            lines.append(f"{name}: learned{_measured(policies[name].card)}")
        else:
            lines.append(f"{name}: scripted, reads privileged state")
    return lines


def _measured(card: Card) -> str:
    """Return the success on a policy's card as words, ``""`` if there is none."""
    found, evaluation = card.facts.get("success"), card.facts.get("evaluation", {})
    if not isinstance(found, Mapping):
        return ""
    rate, low, high = (100 * found[key] for key in ("success", "low", "high"))
    text = f", {rate:.1f}% ({low:.1f} to {high:.1f}) of {found['episodes']}"
    return f"{text} {evaluation.get('split', 'val')} episodes on its card"


def describe(agent: str, policies: Mapping[str, PolicyFiles]) -> str:
    """Return a sentence: which skills are learned, which scripted stand-ins."""
    kind = agent_kind(agent)
    text = f"learned skills: {', '.join(policies) or 'none'}"
    if kind.stand_ins:
        scripted = [name for name in chained() if name not in policies]
        if scripted:
            text += f"; scripted stand-ins, which read privileged state: {', '.join(scripted)}"
    return text
