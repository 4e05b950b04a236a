"""Scripted skills: privileged state and inverse kinematics; made by :func:`make_skill`."""

from __future__ import annotations

from skills.interface import Skill, SkillName
from skills.programs.articulated import CloseCab, CloseFridge, OpenCab, OpenFridge
from skills.programs.basic import Navigate, ResetArm, Wait
from skills.programs.pick import Pick
from skills.programs.place import Place
from skills.programs.rearrange import Rearrange

_SKILLS: dict[str, type[Skill]] = {
    cls.name: cls  # type: ignore[misc]
    for cls in (
        Navigate,
        Pick,
        Place,
        OpenCab,
        CloseCab,
        OpenFridge,
        CloseFridge,
        Rearrange,
        ResetArm,
        Wait,
    )
}


def make_skill(name: SkillName) -> Skill:
    """Return a new scripted skill.

    Raises:
        ValueError: there is no skill of that name.
    """
    if name not in _SKILLS:
        raise ValueError(f"There is no scripted skill '{name}'; choose from {', '.join(_SKILLS)}.")
    return _SKILLS[name]()


__all__ = ["make_skill"]
