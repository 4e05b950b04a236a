"""Starts that failed come again, until they succeed or have failed often."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from skills.book import BOOK
from skills.envs.again import MOST_FAILURES, FailedStarts
from skills.envs.batch import BatchSkillEnv
from skills.envs.config import EnvConfig
from skills.envs.single import SkillEnv
from tests.skills.envs.test_environments import shipped
from tpsrl.errors import UserError


def played(starts: FailedStarts, rounds: int, wins) -> dict[int, int]:
    """How often each start was played in one world; ``wins(seed, time)`` says how it ends."""
    counts: dict[int, int] = {}
    for k in range(rounds):
        seed = starts.draw(0, 10_000 + k)
        counts[seed] = counts.get(seed, 0) + 1
        assert starts.fresh[0] == (counts[seed] == 1)
        starts.note([0], [wins(seed, counts[seed])])
    return counts


def test_a_start_that_failed_comes_again_until_it_succeeds():
    counts = played(FailedStarts(0.5, 1), 4000, lambda seed, time: seed % 10 > 0 or time == 3)
    hard = [count for seed, count in counts.items() if seed % 10 == 0 and seed < 11_000]
    easy = [count for seed, count in counts.items() if seed % 10]
    assert set(easy) == {1} and set(hard) == {3}


def test_a_start_that_nobody_solves_is_let_go():
    counts = played(FailedStarts(0.9, 1), 3000, lambda seed, time: False)
    assert max(counts.values()) == MOST_FAILURES


def test_no_more_than_their_share_come_again():
    starts, rounds = FailedStarts(0.3, 1), 4000
    counts = played(starts, rounds, lambda seed, time: False)
    assert 1.0 - len(counts) / rounds == pytest.approx(0.3, abs=0.03)
    counts = played(FailedStarts(0.0, 1), 50, lambda seed, time: False)
    assert len(counts) == 50


def test_the_same_starts_come_again_after_a_break():
    starts, other = FailedStarts(0.5, 2), FailedStarts(0.5, 2)
    for k in range(40):
        for env_id in (0, 1):
            starts.draw(env_id, 2 * k + env_id)
        starts.note([0, 1], [k % 3 == 0, False])
    other.set_state(starts.get_state())
    assert [starts.draw(0, k) for k in range(90, 130)] == [other.draw(0, k) for k in range(90, 130)]


def test_an_environment_plays_a_failed_start_again_as_it_was():
    made = {"depth": None, "episodes": shipped("rearrange_easy"), "options": {"horizon": 2}}
    with contextlib.closing(BatchSkillEnv("pick", 2, again=0.5, **made)) as env:
        env.reset(seed=3)
        seen: dict[int, list[np.ndarray]] = {}
        for step in range(60):
            for i, origin in enumerate(env.worlds.origins):
                if step % 2 == 0:
                    start = np.asarray(env.worlds.view.state.base_pose)[i].copy()
                    seen.setdefault(origin.seed, []).append(start)
            if step == 31:
                state = env.get_state()
                env.set_state(state)
                assert env.get_state()["worlds"]["failed"] == state["worlds"]["failed"]
            env.step(np.zeros((2, 10)))
        again = [poses for poses in seen.values() if len(poses) > 1]
        assert 5 < len(again) < len(seen)
        assert all(np.array_equal(poses[0], pose) for poses in again for pose in poses)


@pytest.mark.parametrize("share", [-0.1, 1.0, 35])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UserError, match="again"):
        EnvConfig(depth=None, again=share).worlds("pick", 1, None)


def test_a_seed_that_is_asked_for_is_played_whatever_waits():
    made = {"depth": None, "episodes": shipped("rearrange_easy"), "options": {"horizon": 1}}
    with contextlib.closing(SkillEnv("pick", again=0.9, **made)) as env:
        env.reset(options={"seed": 99})
        env.step(np.zeros(10))  # fails
        for seed in (100, 101, 102, 103):
            assert env.reset(options={"seed": seed})[1]["seed"] == seed


def test_how_often_is_the_skill_s_own():
    made = {"depth": None, "episodes": shipped("rearrange_easy")}
    shares = {
        name: EnvConfig(again="auto", **made).worlds(name, 1, None)._failed.share
        for name in ("navigate", "place")
    }
    assert shares == {"navigate": 0.0, "place": BOOK["place"].again} and shares["place"] > 0
    with pytest.raises(UserError, match="again=often is 'auto' or a share"):
        EnvConfig(again="often", **made).worlds("place", 1, None)
