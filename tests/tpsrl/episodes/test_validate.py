"""Whether an episode fits the apartment."""

from dataclasses import replace

import numpy as np
import pytest

from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types

UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def apartment():
    return load_apartment()


@pytest.fixture
def episode(apartment):
    middle = np.array([*apartment.bounds.mean(axis=0), 0.5])
    can = RigidObject("002_master_chef_can", "002_master_chef_can_:0000", middle, UPRIGHT)
    goal = Target(0, middle, UPRIGHT, "any_targets|0", "", "")
    return Episode(
        "7",
        "tidy_house",
        sorted(apartment.layouts)[0],
        (can,),
        (goal,),
        joints={"fridge/top_door": 1.5},
        markers={"m": ("kitchen_counter/drawer3", np.zeros(3))},
    )


def refused(episode, apartment):
    with pytest.raises(UserError) as error:
        validate(episode, apartment, object_types())
    text = str(error.value)
    assert text.startswith("episode '7': field '")
    return text


def test_a_good_episode_passes(episode, apartment):
    validate(episode, apartment, object_types())


def test_unknown_object(episode, apartment):
    odd = replace(episode.objects[0], type="002_master_chef_cat")
    text = refused(replace(episode, objects=(odd,)), apartment)
    assert "unknown object '002_master_chef_cat'; did you mean '002_master_chef_can'" in text


@pytest.mark.parametrize("offset", [(100, 0, 0), (0, -100, 0), (0, 0, -1), (0, 0, 10)])
def test_object_outside_the_apartment(episode, apartment, offset):
    far = replace(episode.objects[0], pos=episode.objects[0].pos + offset)
    text = refused(replace(episode, objects=(far,)), apartment)
    assert "object '002_master_chef_can_:0000' lies at" in text
    assert "outside apartment" in text


def test_goal_outside_the_apartment(episode, apartment):
    far = replace(episode.targets[0], goal_pos=np.array([0.0, 99.0, 1.0]))
    assert "goal of '002_master_chef" in refused(replace(episode, targets=(far,)), apartment)


def test_unknown_layout(episode, apartment):
    text = refused(replace(episode, layout="sc3_staging_77"), apartment)
    assert "field 'scene_id' names layout 'sc3_staging_77'" in text
    assert "did you mean 'sc3_staging_" in text


def test_unknown_joint(episode, apartment):
    text = refused(replace(episode, joints={"fridge/topdoor": 1.0}), apartment)
    assert "unknown joint 'fridge/topdoor'; did you mean 'fridge/top_door'" in text


def test_joint_outside_its_range(episode, apartment):
    text = refused(replace(episode, joints={"kitchen_counter/drawer3": 2.0}), apartment)
    assert "'kitchen_counter/drawer3' at 2, outside its range 0 to 0.5" in text


def test_marker_on_an_unknown_joint(episode, apartment):
    markers = {"m": ("kitchen_counter/drawer9", np.zeros(3))}
    text = refused(replace(episode, markers=markers), apartment)
    assert "'m' on the unknown joint 'kitchen_counter/drawer9'" in text
