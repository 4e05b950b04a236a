"""A whole rearrangement as it is shown to a learner: the teachers one after another."""

from __future__ import annotations

from skills.interface import Skill, SkillCall
from skills.programs.rearrange import Rearrange
from skills.superseded.laws.approach import Approach
from skills.superseded.laws.teachers import TeachPick, TeachPlace


class TeachRearrange(Rearrange):
    """Drives to where the object comes within reach, picks, drives to the goal, places."""

    def parts(self, target: int | None) -> list[tuple[Skill, SkillCall]]:
        """See :meth:`Rearrange.parts`."""
        return [
            (Approach(), SkillCall("navigate", target, "start")),
            (TeachPick(), SkillCall("pick", target)),
            (Approach(), SkillCall("navigate", target, "goal")),
            (TeachPlace(), SkillCall("place", target)),
        ]
