"""What the simulator door promises, checked on the MuJoCo engine in a small apartment."""

from __future__ import annotations

import dataclasses
import pickle

import mujoco
import numpy as np
import pytest

from tests.tpsrl.sim import small
from tpsrl.errors import UserError
from tpsrl.robot import fetch
from tpsrl.sim.mujoco import steps
from tpsrl.sim.mujoco.engine import MujocoSimulator
from tpsrl.sim.mujoco.nearby import keep, keep_all

GRIP, HOLD = 1.0, 1.0
IDLE = np.array([[0.0] * 7 + [-1.0, 0.0, 0.0]])


@pytest.fixture
def sim():
    with small.simulator() as engine:
        engine.reset([small.episode()], [0])
        yield engine


def hold_box(engine: MujocoSimulator) -> None:
    """Put the box under the cup and grasp it by contact."""
    state = engine.state()
    engine.set_object(0, state.ee_pos[0] - [0, 0, 0.0615], small.UPRIGHT)
    engine.set_arm(fetch.ARM_INIT)
    engine.set_object(0, engine.state().ee_pos[0] - [0, 0, 0.0615], small.UPRIGHT)
    small.run(engine, 2, grip=GRIP)
    assert engine.state().held_object[0] == 0


def test_shapes_follow_the_batch():
    with small.simulator(num_envs=2) as engine:
        engine.reset([small.episode("a"), small.episode("b")], [0, 1])
        state = engine.state()
        assert state.base_pose.shape == (2, 3)
        assert state.object_pos.shape == (2, 4, 3)
        assert state.joint_pos.shape == (2, 2)
        assert state.marker_pos.shape == (2, 2, 3)
        assert not np.allclose(state.marker_pos[0], state.marker_pos[1])
        engine.reset([small.episode("a")], [7], env_ids=[1])
        assert np.allclose(engine.state().marker_pos[0], engine.state().marker_pos[1])


def test_state_is_a_copy(sim):
    before = sim.state()
    frozen = dataclasses.replace(before, base_pose=before.base_pose.copy())
    small.run(sim, 5, forward=1.0)
    assert np.array_equal(before.base_pose, frozen.base_pose)


def test_arm_target_moves_by_the_contract(sim):
    before = sim.state().arm_target
    small.run(sim, 3, arm=1.0)
    assert np.allclose(sim.state().arm_target - before, 3 * 0.0125)
    small.run(sim, 3, arm=5.0)
    assert np.allclose(sim.state().arm_target - before, 6 * 0.0125), "actions are clipped to 1"


def test_arm_follows_its_target(sim):
    small.run(sim, 20, arm=0.5)
    small.run(sim, 60)
    state = sim.state()
    assert np.abs(state.arm_qpos - state.arm_target).max() < 0.01


def test_base_moves_by_the_contract(sim):
    sim.reset([small.episode(start=(0.0, 0.0, np.pi / 2))], [0])
    small.run(sim, 1, forward=0.5)
    assert np.allclose(sim.state().base_pose[0], [0, 0.5 / 12, np.pi / 2])
    small.run(sim, 1, turn=-1.0)
    assert sim.state().base_pose[0, 2] == pytest.approx(np.pi / 2 - 1 / 12)


def test_base_stays_in_free_space(sim):
    small.run(sim, 60, forward=1.0)  # towards the table
    x = sim.state().base_pose[0, 0]
    assert 1.2 - 0.5 - 0.3 - 0.05 < x <= 1.2 - 0.5 - 0.3 + 1e-9
    assert sim.scene().navigation.is_navigable(sim.state().base_pose[0, :2])


def test_objects_rest_and_nothing_drifts(sim):
    before = sim.state().object_pos[0]
    sim.settle(5.0)
    moved = np.linalg.norm(sim.state().object_pos[0] - before, axis=1)
    assert moved.max() < 0.01


def test_grasp_needs_contact(sim):
    small.run(sim, 5, grip=GRIP)
    assert sim.state().held_object[0] == -1
    hold_box(sim)


def test_held_object_follows_arm_and_base_until_released(sim):
    hold_box(sim)
    offset = np.linalg.norm(sim.state().object_pos[0, 0] - sim.state().ee_pos[0])
    small.run(sim, 20, grip=HOLD, forward=-1.0, turn=0.3, arm=0.3)
    state = sim.state()
    assert state.held_object[0] == 0
    assert np.linalg.norm(state.object_pos[0, 0] - state.ee_pos[0]) == pytest.approx(
        offset, abs=0.01
    )
    small.run(sim, 40, grip=-1.0)
    assert sim.state().held_object[0] == -1
    assert sim.state().object_pos[0, 0, 2] < 0.2, "a released object falls to the floor"


