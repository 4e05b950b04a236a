"""Data sets: LeRobot's format v3.0, the same again from recorded actions, learning from them."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pyarrow.parquet as pq
import pytest

from eval.commands import dataset as command
from eval.dataset import lerobot
from eval.dataset.clone import CloneConfig, clone_skill
from eval.dataset.frames import HELPER, STATE, NotingAgent, _Noted, goal_sensors
from eval.dataset.lerobot import features, pack
from eval.dataset.reading import DataSet
from eval.dataset.record import part_of, record
from eval.dataset.replay import replay, replay_episode
from eval.dataset.statistics import QUANTILES, of_rows, together
from eval.dataset.words import MOTION_WORDS, object_words, task_words
from eval.spec import evaluation_spec
from eval.words import plain_name
from planner.chain.calls import TpsrlOptions
from planner.chain.motions import MOTIONS
from planner.chain.tpsrl import TpsrlAgent
from skills.book import make_skill
from skills.interface import SkillCall
from skills.tasks.handoff import StartRecorder
from skills.tasks.sensors import SENSORS
from tests.planner.chain.toy import ToySkill
from tpsrl.engines import make_simulator
from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError

PIXELS, DEPTH = 32, 16
VIDEOS = {"third_person": PIXELS, "head": PIXELS, "head_depth": DEPTH}
# lerobot 0.4.4, lerobot/datasets: what its loader asks for and what its writer writes.
INFO = {
    "codebase_version", "robot_type", "total_episodes", "total_frames", "total_tasks",
    "chunks_size", "data_files_size_in_mb", "video_files_size_in_mb", "fps", "splits",
    "data_path", "video_path", "features",
}  # fmt: skip
DEFAULT_FEATURES = {
    "timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64",
    "task_index": "int64",
}  # fmt: skip
EPISODE = {
    "episode_index": "int64", "tasks": "list<element: string>", "length": "int64",
    "data/chunk_index": "int64", "data/file_index": "int64", "dataset_from_index": "int64",
    "dataset_to_index": "int64", "meta/episodes/chunk_index": "int64",
    "meta/episodes/file_index": "int64",
}  # fmt: skip
OF_A_VIDEO = {"chunk_index": "int64", "file_index": "int64", "from_timestamp": "double",
              "to_timestamp": "double"}  # fmt: skip
STATISTICS = {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One recorded episode, which stands in the folder twice, and its records."""
    parts = tmp_path_factory.mktemp("parts")
    first = load_shipped("rearrange_easy").episodes[1]
    both = (first, dataclasses.replace(first, episode_id="again"))
    save_episodes(parts / "episodes.json.gz", EpisodeSet(both))
    spec = evaluation_spec(
        scenario="rearrange_easy", agent="scripted", executor="replan", depth=DEPTH
    )
    episodes = load_episodes(parts / "episodes.json.gz").episodes[:1]
    record(spec, episodes, parts, PIXELS, DEPTH, False, 1, 1, 300.0)
    line = json.loads((parts / "episodes.jsonl").read_text())
    assert line["success"]
    shutil.copytree(part_of(parts, 0), part_of(parts, 1))
    return parts, [line, {**line, "index": 1, "episode_id": "again"}]


@pytest.fixture(scope="module")
def folder(recorded, tmp_path_factory):
    parts, records = recorded
    out = tmp_path_factory.mktemp("sets") / "set"
    config = {"engine": "mujoco", "scenario": "rearrange_easy"}
    pack(parts, records, out, features(PIXELS, DEPTH), config)
    return out


def info_of(folder):
    return json.loads((folder / "meta/info.json").read_text())


