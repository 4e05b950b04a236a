"""Learned skills where there are weights, scripted ones where there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from skills.book import make_skill
from skills.interface import Skill, SkillName
from skills.learned.cards import PolicyFiles
from skills.learned.skill import LearnedSkill


def skill_factory(policies: Mapping[str, PolicyFiles]) -> Callable[[SkillName], Skill]:
    """Return a function that makes a skill by name.

    Args:
        policies: skill -> policy, as from ``skills.learned.cards.policies_in``.
    """

    def make(name: SkillName) -> Skill:
        return LearnedSkill.load(policies[name]) if name in policies else make_skill(name)

    return make