def test_hold_is_violated_when_the_object_is_torn_away(sim):
    hold_box(sim)
    pos = sim.state().object_pos[0, 0]
    sim.set_object(0, pos + [0.5, 0, 0.3], small.UPRIGHT)
    small.run(sim, 1, grip=HOLD)
    assert sim.state().hold_violation[0]
    assert sim.state().held_object[0] == -1


def test_snap_object(sim):
    sim.snap_object(1)
    small.run(sim, 10, grip=HOLD)
    state = sim.state()
    assert state.held_object[0] == 1
    assert np.linalg.norm(state.object_pos[0, 1] - state.ee_pos[0]) < 0.06


def grasp_handle(engine: MujocoSimulator, marker: str) -> int:
    """Bring the cup to a handle by teleport and grasp it; return its index."""
    index = engine.marker_names.index(marker)
    engine.set_base([[-0.8, 0.0, np.pi]])
    engine.set_arm([[0.0, -0.6, 0.0, 1.9, 0.0, -1.3, 0.0]])
    for _ in range(40):
        state = engine.state()
        reach = engine.state().marker_pos[0, index] - state.ee_pos[0]
        base = state.base_pose[0] + [reach[0], reach[1], 0.0]
        engine.set_base([base])
        if abs(reach[2]) < 0.005:
            break
        lift = -0.5 * reach[2]
        engine.set_arm(state.arm_qpos + [[0, lift, 0, 0, 0, -lift, 0]])
    small.run(engine, 2, grip=GRIP)
    assert engine.state().held_marker[0] == index
    return index


def test_drawer_is_pulled_by_its_handle(sim):
    grasp_handle(sim, "pull")
    joint = sim.joint_names.index("cabinet/drawer")
    for _ in range(40):
        small.run(sim, 1, grip=HOLD, forward=-0.15)
    assert sim.state().joint_pos[0, joint] > 0.35
    small.run(sim, 3, grip=-1.0)
    assert sim.state().held_marker[0] == -1


def test_joint_limits_hold(sim):
    grasp_handle(sim, "pull")
    small.run(sim, 80, grip=HOLD, forward=-0.15)
    assert sim.state().joint_pos[0, 0] <= sim.joint_ranges[0, 1] + 0.01


def test_set_joint_carries_the_drawer_s_content(sim):
    inside = sim.scene().receptacles["inside"]
    sim.set_object(3, inside.pos + [0, 0, 0.04], small.UPRIGHT)
    sim.settle(0.5)
    before = sim.state().object_pos[0, 3]
    sim.set_joint("cabinet/drawer", 0.4)
    assert sim.state().object_pos[0, 3] - before == pytest.approx([0.4, 0, 0], abs=1e-6)


def test_same_seed_same_trajectory(sim):
    def trajectory(seed: int) -> np.ndarray:
        sim.reset([small.episode(start=None)], [seed])
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(60):
            sim.step(rng.uniform(-1, 1, (1, 10)))
            state = sim.state()
            rows.append(np.concatenate([state.base_pose[0], state.arm_qpos[0], state.ee_pos[0]]))
        return np.array(rows)

    first = trajectory(3)
    assert np.array_equal(first, trajectory(3))
    assert not np.array_equal(first, trajectory(4))


@pytest.mark.parametrize("held", [False, True])
def test_capture_and_restore_repeat_bit_for_bit(held):
    with small.simulator(num_envs=2) as engine:
        engine.reset([small.episode("a"), small.episode("b")], [0, 1])
        if held:
            engine.snap_object(0)
        small.run(engine, 10, grip=HOLD if held else -1.0, forward=0.2, arm=0.2)
        saved = engine.capture(0)

        def future(env_id: int) -> np.ndarray:
            rng = np.random.default_rng(5)
            rows = []
            for i in range(80):
                action = rng.uniform(-1, 1, (2, 10))
                action[:] = action[0]
                action[:, 7] = HOLD if i < 40 else -1.0
                engine.step(action)
                state = engine.state()
                rows.append(
                    np.concatenate([state.object_pos[env_id].ravel(), state.arm_qpos[env_id]])
                )
            return np.array(rows)

        first = future(0)
        assert sum(v.nbytes for v in saved.data.values() if isinstance(v, np.ndarray)) < 20_000
        saved = pickle.loads(pickle.dumps(saved))
        engine.reset([small.episode("b"), small.episode("b")], [2, 3])
        engine.restore(saved, 0)
        engine.restore(saved, 1)
        assert np.array_equal(engine.state().object_pos[0], engine.state().object_pos[1])
        assert np.array_equal(first, future(1))


