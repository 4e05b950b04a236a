from __future__ import annotations

import json
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from eval.camera import Follower
from eval.overlay import running_target, target_boxes
from eval.video import VideoWriter, record_episode
from eval.words import plain_name, reason, spoken
from planner.chain.interface import AgentReport, SkillRecord
from planner.words.grammar import GoalReader
from planner.words.lexicon import lexicon
from tests.eval.real import spec
from tpsrl.cli import main
from tpsrl.errors import UserError
from tpsrl.provide import load_scenario_episodes
from tpsrl.scenes.objects import object_types


def frames_of(path: Path) -> tuple[dict, np.ndarray]:
    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    width, height = meta["size"]
    frames = [np.frombuffer(raw, np.uint8).reshape(height, width, 3) for raw in reader]
    return meta, np.stack(frames)


def test_writer_makes_ordinary_h264_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.mp4"
    with VideoWriter(path, 64, 48) as writer:
        for level in range(30):
            writer.write(np.full((48, 64, 3), 8 * level, np.uint8))
    meta, frames = frames_of(path)
    assert meta["codec"] == "h264" and meta["pix_fmt"].startswith("yuv420p")
    assert meta["fps"] == 30 and len(frames) == 30
    means = frames.mean(axis=(1, 2, 3))
    assert np.all(np.diff(means) > 4) and list(path.parent.iterdir()) == [path]


def test_failed_recording_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), VideoWriter(tmp_path / "x.mp4", 64, 48) as writer:
        writer.write(np.zeros((48, 64, 3), np.uint8))
        raise RuntimeError("planned")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the video"):
        VideoWriter(tmp_path / "file" / "x.mp4")
    with pytest.raises(UserError, match=r"must end in \.mp4"):
        VideoWriter(tmp_path / "x.avi")


def test_running_target_is_read_from_action_or_plan() -> None:
    episode = load_scenario_episodes("tidy_house", count=1)[0]
    labels = [target.label for target in episode.targets]
    place = f"place({labels[2]}, TARGET_{labels[2]})"
    report = AgentReport(plan=[f"nav({labels[1]})", place], cursor=1)
    report.skills = [SkillRecord("reset_arm", "reset_arm()")]
    assert running_target(episode, report) == 2
    report.skills = [SkillRecord("pick", f"pick({labels[4]})")]
    assert running_target(episode, report) == 4
    assert running_target(episode, AgentReport()) is None
    positions = np.array([item.pos for item in episode.objects])
    boxes = target_boxes(episode, 4, positions)
    goal = episode.targets[4].goal_pos
    assert sum(np.allclose(box[0], goal) for box in boxes) == 1
    assert len(boxes) == 2 + sum(
        np.linalg.norm(positions[t.object_index] - t.goal_pos) > 0.15
        for t in (*episode.targets[:4], *episode.targets[5:])
    )


def test_episode_video_in_the_real_engine(tmp_path: Path) -> None:
    episode = load_scenario_episodes("tidy_house", count=1)[0]
    out = tmp_path / "x.mp4"
    record = record_episode(spec(steps=40, depth=128), episode, 0, out, speed=4)
    assert record.end == "stop" and record.steps == 40
    _, frames = frames_of(out)
    assert len(frames) == 40 // 4 + 1 + 60
    assert frames.shape[1:] == (720, 1280, 3)
    # The picture moves, the panel beside it is dark, the end says how it ended below the robot.
    assert np.abs(frames[0, :, :960].astype(int) - frames[10, :, :960]).mean() > 3
    assert np.median(frames[5, :, 970:]) < 60
    bottom = frames[[10, -1], 665:715, 5:200].mean(axis=(1, 2, 3))
    assert bottom[1] < 0.6 * bottom[0]
    atoms = [out.read_bytes().find(name) for name in (b"moov", b"mdat")]
    assert 0 < atoms[0] < atoms[1], "a browser could not begin before the end has come"


def test_the_camera_finds_a_place_from_which_the_robot_is_seen() -> None:
    episode = load_scenario_episodes("set_table", count=1)[0]
    with spec().simulator.build() as sim:
        sim.reset([episode], [0])
        free, follower = sim.scene(0).navigation, Follower()
        rng = np.random.default_rng(0)
        for number in range(12):
            x, y = free.sample(rng)
            sim.set_base([x, y, rng.uniform(-np.pi, np.pi)])
            view = follower.look(sim, None, 10.0 * number)
            assert view is not None
            eye, look = view
            gap = eye - look
            distance = float(np.linalg.norm(gap))
            chest = np.array([[x, y, 0.9]]) + 0.05 * gap / distance
            assert sim.cast(chest, gap / distance)[0] > distance - 0.1, "furniture hides the robot"


