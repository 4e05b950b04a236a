"""``tpsrl eval skill=...``: what is in the folder, whose it is, and how it comes about."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eval.skills import SkillEvalConfig, parts_of
from skills.learned.cards import SHIPPED
from tpsrl.cli import main
from tpsrl.errors import UserError

WORDS = ["eval", "skill=pick", "agent=random", "actions=restricted"]
ROOT = Path(__file__).resolve().parents[2]


def lines(out):
    rows = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: row["index"])


def summary(out):
    return json.loads((out / "summary.json").read_text())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Four episodes, by two workers."""
    out = tmp_path_factory.mktemp("skill") / "run"
    assert main([*WORDS, "episodes=4", "seed=3", "workers=2", f"out={out}"]) == 0
    return out


def test_records_and_summary_say_what_happened(measured):
    rows, found = lines(measured), summary(measured)
    assert [(r["index"], r["seed"]) for r in rows] == [(0, 3), (1, 4), (2, 5), (3, 6)]
    wanted = {"success", "cause", "return", "steps", "force_max", "episode_id", "layout"}
    wanted |= {"place", "way"}
    assert all(wanted <= set(row) and row["attempts"] == 1 for row in rows)
    assert found["complete"] and found["errors"] == [] and found["engine"]["name"] == "mujoco"
    assert found["success"] == sum(row["success"] for row in rows) / 4
    assert found["mean_steps"] == sum(row["steps"] for row in rows) / 4
    assert found["session"]["workers"] == 2 and found["config"]["actions"] == "restricted"


def test_starts_are_chosen_by_place_and_told_apart_by_the_way_of_the_base(tmp_path, capsys):
    words = ["eval", "skill=place", "agent=random", "places=[drawer,cabinet]", f"out={tmp_path}"]
    assert main([*words, "episodes=12", "workers=1", "record=none"]) == 0
    rows, found = lines(tmp_path), summary(tmp_path)
    assert {row["place"] for row in rows} == {"drawer", "cabinet"}
    far = [row for row in rows if row["way"] >= 1.5]
    assert 0 < len(far) < 12 and found["ways"]["from 1.5 m"]["episodes"] == len(far)
    assert sum(rate["episodes"] for rate in found["ways"].values()) == 12
    assert f"way from 1.5 m: 0 of {len(far)}" in capsys.readouterr().out
    assert "way of the base from 1.5 m" in (tmp_path / "report.html").read_text()
    assert main(["eval", "skill=navigate", "places=[drawer]", f"out={tmp_path / 'other'}"]) == 2
    assert "places= chooses starts of pick and place" in capsys.readouterr().err


def test_the_same_command_goes_on_with_any_number_of_workers(measured, tmp_path):
    first = [*WORDS, "seed=3", "workers=1", f"out={tmp_path}"]
    assert main([*first, "episodes=2"]) == 0
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert main([*first, "episodes=4"]) == 0
    assert summary(tmp_path)["session"]["episodes"] == 3
    assert lines(tmp_path) == lines(measured)
    parts = ("success", "mean_return", "mean_steps", "causes", "places", "ways")
    assert [summary(tmp_path)[k] for k in parts] == [summary(measured)[k] for k in parts]


def test_results_of_another_agent_are_never_taken_for_ones_own(measured, tmp_path, capsys):
    for name in ("config.json", "episodes.jsonl"):
        (tmp_path / name).write_bytes((measured / name).read_bytes())
    other = ["eval", "skill=pick", "agent=scripted", "seed=3"]
    words = [*other, "episodes=4", "workers=1", f"out={tmp_path}"]
    assert main([*words, "actions=restricted"]) == 2
    assert "the scripted pick moves the base" in capsys.readouterr().err
    assert main(words) == 2
    theirs, ours = capsys.readouterr().err.split("this one has")
    assert "agent=random" in theirs and "agent=scripted" in ours
    (tmp_path / "config.json").unlink()
    assert main(words) == 2
    assert "nobody can say what made it; choose another out=" in capsys.readouterr().err
    assert not (tmp_path / "summary.json").exists()


def test_other_data_of_the_same_name_are_refused(tmp_path, capsys):
    shipped = ROOT / "tpsrl/episodes/data/prepare_groceries_val.json.gz"
    data, out = tmp_path / "data.json.gz", tmp_path / "out"
    data.write_bytes(shipped.read_bytes())
    words = [*WORDS, "episodes=1", "workers=1", f"data={data}", f"out={out}"]
    assert main(words) == 0
    assert " on data.json.gz: " in capsys.readouterr().out
    data.write_bytes((shipped.parent / "tidy_house_val.json.gz").read_bytes())
    assert main(words) == 2
    assert "episode 0 in" in capsys.readouterr().err
    assert main([*words[:-2], f"data={tmp_path / 'none.json'}", f"out={out}2"]) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err


def test_train_is_never_measured_on_val(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("eval.skills.TRAIN_EPISODES", 2)
    out = tmp_path / "out"
    words = ["eval", "skill=navigate", "agent=random", "split=train", f"out={out}"]
    assert main([*words, "episodes=2", "workers=1", "record=none"]) == 0
    assert all(row["episode_id"].startswith("train_") for row in lines(out))


def test_an_interrupted_measurement_is_not_exported(tmp_path, capsys):
    out = tmp_path / "out"
    words = [*WORDS, "episodes=400", "workers=1", f"out={out}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tpsrl", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not (out / "episodes.jsonl").exists() or not (out / "episodes.jsonl").read_text():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and errors.endswith("tpsrl: interrupted\n")
    assert summary(out)["complete"] is False and summary(out)["episodes"] >= 1
    weights = ROOT / "skills/learned/weights/pick.safetensors"
    into = tmp_path / "e"
    export = ["export", "skill=pick", f"weights={weights}", f"result={out}", f"out={into}"]
    assert main(export) == 2
    assert "is not complete" in capsys.readouterr().err


def test_policies_and_teachers_are_those_that_ship():
    for agent, folder in {"tpsrl": SHIPPED, "teacher": SHIPPED / "teacher"}.items():
        policy, env_args = parts_of(SkillEvalConfig(skill="open_fridge", agent=agent))
        assert policy.path == folder / "open_fridge.safetensors"
        assert (env_args["depth"] is None) == (agent == "teacher")
    with pytest.raises(UserError, match="weights=x would not be used by agent=teacher"):
        parts_of(SkillEvalConfig(skill="open_fridge", agent="teacher", weights=Path("x")))
