"""What stays outside the furniture, however hard it comes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.tpsrl.sim import small
from tpsrl.scenes.kitchen import COUNTER, _columns, kitchen_counter
from tpsrl.sim.mujoco.engine import MujocoSimulator


@pytest.fixture(scope="module")
def kitchen() -> MujocoSimulator:
    """The small apartment with the real counter, its front at x = 1 m and facing -x."""
    counter, layout = kitchen_counter(), small.apartment().layouts["a"]
    where = {counter.name: (1.0 + COUNTER["depth"] / 2, 0.0, np.pi)}
    apartment = dataclasses.replace(
        small.apartment(),
        furniture=(counter,),
        layouts={"a": dataclasses.replace(layout, poses=where)},
    )
    pool = dict.fromkeys(small.types(), 1)
    return MujocoSimulator(1, apartment=apartment, types=small.types(), pool=pool)


@pytest.mark.parametrize("column", [2, 4], ids=["below the sink", "right end"])
def test_a_held_bowl_is_not_pressed_through_a_closed_front(kitchen, column):
    bowl = list(small.types()).index("bowl")
    y = -sum(_columns()[column]) / 2  # the counter faces -x here: its y runs the other way
    kitchen.reset([small.episode(start=(-1.2, y, 0.0))], [0])
    kitchen.set_arm([[0.0, 0.3, 0.0, 1.0, 0.0, 0.2, 0.0]])
    kitchen.snap_object(bowl)
    small.run(kitchen, 50, grip=1.0, forward=1.0)
    assert kitchen.state().ee_pos[0, 0] > 0.8, "it did drive against the front"
    small.run(kitchen, 60, grip=-1.0)
    assert kitchen.state().object_pos[0, bowl, 0] < 1.0
