"""Arguments of environments that contradict each other, and quirks of the benchmark's own."""

import numpy as np
import pytest

from skills.book import make_task, sensor_sets
from skills.envs.config import EnvConfig
from skills.envs.single import SkillEnv
from tpsrl.errors import UserError


def test_starts_of_a_chain_are_asked_for_in_so_many_words(tmp_path):
    with pytest.raises(UserError, match="handoff= is used with start='handoff' only"):
        SkillEnv("pick", depth=None, handoff=str(tmp_path / "starts.npz"))
    with pytest.raises(UserError, match=r"handoff_fraction=1\.5; it is a share, 0 to 1"):
        SkillEnv("pick", depth=None, start="handoff", handoff="x.npz", handoff_fraction=1.5)


def test_habitat_shows_where_the_object_lay_when_the_episode_began():
    assert make_task("pick", contract="parity").frozen_start
    assert not make_task("pick").frozen_start
    env = SkillEnv("pick", depth=None, split="val", contract="parity", places=["drawer"])
    env.reset(seed=0)
    sim, call = env.sim, env.worlds.origins[0].call
    target = sim.episode(0).targets[call.target].object_index
    lay = np.array(sim.episode(0).objects[target].pos)
    opened = np.array(sim.state().joint_pos[0])
    for name, position in zip(sim.joint_names, opened, strict=True):
        if "drawer" in name and position > 0.1:
            sim.set_joint(name, 0.1)
    moved = np.array(sim.state().object_pos[0][target])
    assert np.linalg.norm(moved - lay) > 0.1  # the drawer took it along
    assert env.worlds.task.goal_for(sim, 0, call).object_start == pytest.approx(lay)
    fixed = make_task("pick").goal_for(sim, 0, call).object_start
    assert fixed == pytest.approx(moved)
    env.close()


def test_nobody_is_told_of_a_handle_that_habitat_does_not_show():
    assert "marker_rel_pos" not in make_task("open_cab", contract="parity").sensors
    assert sensor_sets("open_cab", "parity")["fine"] == ("resting_fine",)
    assert sensor_sets("open_cab")["fine"] == ("marker_fine", "resting_fine")
    asked = EnvConfig(contract="parity", sensors=("contract", "fine")).task("open_cab").sensors
    assert not any(name.startswith("marker") for name in asked)
