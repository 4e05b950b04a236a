"""Pick and Place as they are shown to a learner: the law for the kind of place in question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.superseded.laws.above import PickFromAbove, PlaceFromAbove
from skills.superseded.laws.cabinet import PickInCabinet, PlaceInCabinet
from skills.superseded.laws.reach_law import ReachLaw, reach_point
from skills.tasks.places import kind_of, place_of
from tpsrl.sim.door import Simulator


class _ByPlace(Skill):
    """Leaves the call to the law for what carries the point that it is about.

    A cabinet is reached into from its front only; anywhere else the cup comes down from above.

    Attributes:
        laws: kind of place (``skills.tasks.places.KINDS``) -> law.
        law: the one chosen at :meth:`reset`.
    """

    privileged = True
    laws: ClassVar[Mapping[str, type[ReachLaw]]]

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`.

        Raises:
            GiveUpError: the call names no target of the episode.
        """
        point = reach_point(sim, env_id, call, self.name)
        self.law = self.laws[kind_of(place_of(sim, env_id, point))]()
        self.law.reset(sim, env_id, call, seed)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        return self.law.act(sim, env_id)

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        return self.law.status(sim, env_id)


class PickByPlace(_ByPlace):
    """Grasps ``call.target``'s object wherever it lies, and holds it at rest."""

    name: SkillName = "pick"
    laws: ClassVar = {"open": PickFromAbove, "drawer": PickFromAbove, "cabinet": PickInCabinet}


class PlaceByPlace(_ByPlace):
    """Sets ``call.target``'s object down wherever it belongs, and brings the arm to rest."""

    name: SkillName = "place"
    laws: ClassVar = {
        "open": PlaceFromAbove,
        "drawer": PlaceFromAbove,
        "cabinet": PlaceInCabinet,
    }