def test_plans_are_told_in_words() -> None:
    tidy = load_scenario_episodes("tidy_house", count=1)[0]
    label = tidy.targets[3].label
    assert spoken(f"pick({label})", tidy) == "pick master chef can (to sofa)"  # there are two
    assert spoken(f"nav(TARGET_{label})", tidy) == "go to sofa"
    place = f"place({label}, TARGET_{label})"
    assert spoken(place, tidy) == "place master chef can on sofa"
    assert spoken("reset_arm()", tidy) == "fold the arm" and spoken("pick", tidy) == "pick"
    report = AgentReport(replans=1, why=f"pick({tidy.targets[1].label}): dropped")
    assert reason(report, tidy) == "pick potted meat can: dropped"
    report.why = f"object_at({label}, TARGET_{label}) does not hold any more"
    assert reason(report, tidy) == "master chef can (to sofa) at sofa does not hold any more"
    report.why = "not_holding() does not hold any more"
    assert reason(report, tidy) == "the empty hand does not hold any more"
    table = load_scenario_episodes("set_table", count=1)[0]
    bowl = table.targets[0].label
    assert spoken(f"open_cab(cab_push_point_5, {bowl})", table) == "open drawer"
    assert spoken(f"place({bowl}, TARGET_{bowl})", table) == "place bowl on dining table"


def test_results_are_shown_again_and_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["scenario=rearrange_easy", "goal=open the fridge", "episodes=1", "workers=1"]
    for name, steps in (("short", 60), ("long", 90)):
        words = [*shared, f"max_steps={steps}", f"out={tmp_path / name}"]
        assert main(["eval", *words]) == 0
    capsys.readouterr()
    assert main(["record", f"failures={tmp_path / 'short'}", "speed=30"]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 episodes failed" in said and "went otherwise" not in said
    _, frames = frames_of(tmp_path / "short" / "videos" / "failure_0000.mp4")
    assert len(frames) == 3 + 60
    both = ["record", f"compare={tmp_path / 'short'},{tmp_path / 'long'}"]
    out = tmp_path / "both.mp4"
    assert main([*both, "speed=30", f"out={out}"]) == 0
    said = capsys.readouterr().out
    assert "short: scripted hab: failed (" in said and "; long: scripted hab: failed (" in said
    _, frames = frames_of(out)
    # The last one of each run has the result on it; the short run waits there for the long one.
    assert frames.shape[1:] == (720, 1280, 3) and len(frames) == 5 + 60
    left, right = (
        np.abs(np.diff(frames[3:5].astype(int), axis=0))[0]
        .reshape(720, 2, 640, 3)
        .mean(axis=(0, 2, 3))
    )
    assert left < 1.0 < right
    for words, text in (
        ([f"compare={tmp_path / 'short'}"], "give two with a comma"),
        ([f"compare={tmp_path / 'short'},{tmp_path}"], "holds no evaluation"),
        ([f"failures={tmp_path / 'absent'}"], "holds no evaluation"),
        ([*both[1:], "episode=3"], "has no episode 3"),
        ([*both[1:], "agent=tpsrl"], "leave out agent"),
    ):
        assert main(["record", *words]) == 2, words
        assert text in capsys.readouterr().err, words


def test_the_demo_shows_what_its_table_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["demo", "scenarios=rearrange_easy", "agent=scripted", "episodes=1", "speed=60"]
    assert main([*words, "workers=1", f"out={tmp_path}"]) == 0
    said = capsys.readouterr().out
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    row = json.loads((folder / "episodes.jsonl").read_text())
    how = "success" if row["success"] else "failed"
    assert f"rearrange_easy.mp4: episode 0, {how}" in said and f"{row['steps']} steps" in said
    assert main([*words, "episode=1"]) == 2
    assert "is not in the table" in capsys.readouterr().err


def test_a_teacher_is_recorded_at_the_kind_of_place_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["skill=pick", "agent=teacher", "places=[drawer]"]
    assert main(["record", *words, "speed=4", f"out={tmp_path / 'x.mp4'}"]) == 0
    told = capsys.readouterr().out
    assert main(["eval", *words, "episodes=1", "workers=1", f"out={tmp_path / 'eval'}"]) == 0
    played = json.loads((tmp_path / "eval" / "episodes.jsonl").read_text())
    assert played["place"] == "drawer" and f"states {played['states']}" in told
    assert frames_of(tmp_path / "x.mp4")[0]["size"] == (1280, 720)


def test_what_places_are_called_can_be_typed_as_a_goal() -> None:
    words = lexicon()
    places = {name for names in words.places.values() for name in names}
    said = {name: plain_name(name) for name in places}
    assert len(set(said.values())) == len(places) > 10
    for name, text in said.items():
        (clause,) = GoalReader(words).read(f"go to the {text}")
        assert clause.places[0].names == (name,)
    kinds = object_types()
    assert all(plain_name(kind) == words.object_name(kind) for kind in kinds)