def test_info_and_frames_follow_the_format(folder):
    info = info_of(folder)
    assert set(info) == INFO
    assert info["codebase_version"] == "v3.0" and info["fps"] == 30
    table = pq.read_table(folder / info["data_path"].format(chunk_index=0, file_index=0))
    assert info["total_frames"] == len(table) and info["total_episodes"] == 2
    assert info["splits"] == {"train": "0:2"}
    for name, kind in DEFAULT_FEATURES.items():
        assert info["features"][name] == {"dtype": kind, "shape": [1], "names": None}
    for name, feature in info["features"].items():
        assert "/" not in name
        if feature["dtype"] == "video":
            assert name not in table.column_names and name.startswith("observation.images.")
            assert feature["names"] == ["height", "width", "channels"]
            continue
        size, field = feature["shape"][0], table.schema.field(name)
        kind = {"float32": "float", "bool": "bool", "int64": "int64"}[feature["dtype"]]
        assert str(field.type) == (
            kind if size == 1 else f"fixed_size_list<element: {kind}>[{size}]"
        )
        assert size == 1 or len(feature["names"]) == size
    count = len(table) // 2
    numbers = {name: table[name].to_numpy() for name in DEFAULT_FEATURES}
    assert np.array_equal(numbers["index"], np.arange(2 * count))
    assert np.array_equal(numbers["frame_index"], np.tile(np.arange(count), 2))
    assert np.allclose(numbers["timestamp"], numbers["frame_index"] / 30)
    done = np.flatnonzero(table["next.done"].to_numpy(zero_copy_only=False))
    assert done.tolist() == [count - 1, 2 * count - 1]
    assert table["next.success"].to_pylist()[count - 1]


def test_words_are_an_index_as_pandas_writes_it(folder):
    tasks = pq.read_table(folder / "meta/tasks.parquet").to_pandas()
    subtasks = pq.read_table(folder / "meta/subtasks.parquet").to_pandas()
    assert tasks["task_index"].tolist() == [0] and tasks.iloc[0].name.startswith("Bring the ")
    assert subtasks["subtask_index"].tolist() == list(range(len(subtasks)))
    assert set(subtasks["skill"]) == {"navigate", "pick", "place", "helper"}
    words = [subtasks.iloc[k].name for k in range(len(subtasks))]
    assert words[0].startswith("drive to the ") and "fold the arm" in words


def test_episodes_say_where_their_frames_are(folder):
    table = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    info, expected = info_of(folder), dict(EPISODE)
    expected |= {
        f"videos/observation.images.{c}/{k}": t for c in VIDEOS for k, t in OF_A_VIDEO.items()
    }
    assert {k: t for k, t in kinds.items() if not k.startswith("stats/")} == expected
    stats = json.loads((folder / "meta/stats.json").read_text())
    assert set(stats) == set(info["features"])
    for name, feature in info["features"].items():
        assert set(stats[name]) == STATISTICS
        shape = (3, 1, 1) if feature["dtype"] == "video" else tuple(feature["shape"])
        for statistic, values in stats[name].items():
            one = table[f"stats/{name}/{statistic}"].to_pylist()[0]
            assert np.shape(values) == np.shape(one) == ((1,) if statistic == "count" else shape)
        low, high = np.min(stats[name]["min"]), np.max(stats[name]["max"])
        assert feature["dtype"] != "video" or (0 <= low < high <= 1)
    first, second = table.to_pylist()
    assert first["dataset_to_index"] == second["dataset_from_index"] == first["length"]
    assert first["tasks"] == [pq.read_table(folder / "meta/tasks.parquet").to_pandas().iloc[0].name]


