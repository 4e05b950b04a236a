"""Place: stand before the goal, lower the held object onto it, let go, come back to rest."""

from __future__ import annotations

from skills.motion.moves import Actions, GiveUpError, move
from skills.motion.postures import rest_posture
from skills.motion.reach import plan_reach
from skills.motion.view import look
from skills.programs.pick import back_out, go_before, move_in
from skills.programs.program import ScriptedSkill, Tried
from skills.programs.targets import episode_target, place_goal, place_target
from skills.tasks.tolerances import AT_REST
from tpsrl.sim.door import Simulator


class Place(ScriptedSkill):
    """Sets the held object of ``call.target`` down at its goal."""

    name = "place"

    def __init__(self) -> None:
        self._tried = Tried()

    def run(self, sim: Simulator, env_id: int) -> Actions:
        """See :meth:`ScriptedSkill.run`."""
        target = episode_target(sim, env_id, self.call)
        view = look(sim, env_id)
        if view.held_object != target.object_index:
            raise GiveUpError("object not held")
        goal = place_goal(sim, env_id, self.call)
        tip = place_target(sim, env_id, view, target, goal)
        tried = self._tried.at(sim, env_id, self.call)
        try:
            reach = plan_reach(sim, env_id, view, tip, banned=tried)
        except GiveUpError:
            tried.clear()
            reach = plan_reach(sim, env_id, view, tip)
        tried.append(reach)  # whoever comes back with the object has lost it at the last one
        for action in go_before(sim, env_id, reach):
            yield action
            if look(sim, env_id).held_object != target.object_index:
                raise GiveUpError("object dropped")
        yield from move_in(sim, env_id, reach, grasp=False)
        yield from back_out(sim, env_id, reach, grip=-1.0)
        yield from move(sim, env_id, arm=rest_posture(look(sim, env_id).target), grip=-1.0)

    def missing(self, sim: Simulator, env_id: int) -> str:
        """See :meth:`ScriptedSkill.missing`."""
        view = look(sim, env_id)
        if view.holding:
            return "object not released"
        return "arm not at rest" if view.rest_distance >= AT_REST else ""
