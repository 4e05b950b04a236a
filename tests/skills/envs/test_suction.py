"""Where a cup may suck without loss: near the box of its object, whose size is known."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from skills.book import BOOK, make_task
from tests.skills.envs.states import goals, state, view

TALL = [0.03, 0.08, 0.12]
UPRIGHT, FLAT = [1.0, 0.0, 0.0, 0.0], [math.cos(math.pi / 4), math.sin(math.pi / 4), 0.0, 0.0]


@pytest.mark.parametrize(
    ("at", "quat", "lost"),
    [
        ([0.0, 0.0, -0.16], UPRIGHT, 0.0),  # the cup is 0.04 m above its top
        ([0.0, 0.0, -0.18], UPRIGHT, 0.05),
        ([0.0, 0.0, -0.12], FLAT, 0.0),  # it lies on its side, which is 0.08 m high
        ([0.0, 0.0, -0.16], FLAT, 0.05),
        ([0.1, 0.0, 0.0], UPRIGHT, 0.05),  # 0.07 m beside its narrow side, 0.1 m from its middle
        ([0.0, 0.1, 0.0], UPRIGHT, 0.0),
        ([0.0, 0.1, 0.0], FLAT, 0.0),
        ([0.07, 0.12, -0.15], UPRIGHT, 0.05),  # beyond a corner
    ],
)
def test_a_cup_may_suck_near_the_box_of_its_object(at, quat, lost):
    task = make_task("pick", options={"suction_penalty": 0.05})
    rows = goals(target_size=TALL)
    seen = view(state(object_pos=at, object_quat=quat), rows)
    seen.told = np.array([[1.0, 0.0, 0.0]])
    begun, never = task.begin(seen), np.zeros(1, dtype=bool)
    free = dataclasses.replace(task, suction_penalty=0.0)
    unpaid, paid = (t.step(seen, begun, never)[1].reward[0] for t in (free, task))
    assert unpaid - paid == pytest.approx(lost)


def test_teaching_charges_for_it():
    assert BOOK["pick"].teaching["suction_penalty"] == 0.05
