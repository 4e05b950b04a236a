"""What an agent tells its skills, on a world without physics."""

import pytest

from planner.chain.tpsrl import TpsrlAgent
from tests.planner.chain.toy import ToySim, ToySkill, run, solved, tidy_house
from tpsrl.errors import UserError


def test_seeds_of_skills_differ_and_repeat():
    first, second = run(tidy_house(), "hab")[2], run(tidy_house(), "hab")[2]
    assert [s for _, s in first] == [s for _, s in second]
    assert len({s for _, s in first}) == len(first)


def test_a_skill_is_told_how_often_the_same_call_has_failed_in_this_episode():
    told, log, episode = [], [], tidy_house()

    class Told(ToySkill):
        def reset(self, sim, env_id, call, seed):
            told.append((call.skill, call.target, self.failed_before))
            super().reset(sim, env_id, call, seed)

    def fate(name, call, uses):
        return "miss" if (name, call.target) == ("pick", 1) and uses < 2 else "ok"

    agent = TpsrlAgent(lambda name: Told(name, fate, log), "replan")
    for _ in range(2):
        sim = ToySim(episode)
        told.clear()
        log.clear()
        agent.reset(sim, 0, episode, seed=3)
        while (action := agent.act(sim, 0)) is not None:
            sim.step(action[None])
        assert solved(sim)
        assert [n for skill, target, n in told if (skill, target) == ("pick", 1)] == [0, 1, 2]
        assert {n for skill, target, n in told if (skill, target) != ("pick", 1)} == {0}


def test_unknown_executor_and_missing_reset():
    with pytest.raises(UserError, match="unknown executor 'replann'; did you mean 'replan'"):
        TpsrlAgent(lambda name: None, "replann")
    with pytest.raises(UserError, match="was not reset"):
        TpsrlAgent(lambda name: None).act(None, 0)