def test_videos_hold_a_frame_for_every_row(folder):
    info, table = (
        info_of(folder),
        pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet"),
    )
    for camera, side in VIDEOS.items():
        key = f"observation.images.{camera}"
        assert info["features"][key]["shape"] == [side, side, 3]
        path = info["video_path"].format(video_key=key, chunk_index=0, file_index=0)
        frames = imageio_ffmpeg.read_frames(str(folder / path))
        facts = next(frames)
        assert facts["size"] == (side, side) and facts["fps"] == 30 and facts["codec"] == "h264"
        pictures = [np.frombuffer(frame, np.uint8) for frame in frames]
        assert len(pictures) == info["total_frames"]
        begin = round(table[f"videos/{key}/from_timestamp"].to_pylist()[1] * 30)
        assert begin == info["total_frames"] // 2
        assert np.abs(pictures[0].astype(int) - pictures[begin]).max() == 0  # the same episode
        assert pictures[0].std() > 5 and (pictures[0] != pictures[begin - 1]).any()
        if camera == "head_depth":
            sim = make_simulator("mujoco", DEPTH)
            one = next(DataSet(folder).episodes())
            sim.reset([one.problem], [one.seed])
            seen = sim.depth()[0, ..., 0] * 255
            sim.close()
            assert np.abs(pictures[0].reshape(side, side, 3)[..., 0] - seen).mean() < 1.2  # of 255


