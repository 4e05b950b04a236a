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


def test_a_name_of_two_places_is_the_one_that_the_scenario_uses() -> None:
    """In the second episode of Tidy House things lie on the coffee table, and none go to either."""
    episode = load_shipped("tidy_house").episodes[1]
    used = {t.goal_receptacle for t in episode.targets}
    assert not used & {"table_01", "table_02"} and "counter_right" in used
    for words, place in (("table", "coffee table"), ("counter", "right counter")):
        errand = errand_for(episode, f"go to the {words}")
        assert errand.notes == (f"'the {words}' is the {place}",)
        assert errand.goals[0][0].args == (f"TARGET_{place.replace(' ', '_')}|spot",)
    errand = errand_for(episode, "bring the bowl to the dining table and go to the table")
    assert errand.notes[-1] == "'the table' is the dining table"


def test_where_things_are_brought_is_a_note_if_the_name_has_two_places() -> None:
    episode = load_shipped("tidy_house").episodes[1]
    (note,) = errand_for(episode, "put everything on the table").notes
    tables = ("dining table for bowl, cracker box, ", "; the coffee table for potted meat can, ")
    assert note.startswith("'the table' is the ") and all(part in note for part in tables)
    assert not errand_for(episode, "put everything on the sofa").notes
