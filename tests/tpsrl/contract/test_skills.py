"""What stands above the door runs on every engine unchanged."""

from __future__ import annotations

import numpy as np

from skills.book import make_skill
from skills.interface import SkillCall
from tests.tpsrl.contract.engines import episode
from tpsrl.sim.door import Simulator


def carry_out(sim: Simulator, call: SkillCall, limit: int) -> str:
    """Run a scripted skill; return why it ended."""
    skill = make_skill(call.skill)
    skill.reset(sim, 0, call, 0)
    for _ in range(limit):
        status = skill.status(sim, 0)
        if status.done or status.failed:
            return "done" if status.done else status.reason
        sim.step(skill.act(sim, 0)[None])
    return "timeout"


def test_a_scripted_robot_drives_to_a_table_and_picks_nothing_up_on_the_way(sim: Simulator) -> None:
    sim.reset([episode()], [0])
    goal = episode().targets[0].goal_pos
    before = np.linalg.norm(sim.state().base_pose[0, :2] - goal[:2])
    assert carry_out(sim, SkillCall("navigate", 0, "goal"), 400) == "done"
    state = sim.state()
    after = np.linalg.norm(state.base_pose[0, :2] - goal[:2])
    assert after < min(1.5, before)
    assert state.held_object[0] == -1 and state.step_count[0] > 20
    assert carry_out(sim, SkillCall("reset_arm"), 60) == "done"
