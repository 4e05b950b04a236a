"""Arguments of environments that contradict each other, and quirks of the benchmark's own."""

import numpy as np
import pytest

from skills.book import make_task, sensor_sets
from skills.envs.batch import BatchSkillEnv
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dept": 32}, r"has no argument 'dept'; did you mean 'depth'"),
        ({"depth": "64"}, r"depth='64' cannot be used; give pixels, 1 or more"),
        ({"depth": -4}, r"depth=-4 cannot be used"),
        ({"depth": 0}, r"depth=0 cannot be used"),
        ({"depth": True}, r"depth=True cannot be used"),
        ({"again": None}, r"again=None cannot be used; give 'auto', or a share"),
        ({"sensors": 5}, r"sensors=5 cannot be used; give names of sensors"),
        ({"options": None}, r"options=None cannot be used; give a mapping"),
        ({"episodes": 3}, r"episodes=3 cannot be used; give a file"),
        ({"options": {"horizon": "abc"}}, r"skill 'pick': option horizon='abc' cannot be used"),
        ({"options": {"haste": True}}, r"option haste=True cannot be used; give a number"),
        ({"options": {"max_force": "no"}}, r"give a number, or None"),
    ],
)
@pytest.mark.parametrize("make", [SkillEnv, BatchSkillEnv])
def test_arguments_of_another_kind_are_named(make, given, said):
    with pytest.raises(UserError, match=said):
        make("pick", **given)


def test_arguments_of_the_right_kind_are_taken():
    given = {"depth": np.int64(64), "places": "drawer", "again": 0, "sensors": ["joint"]}
    assert EnvConfig.of(given).check("pick").sensors == ("joint",)
    options = {"horizon": np.int64(9), "max_force": None, "haste": 1}
    assert EnvConfig.of({"options": options}).check("pick").horizon == 9
    options = {"start": [0.1, 0.2], "suction": True, "joint_name": "fridge/top_door"}
    assert EnvConfig.of({"options": options}).check("close_cab").suction
    with pytest.raises(UserError, match=r"start=\[0.1\] cannot be used; give a list of two"):
        EnvConfig.of({"options": {"start": [0.1]}}).check("close_cab")
