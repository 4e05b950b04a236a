"""``spawn="near"``: a robot that cannot drive starts within reach, whatever stands around."""

from __future__ import annotations

import numpy as np
import pytest

from skills.book import BOOK
from skills.envs.config import EnvConfig
from skills.tasks import starts
from skills.tasks.starts import NoStartError
from tpsrl.robot import fetch


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_every_episode_has_a_start_within_reach(skill, monkeypatch):
    tried = []
    put = starts.put
    monkeypatch.setattr(starts, "put", lambda *args: tried.append(args) or put(*args))
    config = EnvConfig(depth=None, split="val", actions="restricted")
    worlds = config.worlds(skill, 1, None)
    far = []
    for index, episode in enumerate(worlds.starts.episodes[:24]):
        try:
            start = worlds.task.draw_start(worlds.sim, 0, episode, index, "near")
        except NoStartError as error:
            pytest.fail(f"episode {index} has no start: {error}")
        far.append(np.linalg.norm(start.goal.start_pose[:2] - worlds.task.about(start.goal)[:2]))
        assert not worlds.sim.robot_contacts(0)
    assert np.median(far) < 0.7 and max(far) < fetch.FARTHEST_REACH + 0.5
    assert len(tried) < 24 * 60
    worlds.sim.close()


def test_a_standing_teacher_knows_no_way_and_is_paid_for_none():
    args = {"depth": None, "reward": "teaching", "sensors": ("state", "seen", "course")}
    drives = EnvConfig(**args).task("pick")
    stands = EnvConfig(**args, actions="restricted").task("pick")
    assert {"way", "seen_way"} <= set(drives.sensors) - set(stands.sensors)
    assert (drives.needs_geodesic, stands.needs_geodesic) == ("course", "")
    assert drives.way > 0.0 == stands.way
    assert stands.distance_reward == drives.distance_reward > BOOK["pick"].task.distance_reward
    assert EnvConfig(**args, actions="restricted").task("navigate").needs_geodesic == "course"
