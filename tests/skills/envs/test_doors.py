"""An open door that the skill reaches behind: moving it is progress lost."""

from __future__ import annotations

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from tests.skills.nets import STATE


def test_who_shuts_the_door_that_it_reaches_behind_is_farther_away():
    words = {"sensors": ("state", "course"), "reward": "teaching", "places": ("cabinet",)}
    env = SkillEnv("place", **STATE, **words)
    for seed in range(3):
        env.reset(seed=seed)
        worlds = env.worlds
        row = worlds._rows[0]
        before = float(worlds.task.begin(worlds.view).distance[0])
        name, wide = env.sim.joint_names[row.container], env.sim.state().joint_pos[0, row.container]
        lengths = []
        for joint in (wide, wide - 0.1, wide - 0.4):
            env.sim.set_joint(name, joint, [0])
            worlds._look()
            lengths.append(float(worlds.task.begin(worlds.view).distance[0]))
        assert lengths[0] == pytest.approx(before)
        edge = worlds.task.shut * np.linalg.norm(row.door[2:4] - row.door[:2])
        np.testing.assert_allclose(
            np.subtract(lengths[1:], before), edge * np.array([0.1, 0.4]), atol=1e-6
        )
    env.close()
