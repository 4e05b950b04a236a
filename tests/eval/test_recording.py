"""States of episodes: kept exactly, in little space, and shown as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eval.episode import run_episode
from eval.recording import Keeper, Recording, states_file
from eval.spec import evaluation_spec
from eval.words import spoken
from planner.chain.interface import AgentReport, SkillRecord
from planner.words.door import errand_for
from tpsrl.engines import make_stage
from tpsrl.episodes.shipped import load_shipped

EXACT = ("base_pose", "arm_qpos", "ee_pos", "object_pos", "object_quat", "joint_pos", "link_pos")


def test_states_are_shown_again_to_the_last_bit(tmp_path: Path) -> None:
    spec = evaluation_spec(scenario="set_table", agent="scripted", executor="replan", max_steps=400)
    episode = load_shipped("set_table", "val").episodes[0]
    kept, states = Recording(episode, spec.about), []

    with spec.simulator.build() as sim:

        def observe(sim, agent, step):
            kept.add(sim.state(), agent.report())
            states.append(sim.state())

        record = spec.job(0, episode).empty_record()
        agent, task = spec.agent.build(), spec.task.build(episode)
        run_episode(sim, agent, task, record, episode, spec.max_steps, observe)
    path = tmp_path / "states" / "x.npz"
    kept.save(path)
    assert path.stat().st_size < 150 * len(states) and list(path.parent.iterdir()) == [path]

    read = Recording.load(path)
    assert len(read) == len(states) == 401 and read.runs == agent.report().skills
    assert read.plans[0]["actions"] == agent.report().plan
    marks = [read.marks(step) for step in range(len(read))]
    assert [m.held for m in marks] == [int(s.held_object[0]) for s in states]
    assert [m.handle for m in marks] == [int(s.held_marker[0]) for s in states]
    assert max(m.handle for m in marks) >= 0, "the drawer is opened"
    assert np.array_equal(read.signals()[:, 0], np.array([s.force[0] for s in states], np.float32))
    with make_stage(None) as stage:
        stage.reset([read.episode], [0])
        for step in [*range(0, 401, 7), 3]:
            stage.place(read.poses(step))
            shown = stage.state()
            for name in EXACT:
                assert np.array_equal(getattr(shown, name), getattr(states[step], name)), name


def test_solids_stand_where_their_bodies_are() -> None:
    episode = load_shipped("tidy_house", "val").episodes[0]
    with make_stage(None) as stage:
        stage.reset([episode], [0])
        solids, poses = stage.solids(), stage.solid_poses()
        assert {solid.body for solid in solids} <= set(poses)
        assert {"walls", "floor", "fridge/top_door"} <= {solid.part for solid in solids}
        assert sum(body.startswith("object/") for body in poses) == len(episode.objects)
        for index, item in enumerate(episode.objects):
            assert np.allclose(poses[f"object/{index}"][:3], item.pos, atol=1e-6)
        for solid in solids:
            assert solid.faces.max() < len(solid.vertices) and len(solid.faces)


@pytest.mark.parametrize("mode,kept", [("failures", [1]), ("all", [0, 1]), ("none", [])])
def test_what_is_kept(mode: str, kept: list[int], tmp_path: Path) -> None:
    episode = load_shipped("tidy_house", "val").episodes[0]
    keeper = Keeper(tmp_path, mode)
    with make_stage(None) as stage:
        stage.reset([episode], [0])
        for index in range(2):
            recording = keeper.begin(episode, {})
            if recording is not None:
                recording.add(stage.state(), AgentReport(skills=[SkillRecord("wait", "wait()")]))
            keeper.end(recording, {"index": index, "success": index == 0})
    assert [k for k in range(2) if states_file(tmp_path, k).exists()] == kept


def test_two_targets_of_one_object_are_kept(tmp_path: Path) -> None:
    """A place to go to is a target of an object that lies there, here one that is moved, too."""
    episode = load_shipped("tidy_house", "val").episodes[1]
    errand = errand_for(episode, "go to the dining table, then tidy up")
    indices = [target.object_index for target in errand.targets]
    assert len(set(indices)) < len(indices)
    kept, path = Recording(errand, {}), tmp_path / "x.npz"
    with make_stage(None) as stage:
        stage.reset([errand], [0])
        kept.add(stage.state(), AgentReport())
    kept.save(path)
    read = Recording.load(path).episode
    assert [t.label for t in read.targets] == [t.label for t in errand.targets]
    for ours, theirs in zip(errand.targets, read.targets, strict=True):
        for name in ("object_index", "start_receptacle", "goal_receptacle"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert np.array_equal(ours.goal_pos, theirs.goal_pos)
        assert np.array_equal(ours.goal_quat, theirs.goal_quat)
    for target in errand.targets:
        action = f"place({target.label}, TARGET_{target.label})"
        assert spoken(action, read) == spoken(action, errand)


def test_a_report_that_builds_its_lists_anew_is_of_one_agent(tmp_path: Path) -> None:
    episode = load_shipped("tidy_house", "val").episodes[0]
    kept, path = Recording(episode, {}), tmp_path / "x.npz"
    with make_stage(None) as stage:
        stage.reset([episode], [0])
        state = stage.state()
        for step in range(300):
            runs = [SkillRecord("pick", f"pick({k})", 100) for k in range(1 + step // 100)]
            kept.add(state, AgentReport(["a", "b"], step // 150, runs))
        kept.add(state, AgentReport(["b"], 0, runs, 1, "it fell"))
        kept.add(state, AgentReport(["c"], 0, runs, 1, "there is another goal"))
        kept.hand_over()
        kept.add(state, AgentReport(["c"], 0, [SkillRecord("wait", "wait()")]))
    kept.save(path)
    read = Recording.load(path)
    told = [(plan["step"], plan["actions"], plan["why"]) for plan in read.plans]
    another = "there is another goal"
    assert told[:2] == [(0, ["a", "b"], ""), (300, ["b"], "it fell")]
    assert told[2:] == [(301, ["c"], another), (302, ["c"], another)]
    assert [run.action for run in read.runs] == ["pick(0)", "pick(1)", "pick(2)", "wait()"]
    assert [read.marks(step).run for step in (0, 99, 100, 301, 302)] == [0, 0, 1, 2, 3]


def test_marks_count_beyond_16_bits(tmp_path: Path) -> None:
    episode = load_shipped("tidy_house", "val").episodes[0]
    kept, path = Recording(episode, {}), tmp_path / "x.npz"
    with make_stage(None) as stage:
        stage.reset([episode], [0])
        kept.add(stage.state(), AgentReport(["a"], 0, [SkillRecord("w", "w()")] * 40_000))
    kept.save(path)
    assert Recording.load(path).marks(0).run == 39_999


def test_states_that_cannot_be_kept_are_a_warning(tmp_path: Path) -> None:
    """The agent reports a plan of other things than text: its episode counts all the same."""
    episode = load_shipped("tidy_house", "val").episodes[0]
    keeper = Keeper(tmp_path, "all")
    kept = keeper.begin(episode, {})
    assert kept is not None
    with make_stage(None) as stage:
        stage.reset([episode], [0])
        kept.add(stage.state(), AgentReport(plan=[object()]))  # type: ignore[list-item]
    with pytest.warns(UserWarning, match="states of episode 3 cannot be kept: TypeError"):
        keeper.end(kept, {"index": 3, "success": True})
    assert not list(tmp_path.rglob("*.npz"))
