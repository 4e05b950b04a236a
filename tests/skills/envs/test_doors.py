"""An open door that the skill reaches behind: moving it is progress lost."""

from __future__ import annotations

import numpy as np
import pytest

from skills.envs.single import SkillEnv
from skills.interface import SkillCall
from skills.tasks.state import set_row
from tests.skills.nets import STATE
from tpsrl.geometry.rotations import rotation_matrix


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


@pytest.mark.parametrize("front", [False, True])
def test_who_drives_to_an_open_fridge_must_not_push_its_door(front):
    env = SkillEnv("navigate", **STATE, sensors=("state", "course"), reward="teaching")
    env.reset(seed=0)
    worlds, task = env.worlds, env.worlds.task
    name = next(n for n in env.sim.joint_names if "fridge" in n)
    env.sim.set_joint(name, 1.5, [0])
    if front:
        call = SkillCall("navigate", joint=name, place="front")
    else:
        pos, rotation = env.sim.scene(0).link_rest[name]
        inside = np.mean(env.sim.scene(0).containers[name], axis=0)
        item = env.sim.episode(0).targets[0].object_index
        point = pos + rotation_matrix(np.asarray(rotation)) @ inside
        env.sim.set_object(item, point, np.array([1.0, 0.0, 0.0, 0.0]))
        call = SkillCall("navigate", target=0, place="start")
    row = worlds._rows[0] = task.goal_for(env.sim, 0, call)
    assert env.sim.joint_names[row.container] == name
    set_row(worlds._goals, 0, row)
    worlds._distances.begin(env.sim, 0, row)
    lengths = []
    for joint in (1.5, 1.3, 1.8):
        env.sim.set_joint(name, joint, [0])
        worlds._look()
        lengths.append(float(task.begin(worlds.view).distance[0]))
    edge = task.shut * np.linalg.norm(row.door[2:4] - row.door[:2])
    moved = np.subtract(lengths[1:], lengths[0])
    np.testing.assert_allclose(moved, edge * np.array([0.2, 0.3]), atol=1e-6)
    env.close()


def test_who_drives_to_the_handle_itself_may_push_its_door():
    env = SkillEnv("navigate", **STATE, sensors=("state", "course"), reward="teaching")
    env.reset(seed=0)
    name = next(n for n in env.sim.joint_names if "fridge" in n)
    env.sim.set_joint(name, 1.5, [0])
    row = env.worlds.task.goal_for(env.sim, 0, SkillCall("navigate", joint=name))
    assert row.container == -1 and not row.door.any()
    env.close()


@pytest.mark.parametrize("sensors", [None, ("state",), ("contract", "course")])
def test_it_does_not_matter_what_else_is_observed(sensors):
    env = SkillEnv("place", **STATE, sensors=sensors, reward="teaching", places=("cabinet",))
    env.reset(seed=0)
    worlds = env.worlds
    row = worlds._rows[0]
    assert row.container >= 0 and row.door.any()
    before = float(worlds.task.begin(worlds.view).distance[0])
    wide = float(env.sim.state().joint_pos[0, row.container])
    env.sim.set_joint(env.sim.joint_names[row.container], wide - 0.5, [0])
    worlds._look()
    lost = float(worlds.task.begin(worlds.view).distance[0]) - before
    edge = np.linalg.norm(row.door[2:4] - row.door[:2])
    assert lost == pytest.approx(worlds.task.shut * edge * 0.5, abs=1e-6)
    env.close()
