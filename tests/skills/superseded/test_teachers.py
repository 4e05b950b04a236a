import contextlib

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.motion.postures import ARM_INIT
from skills.motion.reach import plan_reach
from skills.motion.view import look, what_if
from skills.programs.targets import episode_target, pick_target
from skills.superseded.imitation.collect import CollectOptions, record_episode
from skills.superseded.laws.teachers import PickByPlace, TeachPick, make_teacher, straight_azimuth
from tests.skills.nets import STATE
from tpsrl.geometry.rotations import wrap


class Drunk:
    """A learner that does anything."""

    def __init__(self, size: int) -> None:
        self.size, self.rng = size, np.random.default_rng(0)

    def reset(self) -> None:
        pass

    def step(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        action = self.rng.uniform(-1, 1, self.size).astype(np.float32)
        action[7] = 1.0 if observation["is_holding"][0] else -1.0
        return action


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_teacher_succeeds_and_moves_base_and_arm_together(skill):
    with contextlib.closing(SkillEnv(skill, **STATE)) as env:
        found = [record_episode(env, seed, CollectOptions(noise=0.0)) for seed in range(5)]
    assert sum(d.success for d in found) >= 4
    waits = [np.abs(np.delete(d.actions, 7, axis=1)).max(axis=1) < 0.05 for d in found if d.success]
    assert np.mean(np.concatenate(waits)) < 0.12


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_teacher_goes_on_from_where_a_learner_brought_the_robot(skill):
    options = CollectOptions(noise=0.0, roll_in=40)
    with contextlib.closing(SkillEnv(skill, **STATE)) as env:
        found = [record_episode(env, seed, options, Drunk(10)) for seed in range(5)]
    assert sum(d.success for d in found) >= 3


def test_asking_about_postures_is_what_putting_the_robot_there_says():
    rng = np.random.default_rng(0)
    answers = []
    with contextlib.closing(SkillEnv("place", **STATE)) as env:
        env.reset(seed=0)
        sim, view = env.sim, look(env.sim, 0)
        for _ in range(20):
            base = view.base + rng.normal(size=3) * [0.4, 0.4, 0.5]
            qpos = ARM_INIT + rng.normal(size=7) * 0.4
            with what_if(sim, 0) as world:
                quick = world.touches(base, qpos)
            with what_if(sim, 0):
                sim.set_base(base[None], [0])
                sim.set_arm(qpos[None], [0])
                answers.append(sim.robot_contacts(0))
            assert quick == answers[-1]
    assert 0 < sum(answers) < 20


def test_straight_ways_are_preferred():
    def strays(teacher: bool) -> list[float]:
        angles = []
        for seed in range(4):
            env.reset(seed=seed)
            sim, call = env.sim, env.worlds.origins[0].call
            view, target = look(sim, 0), episode_target(sim, 0, call)
            tip = pick_target(sim, 0, view, target)
            if teacher:
                plan = TeachPick()._plan(sim, 0, tip, [], target.object_index).reach
            else:
                plan = plan_reach(sim, 0, view, tip, ignore=target.object_index)
            angles.append(abs(wrap(plan.azimuth - straight_azimuth(view, tip.xy))))
        return angles

    with contextlib.closing(SkillEnv("pick", **STATE)) as env:
        teacher, plain = strays(True), strays(False)
    assert np.mean(teacher) <= np.mean(plain)
    assert min(teacher) < 0.01


def test_the_teacher_can_be_chosen():
    assert type(make_teacher("pick")) is PickByPlace
    assert type(make_teacher("pick", teacher="plan")) is TeachPick
    assert type(make_teacher("open_cab", teacher="plan")) is type(make_teacher("open_cab"))
    with pytest.raises(ValueError, match="use one of law, plan"):
        make_teacher("pick", teacher="book")


def test_other_skills_keep_theirs():
    assert make_teacher("open_cab").name == "open_cab"
