"""Navigate near its goal where the goal cannot be reached: the stop is worth less, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from tests.skills.envs.test_environments import shipped


def test_who_stops_where_the_goal_cannot_be_reached_gains_less():
    """The same stop, near the goal and facing it: what it costs is the way that is left."""
    options = {"needs_geodesic": "course", "turn_reward": 0.0, "slack_reward": 0.0}
    free, taught = (
        SkillEnv(
            "navigate",
            depth=None,
            episodes=shipped("rearrange_easy"),
            options={**options, "distance_reward": 0.0, "left_penalty": penalty},
        )
        for penalty in (0.0, 5.0)
    )
    lost = []
    for seed in range(30):
        left = []
        for env in (free, taught):
            stopped = _stopped_near(env, seed)
            left.append((stopped[1], float(env.worlds.view.course[0, 0])))
            assert stopped[4]["success"]
        wanted = max(5.0 * (left[1][1] - 0.5), 0.0)
        assert left[0][0] - left[1][0] == pytest.approx(wanted, abs=1e-3)
        lost.append(wanted)
    assert min(lost) == 0.0 and max(lost) > 6.0
    free.close()
    taught.close()


def test_who_stops_where_the_goal_cannot_be_reached_has_not_arrived():
    """Near the goal and facing it, and the way on is longer than ``most_left``: no success."""
    options = {"needs_geodesic": "course", "most_left": 1.0, "failed_stop_ends": False}
    env = SkillEnv("navigate", depth=None, episodes=shipped("rearrange_easy"), options=options)
    arrived = set()
    for seed in range(30):
        info = _stopped_near(env, seed)[4]
        assert info["success"] == (float(env.worlds.view.course[0, 0]) <= 1.0)
        arrived.add(info["success"])
    assert arrived == {True, False}
    env.close()


def _stopped_near(env: SkillEnv, seed: int) -> tuple:
    """Return what a stop 1.4 m from the goal and facing it gives, from a side that differs."""
    env.reset(seed=seed)
    place = env.worlds.view.goal.position[0, :2]
    angle = 2.0 * np.pi * seed / 30
    spot = place + 1.4 * np.array([np.cos(angle), np.sin(angle)])
    env.sim.set_base(np.append(spot, angle + np.pi)[None])
    return env.step(np.array([0.0, 0.0, 1.0], np.float32))
