"""The laws of Pick and Place for a base that stands still."""

import contextlib

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.motion.moves import GiveUpError
from skills.motion.view import look
from skills.superseded.imitation.collect import CollectOptions, record_episode
from skills.superseded.laws.standing import StandingPick, StandingPlace, plan_standing
from skills.superseded.laws.teachers import make_teacher
from tests.skills.nets import STATE
from tpsrl.robot.kinematics import arm_kinematics

RESTRICTED = {**STATE, "actions": "restricted"}


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_the_law_succeeds_where_it_stands(skill):
    with contextlib.closing(SkillEnv(skill, **RESTRICTED)) as env:
        found, stood = [], []
        for seed in range(6):
            found.append(record_episode(env, seed, CollectOptions(noise=0.0)))
            assert env.worlds.view is not None
            start = np.asarray(env.worlds.view.goal.start_pose)[0]
            stood.append(np.allclose(look(env.sim, 0).base, start, atol=0.05))
    assert sum(d.success for d in found) >= 3
    assert all(stood)
    assert all(d.actions.shape[1] == 8 for d in found)
    assert max(len(d) for d in found if d.success) < 200


def test_a_plan_brings_the_cup_where_it_is_wanted():
    point = np.array([0.45, 0.1, 0.6])
    with contextlib.closing(SkillEnv("pick", **RESTRICTED)) as env:
        env.reset(seed=0)
        plan = plan_standing(env.sim, 0, point, np.zeros(3), -1)
    above, at = (arm_kinematics().forward(q).pos for q in (plan.above, plan.at))
    assert np.linalg.norm(at - point) < 0.02
    assert above[2] - at[2] > 0.05
    assert plan.part(plan.above) == (0.0, 0.0)
    assert plan.part(plan.at)[0] == pytest.approx(1.0)
    np.testing.assert_allclose(plan.down(plan.at), plan.at)
    far = plan.above + 1.0  # from beside the way it first returns to the posture above
    np.testing.assert_allclose(plan.down(far), plan.above)


def test_what_is_out_of_reach_is_given_up():
    with contextlib.closing(SkillEnv("pick", **RESTRICTED)) as env:
        env.reset(seed=0)
        with pytest.raises(GiveUpError, match="standing base"):
            plan_standing(env.sim, 0, np.array([1.6, 0.0, 0.8]), np.zeros(3), -1)
        env.sim.set_base(np.array([[50.0, 50.0, 0.0]]), [0])
        skill = StandingPick()
        call = env.worlds.origins[0].call
        assert call is not None
        skill.reset(env.sim, 0, call, 0)
        status = skill.status(env.sim, 0)
        assert status.failed
        assert not skill.act(env.sim, 0)[:7].any()


def test_the_teacher_of_a_standing_robot():
    assert isinstance(make_teacher("pick", standing=True), StandingPick)
    assert isinstance(make_teacher("place", standing=True), StandingPlace)
    assert not isinstance(make_teacher("pick"), StandingPick)
