"""The compiled control step: what it reads of MuJoCo's contacts, and one call for many worlds."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from skills.envs.single import SkillEnv
from tests.tpsrl.sim import small
from tpsrl.compiled import compiled, compiled_later
from tpsrl.errors import UserError
from tpsrl.sim.door import Simulator
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.contacts import robot_overlap
from tpsrl.sim.mujoco.touch import force, overlap, touches


def test_contacts_are_those_that_python_reads():
    with small.simulator() as engine:
        world = engine._worlds[0]
        engine.reset([small.episode()], [0])
        engine.set_base([[1.75, -2.0, 0.0]])  # in front of the east wall
        engine.set_arm([[0.0, 0.3, 0.0, -0.2, 0.0, -0.1, 0.0]])
        table, seen = world.steps.table, 0
        rng = np.random.default_rng(1)
        for _ in range(25):
            engine.step(np.append(np.zeros(7), [-1.0, 1.0, rng.uniform(-1.0, 1.0)])[None])
            model, data = world.model, world.data
            mujoco.mj_forward(model, data)
            robot = world.index.robot_geom
            mine = [k for k in range(data.ncon) if robot[data.contact.geom[k]].any()]
            wrenches = np.zeros((len(mine) + 1, 6))
            for k, wrench in zip(mine, wrenches, strict=False):
                mujoco.mj_contactForce(model, data, k, wrench)
            assert touches(table) == bool(mine)
            assert overlap(table) == robot_overlap(data, world.index)
            assert force(table) == wrenches[:, 0].max()
            seen += force(table) > 0.0
        assert seen > 5


def test_ranges_of_all_worlds_are_those_of_each():
    with small.simulator(num_envs=3) as engine:
        with pytest.raises(UserError, match="call reset first"):
            engine.step(np.zeros((3, 10)))
        engine.reset([small.episode(name, start=None) for name in "aba"], [0, 1, 2])
        poses, angles = engine.state().base_pose, np.linspace(-2.0, 2.0, 23)
        ranges = engine.scan(poses, angles, 3.0)
        assert np.array_equal(ranges, Simulator.scan(engine, poses, angles, 3.0))
        assert ranges.min() > 0.0 and 0.1 < np.mean(ranges < 3.0) < 1.0


def test_compiled_functions_call_those_that_are_compiled_later():
    assert compiled(lambda x: _twice(x) + 1.0)(2.0) == 5.0 and _twice(4.0) == 8.0


@compiled_later
def _twice(x: float) -> float:
    return 2.0 * x


def test_what_presses_a_held_object_is_solved():
    """A step is the one that dense rows give; sparse rows are off by 52 m/s^2 in one of these."""
    with SkillEnv("place", depth=None, split="val", places=("drawer",)) as env:
        env.reset(seed=13)
        sim, rng, pressed = env.worlds.sim, np.random.default_rng(13), 0
        world = sim._worlds[0]
        dense = mujoco.MjData(world.model)
        for k in range(60):
            if k % 10 == 0:
                action = rng.uniform(-1.0, 1.0, (1, 10))
                action[:, 7] = 1.0
            small.step_beside_dense(sim, dense, action[0])
            model, data = world.model, world.data
            pressed += data.ncon > 0
            far = np.abs(data.qvel - dense.qvel)
            assert far.max() < 0.02 + 0.02 * np.abs(dense.qvel).max()
            assert world.suction.held_body >= 0 and model.opt.jacobian == native.AUTO
        assert pressed > 5