def test_what_is_left_out_of_the_broad_phase_touches_nothing():
    """Contacts of every step are those that MuJoCo finds among all bodies."""
    seen = 0
    with small.simulator() as engine:
        world = engine._worlds[0]
        rng = np.random.default_rng(0)
        for k in range(8):
            engine.reset([small.episode("ab"[k % 2], start=None)], [k])
            for _ in range(25):
                action = rng.uniform(-1, 1, 10)
                action[[7, 8]] = 1.0, abs(action[8])
                steps.begin(world.steps.table, world.near.table, action)
                near = [world.data.contact.geom.tolist(), world.data.contact.dist.tolist()]
                seen += world.data.ncon
                keep_all(world.near.table)
                other = mujoco.MjData(world.model)
                mujoco.mj_copyData(other, world.model, world.data)
                mujoco.mj_collision(world.model, other)
                assert near == [other.contact.geom.tolist(), other.contact.dist.tolist()]
                keep(world.near.table)
                steps.finish(world.steps.table, world.near.table)
    assert seen > 1000


def test_a_diverged_world_is_reset_reported_and_counted(sim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = sim.state().object_pos[0].copy()
    world = sim._worlds[0]
    world.data.qvel[:] = 1e6
    sim.step(IDLE)
    assert sim.state().diverged[0]
    assert sim.divergences == [{"episode_id": "e0", "layout": "a", "seed": 0, "step": 1}]
    assert not list(tmp_path.iterdir())  # no log file of MuJoCo's own
    assert np.allclose(sim.state().object_pos[0], good, atol=0.01)
    sim.step(IDLE)
    assert not sim.state().diverged[0]
    world.data.qpos[:] = np.nan
    sim.step(IDLE)
    assert sim.state().diverged[0] and len(sim.divergences) == 2


def test_an_object_that_is_flung_does_not_break_the_world(sim):
    world, limits = sim._worlds[0], np.repeat([steps.OBJECT_SPEED, steps.OBJECT_SPIN], 3)
    first = int(world.model.body_dofadr[world.object_bodies[0]])
    speeds = world.data.qvel[first : first + 6]
    speeds[:] = 300.0, 0.0, 0.0, 0.0, 9e3, 0.0
    sim.step(IDLE)
    assert not sim.state().diverged[0]
    assert (np.abs(speeds) <= limits).all()
    speeds[:] = 1.0, 0.0, 2.0, 0.0, 0.0, 20.0  # what may be is left alone
    before = sim.state().object_pos[0, 0].copy()
    sim.step(IDLE)
    assert sim.state().object_pos[0, 0, 0] - before[0] > 0.02


def test_pool_grows_for_an_episode_with_more_objects(sim):
    episode = small.episode()
    second = dataclasses.replace(
        episode.objects[0], instance="box_:0001", pos=np.array([1.5, 0.0, 0.812])
    )
    sim.reset([dataclasses.replace(episode, objects=(*episode.objects, second))], [0])
    sim.settle(1.0)
    assert np.allclose(sim.state().object_pos[0, 4], second.pos, atol=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layout": "c"}, "layout 'c', which"),
        ({"joints": {"cabinet/drawr": 0.1}}, "did you mean 'cabinet/drawer'"),
    ],
)
def test_bad_episodes_are_refused_by_name(sim, change, words):
    with pytest.raises(UserError, match=words):
        sim.reset([dataclasses.replace(small.episode(), **change)], [0])


def test_bad_calls_are_refused(sim):
    with pytest.raises(UserError, match="shape"):
        sim.step(np.zeros((2, 10)))
    with pytest.raises(UserError, match="NaN"):
        sim.step(np.full((1, 10), np.nan))
    with pytest.raises(UserError, match="renders no depth"):
        sim.depth()
    with pytest.raises(UserError, match="did you mean 'cabinet/door'"):
        sim.set_joint("cabinet/dor", 0.1)


def test_a_held_handle_does_not_press_on_the_cup(sim):
    grasp_handle(sim, "pull")
    forces = []
    for _ in range(30):
        small.run(sim, 1, grip=HOLD, forward=-0.15)
        forces.append(sim.state().force[0])
    assert max(forces) < 1.0
    small.run(sim, 1, grip=-1.0)
    sim.set_base(sim.state().base_pose + [[0.4, 0, 0]])
    small.run(sim, 2)
    saved = sim._worlds[0].suction
    assert saved._freed_markers == [], "clear of the handle, the cup collides with it again"


def test_a_can_on_its_side_rolls_and_comes_to_rest(sim):
    can, world = 1, sim._worlds[0]
    sim.set_object(can, np.array([-0.5, -1.5, 0.036]), np.array([np.sqrt(0.5), 0, np.sqrt(0.5), 0]))
    first = int(world.model.body_dofadr[world.object_bodies[can]])
    start = sim.state().object_pos[0, can].copy()
    world.data.qvel[first : first + 6] = 0.0, 0.4, 0.0, 0.0, 0.0, 0.0
    small.run(sim, 60)
    rolled = np.linalg.norm(sim.state().object_pos[0, can] - start)
    assert rolled > 0.1
    small.run(sim, 60)
    assert np.linalg.norm(sim.state().object_pos[0, can] - start) - rolled < 0.01