def test_a_set_of_several_files_and_chunks_is_read_like_one_of_one_file(
    recorded, folder, tmp_path, monkeypatch
):
    parts, (one, other) = recorded
    records, config = [one, other, one, other, one], {"scenario": "rearrange_easy"}
    pack(parts, records, tmp_path / "whole", features(PIXELS, DEPTH), config)
    megabyte, number = 1024**2, np.arange(len(records))
    sizes = {c: (part_of(parts, 0) / f"{c}.mp4").stat().st_size / megabyte for c in VIDEOS}
    row_size = pq.read_table(next(folder.glob("data/*/*.parquet"))).nbytes / 2 / megabyte
    monkeypatch.setattr(lerobot, "DATA_MB", 2.5 * row_size)
    monkeypatch.setattr(lerobot, "VIDEO_MB", 1.5 * max(sizes.values()))
    monkeypatch.setattr(lerobot, "FILES_IN_CHUNK", 2)
    pack(parts, records, tmp_path / "split", features(PIXELS, DEPTH), config)

    info = info_of(tmp_path / "split")
    assert info["chunks_size"] == 2 and info["data_files_size_in_mb"] == 2.5 * row_size
    rows = pq.read_table(tmp_path / "split/meta/episodes/chunk-000/file-000.parquet").to_pylist()
    length = rows[0]["length"]
    where = [(row["data/chunk_index"], row["data/file_index"]) for row in rows]
    assert where == [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0)], "two fit into a file"
    for row, (chunk, file) in zip(rows, where, strict=True):
        path = info["data_path"].format(chunk_index=chunk, file_index=file)
        index = pq.read_table(tmp_path / "split" / path)["index"].to_numpy()
        assert {row["dataset_from_index"], row["dataset_to_index"] - 1} <= set(index)
    for camera, size in sizes.items():
        key = f"observation.images.{camera}"
        fit = int(info["video_files_size_in_mb"] // size)  # all are the same episode
        for place, row in zip(number, rows, strict=True):
            told = {k: row[f"videos/{key}/{k}"] for k in OF_A_VIDEO}
            assert (told["chunk_index"], told["file_index"]) == divmod(place // fit, 2)
            assert told["from_timestamp"] == pytest.approx(place % fit * length / 30)
            assert told["to_timestamp"] == pytest.approx((place % fit + 1) * length / 30)
        files = sorted((tmp_path / "split/videos" / key).glob("chunk-*/*.mp4"))
        frames = [imageio_ffmpeg.count_frames_and_secs(str(file))[0] for file in files]
        assert frames == [length * int((number // fit == k).sum()) for k in range(len(files))]
    assert len(list((tmp_path / "whole").rglob("file-*.mp4"))) == len(VIDEOS)
    largest = f"split/videos/observation.images.{max(sizes, key=sizes.get)}"
    assert (tmp_path / largest / "chunk-002/file-000.mp4").exists(), "one a file, two files a chunk"
    whole, split = DataSet(tmp_path / "whole"), DataSet(tmp_path / "split")
    assert [str(e) for e in split.episodes()] == [f"episode {k}" for k in number]
    for a, b in zip(whole.episodes(), split.episodes(), strict=True):
        assert np.array_equal(a.actions, b.actions) and len(b.actions) == length
        told = [(e.states, e.seed, e.success, e.problem.episode_id) for e in (a, b)]
        assert told[0] == told[1]
    names = ("joint", "obj_start_sensor", "is_holding")
    a, b = (data.of_skill("pick", names) for data in (whole, split))
    assert set(b["episode_index"]) == set(number)
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_the_same_actions_lead_to_the_same_success_and_states(folder):
    assert replay(folder, None, 1) == (2, 2, 2, 2)
    one = next(DataSet(folder).episodes())
    moved = one.actions.copy()
    moved[5, 0] += 1e-6
    sim = make_simulator("mujoco")
    assert not replay_episode(sim, dataclasses.replace(one, actions=moved)).same
    sim.close()


def test_drawers_and_the_fridge_are_replayed_too(tmp_path):
    """Set Table opens both and takes from both."""
    words = ["export", "scenario=set_table", "split=val", "episodes=1", "pixels=16", "depth=16"]
    assert command.run([*words, "workers=1", f"out={tmp_path / 'set'}"]) == 0
    skills = pq.read_table(tmp_path / "set/meta/subtasks.parquet").to_pandas()["skill"]
    assert {"open_cab", "open_fridge", "pick", "place"} <= set(skills)
    assert replay(tmp_path / "set", None, 1) == (1, 1, 1, 1)


def test_a_skill_is_learned_from_the_set(folder, tmp_path):
    found = clone_skill(folder, CloneConfig("place", epochs=250, trials=1), tmp_path / "clone")
    assert found["frames"] > 50 and found["error"] < 0.2 * found["guess"]
    assert found["success"] in (0.0, 1.0)
    assert (tmp_path / "clone/policy.safetensors").exists()
    rows = DataSet(folder).of_skill("pick", ("joint", "obj_start_sensor", "is_holding"))
    assert rows["joint"].shape[1] == 7 and rows["is_holding"].max() == 1.0
    near = np.linalg.norm(rows["obj_start_sensor"], axis=1)
    assert near.min() < 0.1 < near[0]
    for skill, word in (("open_fridge", "in no frame"), ("flee", "no part of a plan")):
        with pytest.raises(UserError, match=word):
            clone_skill(folder, CloneConfig(skill), tmp_path)


def test_an_interrupted_export_goes_on(tmp_path):
    words = ["export", "scenario=rearrange_easy", "split=val", "episodes=3", "max_steps=8",
             "failures=true", "pixels=16", "depth=16", "workers=1"]  # fmt: skip
    words.append(f"out={tmp_path / 'set'}")
    code = "import sys; from eval.commands.dataset import run; sys.exit(run(sys.argv[1:]))"
    lines = tmp_path / "set.parts/episodes.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=Path(__file__).parents[2], text=True,
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (lines.exists() and lines.read_text().count("\n")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0 and not (tmp_path / "set").exists()
    done = lines.read_text().count("\n")
    before = (part_of(lines.parent, 0) / "frames.npz").stat().st_mtime_ns
    assert 1 <= done < 3 and before
    assert command.run(words) == 0
    assert info_of(tmp_path / "set")["total_episodes"] == 3 and not lines.exists()
    assert replay(tmp_path / "set", 2, 1) == (0, 0, 2, 2)
    with pytest.raises(UserError, match="holds files already"):
        command.run(words)


def test_learned_skills_make_the_same_set_with_any_number_of_workers(tmp_path):
    words = ["export", "scenario=rearrange_easy", "agent=tpsrl", "split=val", "episodes=2",
             "max_steps=10", "failures=true", "pixels=16"]  # fmt: skip
    one, two = (tmp_path / name for name in ("one", "two"))
    for out, workers in ((one, 1), (two, 2)):
        assert command.run([*words, f"workers={workers}", f"out={out}"]) == 0
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two) for path in two.rglob("*") if path.is_file())
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes(), file
    told = DataSet(two).runs["config"]
    assert told["agent"] == "tpsrl" and "navigate" in told["policies"]
    assert len(DataSet(two).of_skill("navigate", ())["action"]) > 10
    assert replay(two, None, 1) == (0, 0, 2, 2)


def test_motions_of_recovery_are_frames_of_no_skill():
    """Scripted skills whose navigation gets no time to arrive, so that the chain turns around."""
    options = TpsrlOptions(navigation_steps=4, detour=True)
    agent = TpsrlAgent(make_skill, "replan", options=options)
    noting, kept = NotingAgent(agent, 16), Kept(agent)
    episode = load_shipped("rearrange_easy").episodes[1]
    with make_simulator("mujoco", 16) as sim:
        sim.reset([episode], [0])
        noting.reset(sim, 0, episode, 0)
        noting.sink = kept
        while len(agent.report().skills) < 3:
            sim.step(noting.act(sim, 0)[None])
    assert list(kept.frames) == ["navigate", "spin"] and len(kept.frames["spin"]) > 20
    assert {frame["skill"] for frame in kept.frames["navigate"]} == {"navigate"}
    for frame in kept.frames["spin"]:
        assert (frame["skill"], frame["subtask"]) == (HELPER, "turn around")
        assert not frame["observation.environment_state"].any()
    assert set(MOTION_WORDS) == set(MOTIONS)


class Kept:
    """Keeps the frames of an agent, by the name of what it says that it ran."""

    def __init__(self, agent):
        self.frames, self._agent = {}, agent

    def add(self, frame):
        self.frames.setdefault(self._agent.report().skills[-1].skill, []).append(frame)


def test_what_cannot_be_is_said(tmp_path):
    for words, text in (
        (["exprot"], "export"),
        (["replay"], "data=DIR"),
        (["replay", f"data={tmp_path}"], "info.json is missing"),
        (["export", "pixels=4000"], "960"),
        (["export", "pixels=65"], "even"),
    ):
        with pytest.raises(UserError, match=text):
            command.run(words)


def test_words_and_statistics():
    assert object_words("002_master_chef_can") == "master chef can"
    names = {
        "drawer_right_top": "right top drawer",
        "table_01": "dining table",
        "tvstand": "tv stand",
        "counter_left": "left counter",
        "sofa": "sofa",
        "fridge_middle": "fridge",
    }
    assert {name: plain_name(name) for name in names} == names
    text = task_words(load_shipped("set_table").episodes[0])
    assert text == ("Bring the bowl from the right top drawer to the dining table, then bring the"
                    " apple from the fridge to the dining table.")  # fmt: skip
    rows = np.random.default_rng(0).normal(size=(300, 2))
    parts = [of_rows(rows[:100]), of_rows(rows[100:])]
    whole, joined = of_rows(rows), together(parts)
    for name in ("min", "max", "mean", "std", "count"):
        assert np.allclose(whole[name], joined[name])
    assert set(QUANTILES) < set(joined)
    assert len(info := features(64, 32)) == 14 and info["action"]["shape"] == [10]
    assert info["observation.state"]["shape"][0] == sum(SENSORS[s].size for s in STATE)
    assert len(goal_sensors()) == len(set(goal_sensors()))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda skill: _Noted(skill, lambda *_: None),
        lambda skill: StartRecorder().wrap(lambda _: skill)("wait"),
    ],
)
def test_a_skill_that_is_watched_is_told_of_its_failures_as_well(wrap):
    """What is recorded of a chain is what the same chain does unwatched."""
    watched = ToySkill("wait", lambda *_: "ok", [])
    skill = wrap(watched)
    skill.failed_before = 2
    skill.reset(None, 0, SkillCall("wait"), 0)
    assert watched.failed_before == 2
