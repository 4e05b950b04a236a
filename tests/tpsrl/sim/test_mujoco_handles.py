"""What lies in a drawer stays there as its handle is grasped."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from tests.tpsrl.sim import small
from tpsrl.episodes.types import Episode, RigidObject
from tpsrl.scenes.description import Layout
from tpsrl.scenes.geometry import receptacle_box
from tpsrl.scenes.kitchen import kitchen_counter
from tpsrl.scenes.objects import object_types
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.engine import MujocoSimulator

BOWL, DRAWER, HANDLE = "024_bowl", "drawer_right_top", "cab_push_point_5"


def kitchen() -> MujocoSimulator:
    """The real counter facing -x, a bowl in its closed drawer, and the cup before the handle."""
    counter = kitchen_counter()
    layout = Layout("a", "train", {counter.name: (1.0, 0.0, np.pi)})
    apartment = dataclasses.replace(small.apartment(), furniture=(counter,), layouts={"a": layout})
    # With as few degrees of freedom as one bowl has, MuJoCo would take dense rows by itself.
    types = {BOWL: object_types()[BOWL]}
    sim = MujocoSimulator(apartment=apartment, types=types, pool={BOWL: 24}, depth=None)
    inside = receptacle_box(apartment, layout, DRAWER)
    low = inside.center + [0.0, 0.0, types[BOWL].half_size[2] - inside.half_size[2]]
    bowl = RigidObject(BOWL, "b", low, small.UPRIGHT, DRAWER)
    start = np.array([-0.6, inside.center[1], 0.0])
    sim.reset([Episode("e", "", "a", (bowl,), (), start=start)], [0])
    sim.set_arm([[0.0, -0.6, 0.0, 1.9, 0.0, -1.3, 0.0]])
    handle = sim.marker_names.index(HANDLE)
    for _ in range(40):
        state = sim.state()
        reach = state.marker_pos[0, handle] - state.ee_pos[0]
        lift = -0.5 * reach[2]
        sim.set_base([state.base_pose[0] + [reach[0], reach[1], 0.0]])
        sim.set_arm(state.arm_qpos + [[0, lift, 0, 0, 0, -lift, 0]])
    return sim


def test_a_step_with_a_handle_in_the_cup_is_that_of_dense_rows() -> None:
    """Sparse rows now and then throw what lies in the drawer through the counter."""
    pull = np.zeros(10)
    pull[[7, 8]] = 1.0, -0.3
    with kitchen() as sim:
        small.run(sim, 3, grip=1.0)
        world = sim._worlds[0]
        assert world.suction.held_marker == sim.marker_names.index(HANDLE)
        model, data = world.model, world.data
        assert model.nv > 60 and model.opt.jacobian == native.AUTO
        dense, touching = mujoco.MjData(model), 0
        for _ in range(30):
            small.step_beside_dense(sim, dense, pull)
            touching += data.ncon > 0
            far = np.abs(data.qvel - dense.qvel)[3:]  # the base is put where it was driven
            assert far.max() < 1e-6
        assert touching > 20, "the bowl touches the drawer that comes out"
        assert sim.state().joint_pos.max() > 0.1
