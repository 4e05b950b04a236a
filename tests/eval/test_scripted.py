"""The whole chain with the real engine: episodes, planner, scripted skills, evaluation, video."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import imageio_ffmpeg
import pytest

from benchmarks.faults.runs import members
from tpsrl.cli import main

MAX_STEPS = "max_steps=700"
WORDS = ["scenario=rearrange_easy", "executor=replan", MAX_STEPS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("eval") / "run"
    assert main(["eval", *WORDS, f"out={out}", "episodes=2", "workers=2"]) == 0
    return out


def test_summary_is_complete_and_says_where_it_comes_from(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["complete"] and summary["episodes"] == 2
    assert set(summary["success"]) >= {"mean", "low", "high"}
    assert {"stage_0_5", "stage_1"} <= set(summary["stages"])
    assert summary["engine"]["name"] == "mujoco"
    assert {"python", "numpy", "mujoco"} <= set(summary["versions"])
    assert summary["config"]["executor"] == "replan" and summary["machine"]["cores"] >= 1
    assert summary["distance"]["mean"] > 1.0 and summary["skills"]["navigate"]["runs"] >= 2
    assert (folder / "stages.png").stat().st_size > 5000


def test_scripted_robot_picks_up_at_least_one_object(folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert any(row["stages"]["stage_0_5"] is not None for row in rows)
    assert not any(row["end"] in {"error", "worker_died", "diverged"} for row in rows)


def test_second_run_with_other_settings_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["scenario=rearrange_easy", "executor=hab", MAX_STEPS, f"out={folder}"]
    assert main(["eval", *words, "episodes=2"]) == 2
    assert "executor=replan, this one has executor=hab" in capsys.readouterr().err


def test_record_shows_the_episode_that_eval_measured(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = tmp_path / "x.mp4"
    assert main(["record", *WORDS, "episode=1", "speed=10", f"out={video}"]) == 0
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    (row,) = [row for row in rows if row["index"] == 1]
    assert f"{row['steps']} steps, {row['replans']} replans" in capsys.readouterr().out
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(video))
    assert frames == row["steps"] // 10 + 1 + 60 and seconds == pytest.approx(frames / 30, abs=0.1)


def test_ctrl_c_stops_a_real_run_without_stray_processes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["scenario=tidy_house", "episodes=4", "workers=2", f"out={out}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tpsrl", "eval", *words],
        cwd=Path(__file__).resolve().parents[2],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(members(process.pid)) < 3 or not (out / "episodes.jsonl").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and errors.endswith("tpsrl: interrupted\n")
    assert "Traceback" not in errors
    end = time.monotonic() + 10
    while members(process.pid):
        assert time.monotonic() < end, members(process.pid)
        time.sleep(0.1)
    assert json.loads((out / "summary.json").read_text())["complete"] is False
