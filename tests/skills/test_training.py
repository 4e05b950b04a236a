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
