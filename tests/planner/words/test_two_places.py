"""An object goes to one place, whoever names the other."""

from __future__ import annotations

import pytest

from planner.words import errand_for
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError


@pytest.mark.parametrize(
    "goal", ["bring the bowl to the sofa, then tidy up", "tidy up, then bring the bowl to the sofa"]
)
def test_tidying_is_a_place_too(goal: str) -> None:
    episode = load_shipped("set_table").episodes[0]
    with pytest.raises(UserError, match="'bowl' is to go to two places"):
        errand_for(episode, goal)


def test_where_it_belongs_anyway_is_no_other_place() -> None:
    episode = load_shipped("set_table").episodes[0]
    errand = errand_for(episode, "put the bowl away, then tidy up")
    assert len(errand.goals) == 2
