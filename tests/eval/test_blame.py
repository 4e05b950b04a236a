"""Who is to blame where one failure leads to the next."""

from __future__ import annotations

import pytest

from eval.episode import blame
from tests.eval.test_metrics import record, skill

WRONG = [
    *(skill("navigate"), skill("pick"), skill("navigate"), skill("place")),
    *(skill("navigate"), skill("pick", "failure", "wrong object"), skill("reset_arm")),
    *(skill("navigate"), skill("reset_arm"), skill("place", "failure", "not at goal")),
]
TAKEN, BROUGHT = (
    {"skill": "pick", "cause": "wrong object"},
    {"skill": "place", "cause": "not at goal"},
)


@pytest.mark.parametrize(
    ("later", "blamed"),
    [
        ([], TAKEN),
        ([skill("navigate"), skill("pick"), skill("navigate"), skill("place")], TAKEN),
        ([skill("navigate"), skill("pick", "timeout", "nothing grasped")], TAKEN),
        (
            [skill("pick"), skill("navigate"), skill("place", "failure", "not released")],
            {"skill": "place", "cause": "not released"},
        ),
    ],
)
def test_a_plan_carried_out_blindly_fails_where_the_row_of_failures_began(later, blamed):
    assert blame(record(0, end="stop", skills=[*WRONG, *later])) == blamed


def test_who_looks_and_tries_again_failed_at_the_last_try():
    assert blame(record(0, end="stop", skills=WRONG, replans=1)) == BROUGHT


def test_a_navigation_that_failed_on_the_way_is_not_to_blame_for_what_came_before():
    lost = [*WRONG[:6], skill("navigate", "timeout", "too far away")]
    assert blame(record(0, end="stop", skills=lost)) == TAKEN
    lost = [*WRONG[:4], skill("navigate", "timeout", "too far away")]
    assert blame(record(0, end="stop", skills=lost))["skill"] == "navigate"


def test_the_wait_after_the_last_action_is_not_to_blame():
    done = [skill("pick"), skill("reset_arm"), skill("place"), skill("release"), skill("wait")]
    missed = {"skill": "place", "cause": "goal_not_reached"}
    assert blame(record(0, end="stop", skills=done)) == missed
    only = blame(record(0, end="stop", skills=[skill("wait")]))
    assert only == {"skill": "wait", "cause": "goal_not_reached"}


def test_what_does_not_matter_is_not_to_blame():
    reset = {**skill("reset_arm", "timeout"), "optional": True}
    done = [skill("navigate"), skill("pick"), reset, skill("navigate"), skill("place")]
    missed = {"skill": "place", "cause": "goal_not_reached"}
    assert blame(record(0, end="stop", skills=done)) == missed
    late = [*done[:4], skill("place", "failure", "not at goal"), reset]
    assert blame(record(0, end="stop", skills=late, replans=1)) == BROUGHT
