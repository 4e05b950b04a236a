"""A whole rearrangement: the scripted skills one after another, as one program."""

from __future__ import annotations

import numpy as np

from skills.interface import Skill, SkillCall
from skills.motion.moves import Actions, GiveUpError
from skills.motion.view import look
from skills.programs.basic import Navigate, ResetArm
from skills.programs.pick import Pick
from skills.programs.place import Place
from skills.programs.program import ScriptedSkill
from skills.programs.targets import episode_target, place_goal
from skills.tasks.tolerances import OBJECT_AT
from tpsrl.sim.door import Simulator


class Rearrange(ScriptedSkill):
    """Brings one object from where it lies to its goal."""

    name = "rearrange_easy"

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        for skill, call in self.parts(self.call.target):
            skill.reset(sim, env_id, call, self.seed)
            while not skill.status(sim, env_id).done:
                yield skill.act(sim, env_id)
                status = skill.status(sim, env_id)
                if status.failed:
                    raise GiveUpError(f"{skill.name}: {status.reason}")

    def parts(self, target: int | None) -> list[tuple[Skill, SkillCall]]:
        """Return the skills in their order, and what each is asked."""
        return [
            (Navigate(), SkillCall("navigate", target, "start")),
            (Pick(), SkillCall("pick", target)),
            (ResetArm(), SkillCall("reset_arm")),
            (Navigate(), SkillCall("navigate", target, "goal")),
            (Place(), SkillCall("place", target)),
        ]

    def missing(self, sim: Simulator, env_id: int) -> str:
        """See :meth:`ScriptedSkill.missing`."""
        target = episode_target(sim, env_id, self.call)
        gap = look(sim, env_id).objects[target.object_index] - place_goal(sim, env_id, self.call)
        return "not at goal" if np.linalg.norm(gap) >= OBJECT_AT else ""
