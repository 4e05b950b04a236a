"""What a training refuses before it makes episodes or runs a chain."""

from __future__ import annotations

import pytest

from skills.training import parse
from tpsrl.errors import UserError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["env_args.dept=32"], "has no argument 'dept'; did you mean 'depth'"),
        (["env_args.depth=-4"], "depth=-4 cannot be used"),
        (["env_args.options={horizon: abc}"], "option horizon='abc' cannot be used"),
        (["env_args.options={horizn: 5}"], "did you mean 'horizon'"),
        (["env_args.spawn=far"], "spawn='far' is unknown"),
        (["env_args.places=[sofa]"], "places has no kind 'sofa'"),
        (["env_args.handoff_fraction=2"], "it is a share, 0 to 1"),
    ],
)
@pytest.mark.parametrize("config", ["laptop", "student"])
def test_arguments_of_the_environment_are_checked_at_once(config, words, said):
    with pytest.raises(UserError, match=said):
        parse(["skill=pick", f"config={config}", *words])


def test_what_gymnasium_itself_takes_is_left_to_it():
    words = ["skill=pick", "config=laptop", "env_args.max_episode_steps=5"]
    assert parse(words)[1].env_args["max_episode_steps"] == 5


def test_a_skill_that_says_nothing_of_its_choices_has_even_ones():
    net = parse(["skill=pointnav", "config=laptop", "switches=true"])[1].net
    assert net.binary_actions == [2] and net.binary_initial == [0.5]
    with pytest.raises(UserError, match="sensors=state: the skill 'pointnav' lists none"):
        parse(["skill=pointnav", "config=teacher"])


def test_nobody_is_sent_to_make_a_teacher_that_could_not_be():
    follow = ["config=laptop", "teacher=shipped"]
    with pytest.raises(UserError, match="make one with 'tpsrl train skill=rearrange_easy config"):
        parse(["skill=rearrange_easy", *follow])
    with pytest.raises(UserError, match="as it lists no sensors of one, train without one"):
        parse(["skill=pointnav", *follow])


def test_a_teacher_that_drives_teaches_where_only_arms_are_restricted():
    words = ["config=student", "env_args.actions=restricted"]
    teacher = parse(["skill=navigate", *words])[1].distill.teacher
    assert teacher.endswith("teacher/navigate.safetensors")
    with pytest.raises(UserError, match="no teacher of 'pick' of actions=restricted ships"):
        parse(["skill=pick", *words])


def test_how_long_a_students_noise_lasts_is_the_skills_own_unless_it_is_said():
    found = {s: parse([f"skill={s}"])[1].ppo.max_correlation for s in ("navigate", "pick", "place")}
    assert found["navigate"] == [0.0] and found["pick"] == [0.8]
    assert found["place"][:2] == [0.8, 0.8] and set(found["place"][2:]) == {0.0}
    assert parse(["skill=place", "ppo.max_correlation=[0.4]"])[1].ppo.max_correlation == [0.4]
    assert parse(["skill=place", "config=teacher"])[1].ppo.max_correlation == []
    with pytest.raises(UserError, match="lasting=true is of skills"):
        parse(["env=CartPole-v1", "lasting=true"])
