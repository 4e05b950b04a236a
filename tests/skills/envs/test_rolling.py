"""A placed object that still moves when the skill ends has not been placed well."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skills.book import BOOK, make_task
from tests.skills.envs.states import goals, state, view


@pytest.mark.parametrize(
    ("moved", "held", "lost"), [(0.0005, -1, 0.0), (0.002, -1, 5.0), (0.002, 0, 0.0)]
)
def test_a_success_with_a_rolling_object_pays_less_and_stays_one(moved, held, lost):
    task = make_task("place", options={"rolling_penalty": 5.0})
    here = goals(rest=[0.0, 0.0, 0.0])
    before = view(state(object_pos=[0.01, 0.0, 0.0], held_object=held), here)
    after = view(state(object_pos=[0.01 + moved, 0.0, 0.0], held_object=held), here)
    never = np.zeros(1, dtype=bool)
    free = dataclasses.replace(task, rolling_penalty=0.0)
    (_, unpaid), (_, paid) = (t.step(after, t.begin(before), never) for t in (free, task))
    assert unpaid.reward[0] - paid.reward[0] == pytest.approx(lost)
    assert bool(paid.success[0]) is bool(unpaid.success[0]) is (held < 0)


def test_it_is_remembered_from_step_to_step():
    task, never = make_task("place", options={"rolling_penalty": 5.0}), np.zeros(1, dtype=bool)
    seen = [view(state(object_pos=[0.01 * k, 0.0, 0.0]), goals()) for k in range(3)]
    progress = task.begin(seen[0])
    for k in (1, 2):
        progress, _ = task.step(seen[k], progress, never)
        np.testing.assert_allclose(progress.spot, [[0.01 * k, 0.0, 0.0]])


def test_teaching_charges_for_it():
    assert BOOK["place"].teaching["rolling_penalty"] == 5.0
