"""Learned skills where there are weights, scripted ones where there are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from skills.interface import Skill, SkillName
from skills.learned.cards import SHIPPED, learned_skills
from skills.learned.skill import LearnedSkill
from skills.scripted import make_skill


def skill_factory(weights: str | Path | None = None) -> Callable[[SkillName], Skill]:
    """Return a function that makes a skill by name.

    Args:
        weights: folder of learned skills, ``None`` for those shipped.

    Raises:
        UserError: the folder is missing or a card in it is damaged.
    """
    folder = SHIPPED if weights is None else Path(weights)
    cards = learned_skills(weights)

    def make(name: SkillName) -> Skill:
        if name in cards:
            return LearnedSkill.load(folder, cards[name])
        return make_skill(name)

    return make
