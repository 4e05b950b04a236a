"""Variants of demonstrations."""

from __future__ import annotations

import numpy as np
import pytest

from skills.superseded.imitation.augment import check_mirror, mirrored, shifted, varied
from skills.superseded.imitation.demonstrations import Demonstration
from tpsrl.errors import UserError


def _episode(steps: int = 4, **others: np.ndarray) -> Demonstration:
    rng = np.random.default_rng(0)
    seen = {
        "head_depth": rng.random((steps, 6, 8, 1)).astype(np.float16),
        "goal_to_agent_gps_compass": rng.normal(size=(steps, 2)).astype(np.float32),
        "joint": rng.normal(size=(steps, 7)).astype(np.float32),
        **others,
    }
    actions = rng.uniform(-1, 1, (steps, 3)).astype(np.float32)
    ones = np.ones(steps, np.float32)
    return Demonstration(seen, actions, ones, ones, True, "success", 0, "e")


def test_what_is_on_the_left_is_turned_to_on_the_left():
    episode = _episode()
    other = mirrored(episode)
    name = "goal_to_agent_gps_compass"
    np.testing.assert_array_equal(other.actions, episode.actions * [1, -1, 1])
    np.testing.assert_array_equal(other.observations[name], episode.observations[name] * [1, -1])
    before, after = episode.observations["head_depth"], other.observations["head_depth"]
    np.testing.assert_array_equal(after[:, :, 0], before[:, :, -1])
    again = mirrored(other)
    np.testing.assert_array_equal(again.actions, episode.actions)
    np.testing.assert_array_equal(again.observations["head_depth"], before)


def test_a_shift_moves_every_picture_alike_and_repeats_the_edge():
    episode = _episode()
    before = episode.observations["head_depth"]
    after = shifted(episode, 2, -1).observations["head_depth"]
    np.testing.assert_array_equal(after[:, :-1, 2:], before[:, 1:, :-2])
    np.testing.assert_array_equal(after[:, :-1, 0], before[:, 1:, 0])
    assert after.dtype == before.dtype


def test_without_variation_the_episode_stays_what_it_is():
    episode = _episode()
    same = varied(episode, np.random.default_rng(0), 0.0, 0)
    assert same is episode
    assert not np.array_equal(
        varied(episode, np.random.default_rng(0), 1.0, 0).actions, episode.actions
    )


def test_other_skills_are_refused():
    with pytest.raises(UserError, match="obj_goal_sensor"):
        check_mirror(_episode(obj_goal_sensor=np.zeros((4, 3), np.float32)))
