"""What a row of the book of skills says, and how a plan's action becomes the call of a skill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skills.interface import SkillCall, SkillName
from skills.tasks.base import Task


@dataclass(frozen=True)
class Entity:
    """What an argument of a plan's action stands for.

    Attributes:
        role: ``"object"``, ``"goal"`` (where it belongs), ``"start"`` (where it lay at reset) or
            ``"handle"`` (of a container).
        target: index into ``Episode.targets``, ``None`` for a handle.
        joint: furniture joint of a handle.
    """

    role: Literal["object", "goal", "start", "handle"]
    target: int | None = None
    joint: str | None = None


Actions = Literal["full", "restricted"]
"""Whether the base may move in skills that manipulate."""
Ask = Callable[[SkillName, Sequence[Entity]], SkillCall]
"""What an action of a plan becomes: from the skill and the action's arguments, a call."""


def ask_target(skill: SkillName, entities: Sequence[Entity]) -> SkillCall:
    """Ask a skill to deal with a target, where it lay at reset if the action names that place."""
    back = any(entity.role == "start" for entity in entities)
    return SkillCall(skill, target=_target(entities), place="start" if back else None)


def ask_drive(skill: SkillName, entities: Sequence[Entity]) -> SkillCall:
    """Ask a skill to drive to where a target lies or belongs."""
    place: Literal["start", "goal"] = "goal" if entities[0].role == "goal" else "start"
    return SkillCall(skill, target=_target(entities), place=place)


def ask_drive_to_handle(skill: SkillName, entities: Sequence[Entity]) -> SkillCall:
    """Ask a skill to drive to a container's handle."""
    joint = entities[0].joint
    return SkillCall(skill, target=_target(entities), place="receptacle", joint=joint)


def ask_handle(skill: SkillName, entities: Sequence[Entity]) -> SkillCall:
    """Ask a skill to move a container's joint."""
    return SkillCall(skill, target=_target(entities), joint=entities[0].joint)


def _target(entities: Sequence[Entity]) -> int | None:
    return next((entity.target for entity in entities if entity.role != "handle"), None)


@dataclass(frozen=True)
class SkillRow:
    """Everything that is particular to a skill.

    Attributes:
        task: start, goal, observations, actions, reward, success, end and horizon.
        environment: its Gymnasium id is ``tpsrl/ENVIRONMENT-v0``.
        program: ``"module:Class"`` of the scripted skill; ``""`` for none.
        needs: options of the task without which the program cannot work.
        plan: label of a plan's action -> what it becomes; empty if no plan calls the skill. Each
            label stands for its ``LABEL_by_name`` too.
        parity: fields of the task that have other values in habitat-lab.
        state: observations of a policy that may know the whole state (``sensors=state``).
        fine: observations that follow from the contract's and tell its last centimetres and degrees
            (``sensors=fine``); whoever senses the contract could work them out.
        seen: observations of a map that the robot keeps of what it has seen (``sensors=seen``);
            they follow from the contract's, too, but not from those of one step.
        felt: observations of what the robot was told and did not do (``sensors=felt``); they follow
            from the contract's and from a policy's own actions.
        course: observations of the way itself (``sensors=course``), for teachers and critics: who
            sees a place for the first time does not know it.
        teaching: fields of the task that differ while a policy learns from its reward alone
            (``reward=teaching``); they never decide what counts as success.
        driving: further ones where the base may move.
        switches: ``"grip"`` and ``"stop"``, as far as the task has them -> how likely a policy that
            has learned nothing grasps and stops in a step; 0.5 where it is not said.
        again: share of a training's episodes that begin at a start that has failed before
            (``again="auto"``).
        lasting: most correlation of successive steps' exploration noise along a student's training
            (``ppo.max_correlation``).
        teachers: how many learn it from seeds of their own before one learns from all of them
            (``config=merged``); 1 for one alone.
        placed: it takes from or sets down in a place, whose kind (``skills.tasks.places.KINDS``)
            training may choose (``places=``) and results name.
    """

    task: Task
    environment: str
    program: str = ""
    needs: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Ask] = field(default_factory=dict)
    parity: Mapping[str, Any] = field(default_factory=dict)
    placed: bool = False
    again: float = 0.35
    lasting: tuple[float, ...] = (0.8,)
    state: tuple[str, ...] = ()
    fine: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    felt: tuple[str, ...] = ()
    course: tuple[str, ...] = ()
    teaching: Mapping[str, Any] = field(default_factory=dict)
    driving: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, float] = field(default_factory=dict)
    teachers: int = 1

    @property
    def uses_arm(self) -> bool:
        """Whether the skill manipulates: its policy moves the arm."""
        return self.task.layout.arm

    def stands(self, actions: Actions) -> bool:
        """Tell whether the base stands still: manipulation with ``actions="restricted"``."""
        return actions == "restricted" and self.uses_arm

    def taught(self, actions: Actions) -> dict[str, Any]:
        """Return the fields of the task that differ with ``reward="teaching"``."""
        return dict(self.teaching) | ({} if self.stands(actions) else dict(self.driving))
