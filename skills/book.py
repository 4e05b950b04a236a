"""The book of skills: one row a skill, from which everything else is derived.

A new skill is a task (``skills/tasks/``), a row of ``skills/rows.py`` and, once trained, its
policy. From the row follow its environment, its scripted program, which policies a folder may hold,
what the planner calls and the choices of every command. A package of one's own adds its row with
:func:`enter` and then calls :func:`skills.envs.register`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from skills.interface import HELPERS, Skill, SkillCall, SkillName
from skills.row import Actions, Entity, SkillRow
from skills.rows import ROWS
from skills.tasks.base import Task
from skills.tasks.kinds import check, kinds_of
from tpsrl.errors import UserError, nearest

Contract = Literal["fixed", "parity"]
Stop = Literal["action", "success"]

_HELPERS = dict(
    zip(HELPERS, ("skills.programs.basic:ResetArm", "skills.programs.basic:Wait"), strict=True)
)


BOOK: dict[str, SkillRow] = {}
"""Skill -> its row, in the order in which skills are listed everywhere."""


def enter(row: SkillRow) -> None:
    """Add a row to the book.

    Raises:
        UserError: its name, environment or a label of a plan is taken.
    """
    name = row.task.name
    if name in (*BOOK, *HELPERS):
        raise UserError(f"the book has a skill '{name}' already; choose another name.")
    for other, old in BOOK.items():
        shared = {row.environment} & {old.environment} or set(row.plan) & set(old.plan)
        if shared:
            raise UserError(
                f"the skill '{other}' has {', '.join(sorted(shared))} already; give '{name}'"
                " another environment and other actions of a plan."
            )
    BOOK[name] = row


def row_of(skill: str) -> SkillRow:
    """Return the row of a skill.

    Raises:
        UserError: there is none.
    """
    if skill not in BOOK:
        raise UserError(f"unknown skill '{skill}'{nearest(skill, BOOK)}")
    return BOOK[skill]


def chained() -> tuple[str, ...]:
    """Return the skills that plans call."""
    return tuple(name for name, row in BOOK.items() if row.plan)


def placed() -> tuple[str, ...]:
    """Return the skills that take from or set down in a place, whose kind training may choose."""
    return tuple(name for name, row in BOOK.items() if row.placed)


def skill_for(label: str) -> str:
    """Return the skill that carries out a plan's actions of a label.

    Raises:
        UserError: there is none.
    """
    plain = label.removesuffix("_by_name")
    for name, row in BOOK.items():
        if plain in row.plan:
            return name
    known = [known for row in BOOK.values() for known in row.plan]
    raise UserError(
        f"no skill carries out the action '{label}'{nearest(plain, known)}; name it under 'plan' in"
        " a row of skills/rows.py"
    )


def call_for(label: str, entities: Sequence[Entity]) -> SkillCall:
    """Return the skill call that an action of a plan becomes.

    Raises:
        UserError: no skill carries it out.
    """
    skill = skill_for(label)
    return BOOK[skill].plan[label.removesuffix("_by_name")](skill, entities)


def make_skill(name: SkillName) -> Skill:
    """Return a new scripted skill.

    Raises:
        ValueError: there is no scripted skill of that name.
    """
    programs = {skill: row.program for skill, row in BOOK.items() if row.program} | _HELPERS
    if name not in programs:
        raise ValueError(f"There is no scripted skill '{name}'; choose from {', '.join(programs)}.")
    module, _, cls = programs[name].partition(":")
    skill: Skill = getattr(importlib.import_module(module), cls)()
    return skill


def make_task(
    name: str,
    *,
    contract: Contract = "fixed",
    actions: Actions = "full",
    stop: Stop = "action",
    options: Mapping[str, Any] | None = None,
) -> Task:
    """Return a task.

    Args:
        name: of a skill in the book.
        contract: ``"parity"`` keeps the quirks of habitat-lab that are fixed otherwise.
        actions: ``"restricted"``: the base stands still in manipulation skills (Habitat 2.0).
        stop: ``"success"``: the action has no stop, and the skill ends when it is done.
        options: fields of the task to override, e.g. ``{"horizon": 500}``.

    Raises:
        UserError: unknown name, contract, action space, way to stop or option, or a value of an
            option that is of another kind.
    """
    row = row_of(name)
    if contract not in ("fixed", "parity"):
        raise UserError(f"contract='{contract}' is unknown; use 'fixed' or 'parity'.")
    if actions not in ("full", "restricted"):
        raise UserError(f"actions='{actions}' is unknown; use 'full' or 'restricted'.")
    if stop not in ("action", "success"):
        raise UserError(f"stop='{stop}' is unknown; use 'action' or 'success'.")
    known = {f.name for f in dataclasses.fields(row.task)}
    changes: dict[str, Any] = dict(row.parity) if contract == "parity" else {}
    layout = row.task.layout
    if row.stands(actions):
        layout = dataclasses.replace(layout, base=False)
    changes |= {"layout": layout, **(options or {})}
    if stop == "success":
        changes["layout"] = dataclasses.replace(changes["layout"], stop=False)
        changes["stops_itself"] = True
        if "failed_stop_penalty" in known:
            changes["failed_stop_penalty"] = 0.0
    for key in changes:
        if key not in known:
            raise UserError(f"skill '{name}' has no option '{key}'{nearest(key, known)}")
    check(options or {}, kinds_of(type(row.task)), f"skill '{name}': option ")
    return dataclasses.replace(row.task, **changes)


for _row in ROWS:
    enter(_row)


def sensor_sets(
    skill: str, contract: Contract = "fixed", actions: Actions = "full"
) -> dict[str, tuple[str, ...]]:
    """Return the sets of observations that have a name, see :class:`skills.row.SkillRow`.

    Args:
        skill: whose.
        contract: of which ``"contract"`` tells the observations.
        actions: a base that stands still has no way, so ``"seen"`` and ``"course"`` are empty.

    Raises:
        UserError: unknown skill.
    """
    row = row_of(skill)
    sensed = make_task(skill, contract=contract).sensors
    sets = {name: getattr(row, name) for name in ("fine", "seen", "felt", "state", "course")}
    if "marker_rel_pos" not in sensed:  # parity: nothing tells where the handle is
        sets["fine"] = tuple(name for name in sets["fine"] if name != "marker_fine")
    if row.stands(actions):
        sets |= {"seen": (), "course": ()}
    return {"contract": sensed, **sets}
