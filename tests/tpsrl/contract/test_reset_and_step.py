"""Reset to an episode, sizes of a step, shapes and ranges of what is observed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.tpsrl.contract.engines import DEPTH, START, Engine, episode
from tpsrl.errors import UserError
from tpsrl.robot import fetch
from tpsrl.robot.kinematics import ArmKinematics
from tpsrl.sim.door import SimState, Simulator

IDLE = np.array([[0.0] * 7 + [-1.0, 0.0, 0.0]])


def run(sim: Simulator, steps: int, **parts: float) -> None:
    """Repeat one action: arm (all joints), grip, forward, turn."""
    action = np.zeros((sim.num_envs, 10))
    action[:, :7] = parts.get("arm", 0.0)
    action[:, 7] = parts.get("grip", -1.0)
    action[:, 8], action[:, 9] = parts.get("forward", 0.0), parts.get("turn", 0.0)
    for _ in range(steps):
        sim.step(action)


def test_names_and_sizes_agree(sim: Simulator) -> None:
    joints, markers = len(sim.joint_names), len(sim.marker_names)
    assert len(set(sim.joint_names)) == joints > 0 and len(set(sim.marker_names)) == markers > 0
    assert sim.joint_ranges.shape == (joints, 2)
    assert np.all(sim.joint_ranges[:, 0] < sim.joint_ranges[:, 1])
    assert len(sim.marker_joints) == markers
    assert set(sim.marker_joints) <= set(range(joints))
    assert sim.marker_joints[sim.marker_names.index("fridge_push_point")] == sim.joint_names.index(
        "fridge/top_door"
    )
    assert sim.info.control_hz == 30 and sim.info.version


def test_state_has_the_promised_shapes_and_types(sim: Simulator) -> None:
    state = sim.state()
    n, o, j = sim.num_envs, len(episode().objects), len(sim.joint_names)
    shapes = {
        "base_pose": (n, 3), "arm_qpos": (n, 7), "arm_qvel": (n, 7), "arm_target": (n, 7),
        "ee_pos": (n, 3), "ee_quat": (n, 4), "held_object": (n,), "held_marker": (n,),
        "hold_violation": (n,), "object_pos": (n, o, 3), "object_quat": (n, o, 4),
        "joint_pos": (n, j), "link_pos": (n, j, 3), "link_quat": (n, j, 4),
        "marker_pos": (n, len(sim.marker_names), 3), "force": (n,), "force_sum": (n,),
        "step_count": (n,), "diverged": (n,),
    }  # fmt: skip
    assert set(shapes) == {f.name for f in dataclasses.fields(SimState)}
    kinds = {"held_object": "i", "held_marker": "i", "step_count": "i"}
    kinds |= {"hold_violation": "b", "diverged": "b"}
    for name, shape in shapes.items():
        value = np.asarray(getattr(state, name))
        assert value.shape == shape, name
        assert value.dtype.kind == kinds.get(name, "f"), name
        assert value.dtype.itemsize in (1, 8), name
    for name in ("ee_quat", "object_quat", "link_quat"):
        quat = np.asarray(getattr(state, name))
        assert np.allclose(np.linalg.norm(quat, axis=-1), 1.0, atol=1e-4), name
        assert np.all(quat[..., 0] >= 0.0), name


def test_reset_puts_everything_where_the_episode_says(sim: Simulator) -> None:
    state, wanted = sim.state(), episode()
    assert state.base_pose[0] == pytest.approx(START, abs=0.01)
    for index, item in enumerate(wanted.objects):
        off = np.linalg.norm(state.object_pos[0, index] - item.pos)
        assert off < 0.01, item.instance
        assert abs(np.dot(state.object_quat[0, index], item.quat)) > 0.999, item.instance
    assert np.abs(state.joint_pos[0]).max() < 0.01
    assert np.abs(state.arm_qpos[0] - fetch.ARM_INIT).max() < 6 * fetch.ARM_INIT_NOISE
    assert state.held_object[0] == state.held_marker[0] == -1
    assert state.step_count[0] == 0 and state.force_sum[0] == 0.0
    assert sim.episode().episode_id == wanted.episode_id


def test_reset_opens_what_the_episode_opens(sim: Simulator) -> None:
    joints = {"fridge/top_door": 1.5, "kitchen_counter/drawer3": 0.45}
    sim.reset([dataclasses.replace(episode(), joints=joints)], [0])
    state = sim.state()
    for name, value in joints.items():
        assert state.joint_pos[0, sim.joint_names.index(name)] == pytest.approx(value, abs=0.01)


def test_end_effector_is_where_the_joints_put_it(sim: Simulator) -> None:
    kinematics = ArmKinematics()
    for offset in (0.0, 0.25, -0.3):
        qpos = fetch.ARM_INIT + offset
        sim.set_arm(qpos[None])
        state = sim.state()
        pos = kinematics.forward(state.arm_qpos[0]).pos
        c, s = np.cos(state.base_pose[0, 2]), np.sin(state.base_pose[0, 2])
        turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ pos
        expected = turned + [state.base_pose[0, 0], state.base_pose[0, 1], 0.0]
        assert np.linalg.norm(state.ee_pos[0] - expected) < 0.01


def test_the_start_is_drawn_from_the_seed(sim: Simulator, kind: Engine) -> None:
    def start(seed: int) -> np.ndarray:
        sim.reset([episode(start=None)], [seed])
        state = sim.state()
        assert sim.scene().navigation.is_navigable(state.base_pose[0, :2])
        assert not sim.robot_contacts()
        return np.concatenate([state.base_pose[0], state.arm_qpos[0]])

    first, again, other = start(3), start(3), start(4)
    assert np.allclose(first, again, atol=0.0 if kind.exact else 1e-5)
    assert np.abs(first - other).max() > 0.01


def test_arm_targets_move_by_the_contract(sim: Simulator) -> None:
    before = sim.state().arm_target
    run(sim, 3, arm=1.0)
    assert np.allclose(sim.state().arm_target - before, 3 * fetch.ARM_DELTA, atol=1e-5)
    run(sim, 2, arm=-7.0)
    assert np.allclose(sim.state().arm_target - before, fetch.ARM_DELTA, atol=1e-5), "clipped to 1"
    assert sim.state().step_count[0] == 5


def test_the_arm_follows_its_targets(sim: Simulator) -> None:
    run(sim, 20, arm=0.5)
    run(sim, 60)
    state = sim.state()
    assert np.abs(state.arm_qpos - state.arm_target).max() < 0.06


@pytest.mark.parametrize(("forward", "turn"), [(1.0, 0.0), (-0.5, 0.0), (0.0, 1.0), (0.3, -0.5)])
def test_the_base_moves_by_the_contract(sim: Simulator, forward: float, turn: float) -> None:
    run(sim, 2, forward=forward, turn=turn)
    step = forward * fetch.BASE_DELTA_LINEAR
    yaw = turn * fetch.BASE_DELTA_ANGULAR
    # Each step drives along the heading that it began with.
    headings = START[2] + np.array([0.0, yaw])
    drive = [step * np.cos(headings).sum(), step * np.sin(headings).sum()]
    expected = START + [*drive, 2 * yaw]
    assert sim.state().base_pose[0] == pytest.approx(expected, abs=2e-3)


def test_the_base_stays_in_free_space(sim: Simulator) -> None:
    for _ in range(8):
        run(sim, 15, forward=1.0)
        assert sim.scene().navigation.is_navigable(sim.state().base_pose[0, :2])
        run(sim, 10, turn=1.0)


def test_a_blocked_base_stops_where_it_is(sim: Simulator) -> None:
    run(sim, 100, forward=1.0)
    stopped = sim.state().base_pose[0]
    run(sim, 5, forward=1.0)
    assert np.linalg.norm(sim.state().base_pose[0] - stopped) < 0.02
    assert np.linalg.norm(stopped[:2] - START[:2]) < 8.0
    run(sim, 3, forward=-1.0)
    assert np.linalg.norm(sim.state().base_pose[0, :2] - stopped[:2]) > 0.2, "it can go back"


def test_depth_has_the_promised_shape_range_and_meaning(sim: Simulator) -> None:
    depth = np.asarray(sim.depth())
    assert depth.shape == (sim.num_envs, DEPTH, DEPTH, 1) and depth.dtype == np.float32
    assert depth.min() >= 0.0 and depth.max() <= 1.0 and depth.std() > 0.005
    # Straight down the picture's middle the camera of this contract sees the floor.
    forward = fetch.HEAD_CAMERA_TARGET - fetch.HEAD_CAMERA_POSITION
    pitch = np.arctan2(-forward[2], np.hypot(*forward[:2]))
    lowest = pitch + np.arctan((DEPTH - 1) / DEPTH)
    ray = fetch.HEAD_CAMERA_POSITION[2] / np.sin(lowest)
    floor = ray * np.cos(lowest - pitch)
    sides = depth[0, -1, [1, -2], 0] * 10.0
    assert np.abs(sides - floor).min() < 0.05


def _ahead(x: float, y: float, z: float) -> np.ndarray:
    c, s = np.cos(START[2]), np.sin(START[2])
    return np.array([START[0] + c * x - s * y, START[1] + s * x + c * y, z])


def test_depth_shows_motion_of_the_base_at_once_and_of_objects_in_time(sim: Simulator) -> None:
    before = np.array(sim.depth())
    run(sim, 1, turn=1.0)
    turned = np.array(sim.depth())
    run(sim, 1)
    assert np.abs(turned - before).mean() > 10 * np.abs(np.array(sim.depth()) - turned).mean()
    sim.reset([episode()], [0])
    sim.set_object(0, _ahead(1.3, 0.5, 1.0), np.array([1.0, 0.0, 0.0, 0.0]))
    sim.step(IDLE)
    high = np.array(sim.depth())
    assert np.abs(high - before).max() > 0.05, "it shows the object where the step began"
    run(sim, 30)
    assert np.abs(np.array(sim.depth()) - high).max() > 0.05, "and later where it fell to"


@pytest.mark.parametrize("camera", ["third_person", "head", "arm", "overview"])
def test_pictures(sim: Simulator, camera: str) -> None:
    picture = sim.render(camera, width=160, height=120)
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
    assert picture.std() > 5.0


def test_bad_input_is_refused_in_one_sentence(sim: Simulator) -> None:
    for actions in (np.zeros((2, 10)), np.zeros((1, 9)), np.full((1, 10), np.nan)):
        with pytest.raises(UserError):
            sim.step(actions)
    with pytest.raises(UserError, match="sc9"):
        sim.reset([dataclasses.replace(episode(), layout="sc9_staging_00")], [0])
    with pytest.raises(UserError, match="fridge/tp_door"):
        sim.set_joint("fridge/tp_door", 0.1)
    thing = dataclasses.replace(episode().objects[0], type="999_thing")
    with pytest.raises(UserError, match="999_thing"):
        sim.reset([dataclasses.replace(episode(), objects=(thing,), targets=())], [0])
    sim.reset([episode()], [0])
    sim.step(IDLE)


def test_two_worlds_are_independent(kind: Engine) -> None:
    if not kind.many:
        pytest.skip("this engine has one world in a simulator")
    with kind.make(2) as sim:
        sim.reset([episode(), episode()], [0, 1])
        sim.set_joint("fridge/top_door", 1.0, env_ids=[1])
        action = np.repeat(IDLE, 2, axis=0)
        action[0, 8] = 1.0
        sim.step(action)
        state = sim.state()
        door = sim.joint_names.index("fridge/top_door")
        assert state.joint_pos[0, door] == pytest.approx(0.0, abs=0.01)
        assert state.joint_pos[1, door] == pytest.approx(1.0, abs=0.02)
        assert state.base_pose[1] == pytest.approx(START, abs=1e-6)
        sim.reset([episode()], [0], env_ids=[1])
        assert sim.state().joint_pos[1, door] == pytest.approx(0.0, abs=0.01)
        assert list(sim.state().step_count) == [1, 0]


def test_closing_twice_is_harmless(kind: Engine) -> None:
    sim = kind.make(1)
    sim.reset([episode()], [0])
    sim.close()
    sim.close()
