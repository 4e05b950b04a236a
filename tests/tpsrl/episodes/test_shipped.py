"""The sets that ship with tpsrl fit the scenes as they are now."""

import numpy as np
import pytest

from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.generation.rules import scenario_names
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.mujoco.engine import MujocoSimulator

SIZES = {"in_drawer": 50, "in_fridge": 50}


@pytest.fixture(scope="module")
def sim():
    with MujocoSimulator(1, depth=None) as sim:
        yield sim


@pytest.mark.parametrize("name", scenario_names())
def test_shipped_episodes_are_valid_and_at_rest(sim, name):
    """Fails after a change of the scenes: make the sets anew, see docs/episodes.md."""
    episodes = load_shipped(name)
    assert len(episodes) == SIZES.get(name, 100)
    apartment, kinds = load_apartment(), object_types()
    for e in episodes:
        assert e.scenario == name
        validate(e, apartment, kinds)
    for e in episodes.episodes[:21]:  # every val layout once
        sim.reset([e], [0])
        sim.settle(0.3)
        moved = sim.state().object_pos[0, : len(e.objects)] - [o.pos for o in e.objects]
        assert np.linalg.norm(moved, axis=1).max() < 0.01, e.episode_id


def test_what_is_not_shipped_is_named():
    with pytest.raises(UserError, match="unknown scenario 'tidy'; did you mean 'tidy_house'"):
        load_shipped("tidy")
    with pytest.raises(UserError, match="no 'train' episodes of 'tidy_house' come with tpsrl"):
        load_shipped("tidy_house", "train")
