"""A policy that stands still is stirred, one that moves is not."""

from __future__ import annotations

import numpy as np
import pytest

from skills.learned.restless import LASTS, WINDOW, Restless
from skills.tasks.layout import ARM_GRIP_BASE_STOP

MOVING = ARM_GRIP_BASE_STOP.moving
NOTHING = np.zeros(ARM_GRIP_BASE_STOP.size)


def play(steps: int, base_speed: float = 0.0, hand_speed: float = 0.0, seed: int = 0) -> np.ndarray:
    """Actions carried out where the policy wants nothing."""
    restless = Restless(MOVING)
    restless.reset(seed)
    ahead = np.array([1.0, 0.0, 0.0])
    return np.array(
        [
            stir(restless, t * base_speed * ahead, t * hand_speed * ahead, NOTHING)
            for t in range(steps)
        ]
    )


def stir(restless, base, hand, action):
    restless.feel(base, hand)
    return restless.stir(action)


def test_motions_of_what_stands_still_are_stirred_and_nothing_else():
    done = play(WINDOW + LASTS)
    assert not done[:WINDOW].any()
    assert np.abs(done[WINDOW:, MOVING]).max(axis=1).min() > 0.05
    assert not done[:, ~MOVING].any()
    assert np.abs(done).max() <= 1.0


@pytest.mark.parametrize("speeds", [(0.01, 0.0), (0.0, 0.01)])
def test_what_moves_is_left_alone(speeds):
    assert not play(60, *speeds).any()


def test_it_ends_some_steps_after_motion_has_begun_again():
    restless, done = Restless(MOVING), []
    for t in range(80):
        base = np.array([max(t - 20, 0) * 0.05, 0.0, 0.0])
        done.append(stir(restless, base, np.zeros(3), NOTHING).any())
    assert done[20] and not any(done[25 + LASTS :])


def test_turning_across_the_seam_is_no_jump_and_the_seed_decides():
    restless = Restless(MOVING)
    yaws = np.pi - 0.001 * np.arange(40) * (-1) ** np.arange(40)
    yaws = (yaws + np.pi) % (2 * np.pi) - np.pi
    stirred = [stir(restless, np.array([0, 0, yaw]), np.zeros(3), NOTHING).any() for yaw in yaws]
    assert all(stirred[WINDOW:])
    np.testing.assert_array_equal(play(40, seed=3), play(40, seed=3))
    assert (play(40, seed=3) != play(40, seed=4)).any()


def test_who_has_failed_before_moves_with_noise_all_along_up_to_a_bound():
    spread = []
    for failed_before in range(4):
        restless = Restless(MOVING)
        restless.reset(1, failed_before)
        hands = 0.05 * np.arange(400)[:, None] * np.eye(3)[2]  # moves on: it is never at rest
        done = [stir(restless, np.zeros(3), hand, NOTHING) for hand in hands]
        assert not np.array(done)[:, ~MOVING].any()
        spread.append(np.array(done)[:, MOVING].std())
    assert spread[0] == 0.0
    np.testing.assert_allclose(spread[1:], [0.3, 0.55, 0.55], atol=0.05)


def test_noise_is_small_enough_to_be_driven_over():
    """Its mean is nothing: a policy that wants to move gets where it wants to."""
    done = np.concatenate([play(200, seed=seed)[WINDOW:, MOVING] for seed in range(20)])
    assert abs(done.mean()) < 0.03
    assert 0.4 < done.std() < 0.7
