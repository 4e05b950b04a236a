"""The laws of Pick and Place for open surfaces and drawers."""

import contextlib

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.motion.moves import GiveUpError
from skills.motion.view import look
from skills.superseded.imitation.collect import CollectOptions, record_episode
from skills.superseded.laws.above import PickFromAbove, PlaceFromAbove, posture_over
from skills.tasks.places import kind_of
from tests.skills.nets import STATE
from tpsrl.geometry.rotations import to_base
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import ACTION_ARM, ACTION_BASE

LAWS = {"pick": PickFromAbove, "place": PlaceFromAbove}


@pytest.fixture(scope="module", params=["pick", "place"])
def skill(request):
    return request.param


@pytest.fixture(scope="module", params=["open", "drawer"])
def env(request, skill):
    with contextlib.closing(SkillEnv(skill, **STATE, places=[request.param])) as env:
        env.kind = request.param
        yield env


def begun(env, seed):
    env.reset(seed=seed)
    call = env.worlds.origins[0].call
    law = LAWS[call.skill]()
    law.reset(env.sim, 0, call, seed)
    return law


def asks_for(episode, kind):
    return all(kind in episode.objects[t.object_index].type for t in episode.targets)


def run(env, law, steps=200):
    """Let the law act; yield the state and the action before each step."""
    for _ in range(steps):
        action = law.act(env.sim, 0)
        yield look(env.sim, 0), action
        env.worlds.sim.step(action[None])


def test_the_law_succeeds(env):
    found = [record_episode(env, seed, CollectOptions(noise=0.0)) for seed in range(5)]
    assert sum(d.success for d in found) >= 4
    assert np.median([len(d) for d in found if d.success]) < 190


def test_the_law_is_a_function_of_the_present_state(env):
    law = begun(env, 1)
    assert kind_of(law.place) == env.kind
    for _ in run(env, law, 40):
        pass
    anew = LAWS[law.name]()
    anew.reset(env.sim, 0, env.worlds.origins[0].call, 7)  # knows nothing of what came before
    # What lies in a drawer has crept by less than a hundredth of a millimetre meanwhile.
    np.testing.assert_allclose(law.act(env.sim, 0), anew.act(env.sim, 0), atol=1e-3)


def test_the_base_keeps_off_while_the_cup_is_low(env):
    """The same place, the cup above the target's height and at it: drive on, and stand."""
    law = begun(env, 0)
    for view, action in run(env, law):
        gap = float(np.linalg.norm(law.point[:2] - view.base[:2]))
        if gap - law._radius < 0.25 and action[ACTION_BASE][0] > 0.1:
            break
    else:
        pytest.fail("the base never came near with the cup raised")
    low = posture_over(0.55, min(float(law.point[2]), 0.8))
    env.sim.set_arm(low[None], [0])
    assert law.act(env.sim, 0)[ACTION_BASE][0] == 0.0


def test_the_cup_comes_down_over_the_target(env):
    """It is above the target's height until it is over it, seen from above."""
    law = begun(env, 1)
    held = look(env.sim, 0).holding
    ways = []
    for view, _ in run(env, law):
        if view.holding != held:
            break
        carried = view.objects[law.object_index] if held else view.tip
        way = carried - law.point
        ways.append((np.hypot(*way[:2]), way[2]))
    assert view.holding != held
    aside, up = np.array(ways).T
    assert aside[-1] < 0.12
    assert up[aside > 0.15][-1] > 0.0


def test_the_arm_slows_down_at_the_end(skill):
    """Near the posture that it wants the arm moves in proportion to what is left."""
    with contextlib.closing(SkillEnv(skill, **STATE, places=["open"])) as env:
        law = begun(env, 0)
        sizes = [np.abs(action[ACTION_ARM][:6]).max() for _, action in run(env, law)]
    assert max(sizes) == pytest.approx(1.0)
    assert sizes[-1] < 0.3


@pytest.mark.parametrize("radius", [0.6, 0.68, 0.74, 0.85])
@pytest.mark.parametrize("height", [0.45, 0.7, 0.95, 1.06])
def test_postures_reach_what_they_say(radius, height):
    kinematics = arm_kinematics()
    cup = kinematics.forward(posture_over(radius, height))
    assert np.hypot(*(cup.pos[:2] - kinematics.pan_axis)) == pytest.approx(radius, abs=0.003)
    assert cup.pos[2] == pytest.approx(height, abs=0.003)
    assert cup.approach[2] < -0.8  # steeply down


def test_a_radius_out_of_reach_gives_the_nearest_and_a_height_gives_up():
    kinematics = arm_kinematics()
    cup = kinematics.forward(posture_over(0.5, 1.25)).pos
    assert np.hypot(*(cup[:2] - kinematics.pan_axis)) > 0.52
    assert cup[2] == pytest.approx(1.25, abs=0.003)
    with pytest.raises(GiveUpError, match="out of reach"):
        posture_over(0.7, 3.0)


def test_a_bowl_is_grasped():
    """It is hollow where the cup comes down: the cup goes on to its bottom or meets its rim."""
    with contextlib.closing(SkillEnv("pick", **STATE, places=["open"])) as env:
        env.worlds.episodes = [e for e in env.worlds.episodes if asks_for(e, "bowl")]
        assert record_episode(env, 0, CollectOptions(noise=0.0)).success
        assert asks_for(env.sim.episode(0), "bowl")


def test_the_target_in_the_base_frame_decides_what_the_arm_does():
    """Two rooms, two surfaces, the same target from the base: the same arm action."""
    said = []
    with contextlib.closing(SkillEnv("pick", **STATE, places=["open"])) as env:
        for seed in (0, 3):
            law = begun(env, seed)
            yaw = 0.4 * seed
            heading = np.array([np.cos(yaw), np.sin(yaw)])
            env.sim.set_base(np.append(law.point[:2] - 0.7 * heading, yaw)[None], [0])
            law.point[2] = 0.75
            assert to_base(look(env.sim, 0).base, law.point)[0] == pytest.approx(0.7, abs=1e-6)
            env.sim.set_arm(posture_over(0.6, 1.0)[None], [0])
            said.append(law.act(env.sim, 0)[ACTION_ARM])
    np.testing.assert_allclose(said[0], said[1], atol=1e-6)
