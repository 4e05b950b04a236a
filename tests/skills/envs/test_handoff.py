"""Start states from chains: written, read, put back; damaged files are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from eval.arrivals import arrivals, summary_lines
from skills.book import BOOK
from skills.envs.single import SkillEnv
from skills.envs.starts import beginnings
from skills.interface import SkillCall
from skills.tasks.handoff import (
    StartRecorder,
    apply_start,
    capture_start,
    is_sound,
    read_starts,
    write_starts,
)
from tests.tpsrl.sim.small import episode, simulator
from tpsrl.errors import UserError
from tpsrl.robot.fetch import RESET_ARM_TARGET


def _worked(sim) -> None:
    """Something has happened: driven, drawer open, arm moved, object 1 pushed away."""
    sim.reset([episode()], [0])
    sim.set_joint("cabinet/drawer", 0.4)
    sim.set_object(1, np.array([1.2, 0.2, 0.81]), np.array([1.0, 0, 0, 0]))
    for _ in range(10):
        sim.step(np.array([[1, -1, 0.5, 0, 0, 0, 0, -1, -1.0, 0.5]]))


@pytest.mark.parametrize("held", [-1, 0])
def test_round_trip(tmp_path, held):
    with simulator() as sim:
        _worked(sim)
        if held >= 0:
            sim.snap_object(held)
            tilted = [*(sim.state().object_pos[0, held] + [0.01, 0.02, 0.0]), 0.8, 0.6, 0.0, 0.0]
            sim.snap_object(held, pose=tilted)
        before = sim.state()
        start = capture_start(sim, 0, SkillCall("place" if held == 0 else "pick", target=0))
        write_starts(tmp_path / "starts.npz", [start, start])
        assert [p.name for p in tmp_path.iterdir()] == ["starts.npz"]
        loaded = read_starts(tmp_path / "starts.npz")
        assert len(loaded) == 2 and loaded[0].call == start.call
        sim.reset([episode("b")], [5])
        apply_start(sim, 0, loaded[1], seed=9)
        after = sim.state()
        names = [item.instance for item in sim.episode().objects]
    for name in ("base_pose", "arm_qpos", "joint_pos", "ee_pos"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-6)
    order = [names.index(item.instance) for item in episode().objects]
    assert order != sorted(order)  # the file orders objects by name
    np.testing.assert_allclose(after.object_pos[0, order], before.object_pos[0], atol=1e-6)
    np.testing.assert_allclose(after.object_quat[0, order], before.object_quat[0], atol=1e-6)
    assert after.held_object[0] == (-1 if held < 0 else order[held])
    assert sim.episode().layout == "a"


def test_a_held_target_is_wanted_where_it_lay():
    with simulator() as sim:
        sim.reset([episode()], [0])
        index = sim.episode().targets[0].object_index
        origin, goal = sim.episode().objects[index].pos, sim.episode().targets[0].goal_pos
        sim.set_object(index, np.array([1.2, 0.2, 0.81]), np.array([1.0, 0, 0, 0]))
        lies = BOOK["navigate"].task.goal_for(sim, 0, SkillCall("navigate", 0, "start"))
        np.testing.assert_allclose(lies.position, [1.2, 0.2, 0.81], atol=1e-6)
        sim.snap_object(index)
        for skill, place, wanted in (
            ("navigate", "start", origin),
            ("place", "start", origin),
            ("navigate", "goal", goal),
            ("place", None, goal),
        ):
            row = BOOK[skill].task.goal_for(sim, 0, SkillCall(skill, 0, place))
            np.testing.assert_allclose(row.position, wanted)


def test_the_front_of_a_container_is_before_its_handle():
    with simulator() as sim:
        sim.reset([episode()], [0])
        joint = "cabinet/drawer"
        j = sim.joint_names.index(joint)
        handle = sim.state().marker_pos[0, sim.marker_joints.index(j)]
        row = BOOK["navigate"].task.goal_for(sim, 0, SkillCall("navigate", None, "front", joint))
        sim.set_joint(joint, 0.2)
        pulled = sim.state().marker_pos[0, sim.marker_joints.index(j)] - handle
        np.testing.assert_allclose(row.position - handle, 1.5 * pulled / 0.2, atol=1e-6)
        again = BOOK["navigate"].task.goal_for(sim, 0, SkillCall("navigate", None, "front", joint))
        np.testing.assert_allclose(again.position, row.position + pulled, atol=1e-6)


def test_arrivals_are_measured_from_what_the_skill_is_about():
    joint = "cabinet/drawer"
    with simulator() as sim:
        sim.reset([episode()], [0])
        handle = sim.state().marker_pos[0, sim.marker_joints.index(sim.joint_names.index(joint))]
        front = BOOK["navigate"].task.goal_for(sim, 0, SkillCall("navigate", None, "front", joint))
        ahead = (front.position - handle)[:2] / 1.5
        left = np.array([-ahead[1], ahead[0]])
        spot = handle[:2] + 0.9 * ahead + 0.2 * left
        yaw = np.arctan2(-ahead[1], -ahead[0])
        sim.set_base([[*spot, yaw]])
        sim.set_arm([RESET_ARM_TARGET + 0.3 * np.eye(7)[2]])
        starts = [capture_start(sim, 0, SkillCall("open_cab", joint=joint))]
        row = arrivals(sim, starts)["open_cab"][0]
    angle = np.degrees(np.arctan2(0.2, 0.9))
    np.testing.assert_allclose(row, [np.hypot(0.9, 0.2), angle, 0.3, 0.9, 0.2], atol=1e-3)
    assert summary_lines({"open_cab": row[None]})[0].startswith("open_cab (1): distance 0.92 0.92")


def test_environment_begins_at_handoff_starts(tmp_path):
    path = tmp_path / "starts.npz"
    with simulator() as sim:
        starts = []
        for k in range(3):
            _worked(sim)
            sim.set_base([[-0.3 * k, 0.2, 0.1 * k]])
            starts.append(capture_start(sim, 0, SkillCall("pick", target=0)))
        write_starts(path, starts)
        env = SkillEnv("pick", simulator=sim, depth=None, start="handoff", handoff=path)
        poses = set()
        for seed in range(12):
            observation, info = env.reset(seed=seed)
            poses.add(tuple(np.round(sim.state().base_pose[0], 6)))
            assert info["episode_id"] == "e0" and observation["is_holding"][0] == 0
            assert np.isclose(sim.state().joint_pos[0].max(), 0.4, atol=0.01)
        assert len(poses) == 3
        other = tmp_path / "others.npz"
        _worked(sim)
        sim.set_base([[0.3, -0.2, 0.0]])
        write_starts(other, [capture_start(sim, 0, SkillCall("pick", target=0))])
        both = SkillEnv("pick", simulator=sim, depth=None, start="handoff", handoff=[path, other])
        assert len(both.worlds.starts.starts) == 4
        with pytest.raises(UserError, match="no start state of the skill 'place'"):
            SkillEnv("place", simulator=sim, depth=None, start="handoff", handoff=path)


def test_a_chain_of_skills_is_recorded(tmp_path):
    from planner.chain.tpsrl import TpsrlAgent
    from skills.book import make_skill
    from tpsrl.episodes.habitat_json import load_episodes
    from tpsrl.provide import find_episodes
    from tpsrl.sim.mujoco.engine import MujocoSimulator

    problem = load_episodes(find_episodes("tidy_house", "val")).episodes[0]
    recorder = StartRecorder()
    agent = TpsrlAgent(recorder.wrap(make_skill))
    with MujocoSimulator(depth=None) as sim:
        sim.reset([problem], [0])
        agent.reset(sim, 0, problem, 0)
        for _ in range(1500):
            action = agent.act(sim, 0)
            if action is None or len(recorder.starts) >= 4:
                break
            sim.step(action[None])
        write_starts(tmp_path / "starts.npz", recorder.starts)
        skills = [s.call.skill for s in recorder.starts]
        assert skills[:3] == ["navigate", "pick", "navigate"] and len(skills) >= 4
        for name in ("pick", "navigate"):
            env = SkillEnv(
                name, simulator=sim, depth=None, start="handoff", handoff=tmp_path / "starts.npz"
            )
            for seed in range(3):
                env.reset(seed=seed)
                start = recorder.starts[1] if name == "pick" else None
                if start is not None:
                    here = sim.state().base_pose[0]
                    np.testing.assert_allclose(here, start.base_pose, atol=1e-9)
                    assert env.worlds.view.goal.target[0] >= 0
                env.step(env.action_space.sample())


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_starts(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(UserError, match=r"text\.npz"):
        read_starts(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(UserError, match=r"other\.npz"):
        read_starts(tmp_path / "other.npz")
    with pytest.raises(UserError, match="no start states"):
        write_starts(tmp_path / "empty.npz", [])
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(UserError, match="single array"):
        read_starts(tmp_path / "one.npy")
    with simulator() as sim:
        _worked(sim)
        start = capture_start(sim, 0, SkillCall("pick", target=0))
        strange = dataclasses.replace(start, joint_names=("stove/door", "cabinet/door"))
        with pytest.raises(UserError, match="stove/door"):
            apply_start(sim, 0, strange, 0)


def _far(values, index=0):
    values = values.copy()
    values.reshape(-1)[index] = 1e300
    return values


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: {"call": SkillCall("pick", target=99)}, "call.target' is 99"),
        (lambda s: {"call": SkillCall("pick")}, "no target for pick"),
        (lambda s: {"call": SkillCall("navigate", joint="x/y")}, "call.joint"),
        (lambda s: {"call": SkillCall("wait", target=0)}, "call.skill' is wait"),
        (lambda s: {"object_pos": _far(s.object_pos)}, "object_pos.*beyond reason"),
        (lambda s: {"object_pos": s.object_pos + 60.0}, "too far from the robot"),
        (lambda s: {"object_quat": 2 * s.object_quat}, "no rotation"),
        (lambda s: {"base_pose": s.base_pose * np.nan}, "base_pose.*NaN"),
        (lambda s: {"arm_qpos": s.arm_qpos + 3.0}, "limits of the arm"),
        (lambda s: {"held_object": 7}, "held_object=7"),
    ],
)
def test_starts_that_cannot_be_are_refused(tmp_path, change, words):
    with simulator() as sim:
        _worked(sim)
        start = capture_start(sim, 0, SkillCall("pick", target=0))
    write_starts(tmp_path / "s.npz", [start, dataclasses.replace(start, **change(start))])
    with pytest.raises(UserError, match=rf"s\.npz.*{words}"):
        read_starts(tmp_path / "s.npz")


def test_what_was_flung_away_is_known_before_it_is_written():
    with simulator() as sim:
        _worked(sim)
        start = capture_start(sim, 0, SkillCall("pick", target=0))
    assert is_sound(start)
    for pos in (start.object_pos + [0.0, 0.0, -40.0], start.object_pos * np.nan):
        assert not is_sound(dataclasses.replace(start, object_pos=pos))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: {"base_pose": s.base_pose + [500.0, 0.0, 0.0]}, "start_position.*outside"),
        (lambda s: {"joint_pos": s.joint_pos + 9.0}, "outside"),
    ],
)
def test_starts_outside_the_apartment_are_refused(change, words):
    with simulator() as sim:
        _worked(sim)
        start = capture_start(sim, 0, SkillCall("pick", target=0))
        with pytest.raises(UserError, match=words):
            apply_start(sim, 0, dataclasses.replace(start, **change(start)), 0)


def test_what_is_tried_again_and_again_is_kept_so_often():
    again, other = SkillCall("pick", target=0), SkillCall("pick", target=1)
    with simulator() as sim:
        sim.reset([episode()], [0])
        for tries, kept in ((0, [0, 0, 1, 0]), (2, [0, 0, 1]), (1, [0, 1])):
            recorder = StartRecorder(tries=tries)
            for call in (again, again, other, again):
                recorder.note(sim, 0, call)
            assert [start.call.target for start in recorder.starts] == kept


def test_place_begins_with_its_own_object_only(tmp_path):
    """An empty hand, or one that holds another object, is what Pick did."""
    call, file = SkillCall("place", target=0), tmp_path / "starts.npz"
    with simulator() as sim:
        sim.reset([episode()], [0])
        own = sim.episode().targets[0].object_index
        empty = capture_start(sim, 0, call)
        sim.snap_object(own)
        right = capture_start(sim, 0, call)
    other = dataclasses.replace(right, held_object=next(k for k in range(3) if k != own))
    write_starts(
        file, [empty, right, other, dataclasses.replace(empty, call=SkillCall("pick", target=0))]
    )
    found, left_out = beginnings([file], "place")
    assert len(found) == 1 and left_out == 2
    read = found[0].episode
    assert found[0].held_object == read.targets[0].object_index >= 0
    assert beginnings([file], "pick")[1] == 0
    write_starts(file, [empty, other])
    with pytest.raises(UserError, match="'place' at which its object is in the hand"):
        SkillEnv("place", start="handoff", handoff=file)
