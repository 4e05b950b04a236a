"""Grasp and release, hold violation, articulation, capture and restore, success thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from planner.chain.predicates import HabTask, SymbolicWorld
from skills.tasks.tolerances import OBJECT_AT
from tests.tpsrl.contract.engines import UPRIGHT, Engine, episode, object_index
from tests.tpsrl.contract.test_reset_and_step import run
from tpsrl.geometry.rotations import rotation_matrix
from tpsrl.robot import fetch
from tpsrl.scenes.objects import object_types
from tpsrl.sim.door import Simulator

BOX = "003_cracker_box"


def hold_box(sim: Simulator) -> int:
    """Put a box under the cup, grasp it by contact and return its index."""
    index = object_index(BOX)
    half = object_types()[BOX].half_size
    sim.set_arm(fetch.ARM_INIT[None])
    # The cup points down and forward here; 1 mm of overlap makes the contact.
    ee = sim.state().ee_pos[0]
    for gap in np.arange(0.004, -0.02, -0.002):
        sim.set_object(index, ee - [0.0, 0.0, half[2] + gap], UPRIGHT)
        run(sim, 1, grip=1.0)
        if sim.state().held_object[0] == index:
            return index
    raise AssertionError("contact of the cup with the box did not become a grasp")


def test_a_grasp_needs_contact(sim: Simulator) -> None:
    run(sim, 5, grip=1.0)
    assert sim.state().held_object[0] == -1
    hold_box(sim)


def test_a_held_object_comes_along_until_it_is_released(sim: Simulator) -> None:
    index = hold_box(sim)
    offset = np.linalg.norm(sim.state().object_pos[0, index] - sim.state().ee_pos[0])
    run(sim, 20, grip=1.0, forward=0.3, turn=0.3, arm=-0.2)
    state = sim.state()
    assert state.held_object[0] == index
    distance = np.linalg.norm(state.object_pos[0, index] - state.ee_pos[0])
    assert distance == pytest.approx(offset, abs=0.03)
    run(sim, 60, grip=-1.0)
    assert sim.state().held_object[0] == -1
    assert sim.state().object_pos[0, index, 2] < 0.2, "a released object falls to the floor"


def test_what_is_let_go_lands_on_articulated_furniture(sim: Simulator) -> None:
    index, half = object_index(BOX), object_types()[BOX].half_size[2]
    place = sim.scene(0).receptacles["counter_left"]
    rotation = rotation_matrix(place.quat)
    top = place.pos + rotation @ (place.center - [0.0, 0.0, place.half_size[2]])
    base, reach = sim.state().base_pose[0], sim.state().ee_pos[0]
    ahead = float(np.hypot(*(reach - [*base[:2], 0.0])[:2]))
    yaw = np.arctan2(-rotation[1, 0], -rotation[0, 0])
    sim.set_base(np.array([[*(top[:2] - ahead * np.array([np.cos(yaw), np.sin(yaw)])), yaw]]))
    sim.snap_object(index, pose=np.array([*top[:2], top[2] + half + 0.03, *UPRIGHT]))
    sim.release()
    sim.settle(0.5)
    rest = sim.state().object_pos[0, index]
    assert rest[2] == pytest.approx(top[2] + half, abs=0.01)
    assert np.linalg.norm(rest[:2] - top[:2]) < 0.05


def test_snap_holds_and_teleports_carry(sim: Simulator) -> None:
    index = object_index(BOX)
    sim.snap_object(index)
    assert sim.state().held_object[0] == index
    sim.set_base(np.array([[0.4, 0.2, -2.5]]))
    state = sim.state()
    assert state.base_pose[0] == pytest.approx([0.4, 0.2, -2.5], abs=1e-3)
    assert np.linalg.norm(state.object_pos[0, index] - state.ee_pos[0]) < fetch.HOLD_THRESHOLD
    run(sim, 10, grip=1.0)
    assert sim.state().held_object[0] == index
    sim.release()
    assert sim.state().held_object[0] == -1


def test_snap_to_a_pose_holds_the_object_there(sim: Simulator) -> None:
    index = object_index(BOX)
    sim.snap_object(index)
    state = sim.state()
    half = np.sqrt(0.5)
    wanted = np.array([*(state.object_pos[0, index] + [0.02, 0.03, 0.0]), half, 0.0, 0.0, half])
    sim.snap_object(index, pose=wanted)
    state = sim.state()
    assert state.held_object[0] == index
    assert state.object_pos[0, index] == pytest.approx(wanted[:3], abs=1e-3)
    assert state.object_quat[0, index] == pytest.approx(wanted[3:], abs=1e-3)
    gap = np.linalg.norm(state.object_pos[0, index] - state.ee_pos[0])
    run(sim, 10, grip=1.0, forward=0.3)
    state = sim.state()
    assert state.held_object[0] == index
    now = np.linalg.norm(state.object_pos[0, index] - state.ee_pos[0])
    assert now == pytest.approx(gap, abs=0.02)


def test_a_hold_is_violated_when_the_object_is_torn_away(sim: Simulator) -> None:
    index = hold_box(sim)
    sim.set_object(index, sim.state().object_pos[0, index] + [0.6, 0.0, 0.3], UPRIGHT)
    run(sim, 1, grip=1.0)
    state = sim.state()
    assert state.hold_violation[0] and state.held_object[0] == -1
    run(sim, 1)
    assert not sim.state().hold_violation[0]


def test_objects_are_put_together_as_one_by_one(sim: Simulator) -> None:
    before, wanted = sim.state(), [0, 1]
    pos = before.object_pos[0, wanted] + [[0.0, 0.0, 0.4], [0.1, 0.0, 0.5]]
    quat = np.array([[0.6, 0.0, 0.0, 0.8], [1.0, 0.0, 0.0, 0.0]])
    sim.set_objects(wanted, pos, quat)
    after = sim.state()
    assert after.object_pos[0, wanted] == pytest.approx(pos, abs=1e-3)
    assert np.abs((after.object_quat[0, wanted] * quat).sum(1)) == pytest.approx(1.0, abs=1e-4)
    assert after.object_pos[0, 2:] == pytest.approx(before.object_pos[0, 2:], abs=1e-3)
    one_by_one = after.object_pos[0, wanted].copy()
    for row, index in enumerate(wanted):
        sim.set_object(index, pos[row], quat[row])
    assert sim.state().object_pos[0, wanted] == pytest.approx(one_by_one, abs=1e-6)


def test_handles_move_with_their_joints(sim: Simulator) -> None:
    marker = sim.marker_names.index("cab_push_point_5")
    joint = sim.joint_names.index("kitchen_counter/drawer3")
    before = sim.state()
    sim.set_joint("kitchen_counter/drawer3", 0.4)
    after = sim.state()
    assert after.joint_pos[0, joint] == pytest.approx(0.4, abs=1e-3)
    pulled = after.marker_pos[0, marker] - before.marker_pos[0, marker]
    assert np.linalg.norm(pulled) == pytest.approx(0.4, abs=0.01)
    assert pulled == pytest.approx(after.link_pos[0, joint] - before.link_pos[0, joint], abs=0.01)
    yaw = sim.scene().furniture_pose["kitchen_counter"][2]
    assert pulled[:2] / 0.4 == pytest.approx([np.cos(yaw), np.sin(yaw)], abs=0.02), "to its front"


def test_a_door_turns_about_its_hinge(sim: Simulator) -> None:
    joint = sim.joint_names.index("fridge/top_door")
    marker = sim.marker_names.index("fridge_push_point")
    rest_pos, _ = sim.scene().link_rest["fridge/top_door"]
    before = sim.state().marker_pos[0, marker]
    sim.set_joint("fridge/top_door", 1.2)
    state = sim.state()
    assert np.linalg.norm(state.link_pos[0, joint] - rest_pos) < 0.01, "the hinge stays"
    arms = before - rest_pos, state.marker_pos[0, marker] - rest_pos
    angle = np.arccos(arms[0][:2] @ arms[1][:2] / np.prod([np.hypot(*a[:2]) for a in arms]))
    assert angle == pytest.approx(1.2, abs=0.02)
    turned = 2 * np.arccos(np.clip(abs(np.dot(state.link_quat[0, joint], _rest_quat(sim))), 0, 1))
    assert turned == pytest.approx(1.2, abs=0.02)


def _rest_quat(sim: Simulator) -> np.ndarray:
    return np.asarray(sim.scene().link_rest["fridge/top_door"][1])


def test_joints_stay_in_their_ranges(sim: Simulator) -> None:
    for name, (low, high) in zip(sim.joint_names, sim.joint_ranges, strict=True):
        sim.set_joint(name, high if name != "fridge/bottom_door" else low)
    sim.settle(1.0)
    joints = sim.state().joint_pos[0]
    assert np.all(joints >= sim.joint_ranges[:, 0] - 0.02)
    assert np.all(joints <= sim.joint_ranges[:, 1] + 0.02)


def test_a_drawer_carries_what_lies_in_it(sim: Simulator) -> None:
    bowl = episode().targets[0].object_index
    sim.settle(0.5)
    before = sim.state().object_pos[0, bowl]
    sim.set_joint("kitchen_counter/drawer3", 0.3)
    moved = sim.state().object_pos[0, bowl] - before
    assert np.linalg.norm(moved) == pytest.approx(0.3, abs=0.02)


def test_objects_rest_where_the_episode_puts_them(sim: Simulator) -> None:
    before = sim.state().object_pos[0]
    sim.settle(2.0)
    moved = np.linalg.norm(sim.state().object_pos[0] - before, axis=1)
    assert np.median(moved) < 0.01 and moved.max() < 0.05


def test_captured_states_come_back(sim: Simulator, kind: Engine) -> None:
    sim.snap_object(object_index(BOX))
    sim.set_joint("fridge/top_door", 0.7)
    run(sim, 5, grip=1.0, forward=0.2, arm=0.2)
    saved, there = sim.capture(), sim.state()

    def future() -> np.ndarray:
        rng = np.random.default_rng(5)
        rows = []
        for step in range(30):
            action = rng.uniform(-1.0, 1.0, (1, 10))
            action[:, 7] = 1.0 if step < 20 else -1.0
            sim.step(action)
            state = sim.state()
            rows.append(np.concatenate([state.base_pose[0], state.arm_qpos[0], state.ee_pos[0]]))
        return np.array(rows)

    first = future()
    sim.reset([episode()], [9])
    sim.restore(saved)
    back = sim.state()
    for name in ("base_pose", "arm_qpos", "arm_target", "object_pos", "joint_pos", "ee_pos"):
        a, b = np.asarray(getattr(there, name)), np.asarray(getattr(back, name))
        assert np.allclose(a, b, atol=0.0 if kind.exact else 1e-3), name
    assert back.held_object[0] == there.held_object[0]
    assert back.step_count[0] == there.step_count[0]
    assert np.allclose(first, future(), atol=0.0 if kind.exact else 0.02)


def test_contact_of_the_robot_is_noticed_and_measured(sim: Simulator) -> None:
    assert not sim.robot_contacts()
    run(sim, 10)
    assert sim.state().force[0] == pytest.approx(0.0, abs=1.0)
    index = object_index(BOX)
    elbow = sim.state().base_pose[0, :2] + [0.1, 0.0]
    sim.set_object(index, np.array([*elbow, 0.3]), UPRIGHT)
    assert sim.robot_contacts()


def test_an_arm_driven_into_furniture_is_felt(sim: Simulator, kind: Engine) -> None:
    sim.set_arm(np.array([[0.0, 0.3, 0.0, -0.2, 0.0, -0.1, 0.0]]))
    largest = 0.0
    for _ in range(60):
        run(sim, 1, forward=1.0)
        largest = max(largest, float(sim.state().force[0]))
    assert largest > 20.0
    assert largest < 500.0 or not kind.gives_way


def test_success_has_the_benchmark_s_thresholds(sim: Simulator) -> None:
    task, wanted = HabTask("set_table"), episode()
    world = SymbolicWorld(sim, 0)
    assert not task.success(sim, 0)
    for target in wanted.targets:
        sim.set_object(target.object_index, target.goal_pos, target.goal_quat)
    assert task.success(sim, 0)
    first = wanted.targets[0]
    for off, yes in ((OBJECT_AT - 0.02, True), (OBJECT_AT + 0.02, False)):
        sim.set_object(first.object_index, first.goal_pos + [0.0, 0.0, off], first.goal_quat)
        assert task.success(sim, 0) is yes
    sim.set_joint("kitchen_counter/drawer3", 0.36)
    assert world.joint("cab_push_point_5") > 0.35
    sim.set_joint("kitchen_counter/drawer3", 0.0)
    sim.snap_object(first.object_index)
    assert world.held_target() == 0
