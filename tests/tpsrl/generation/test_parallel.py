"""Making sets of episodes: worker processes, interruptions, the command."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from planner.commands import episodes as command
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.shipped import shipped_file
from tpsrl.errors import UserError
from tpsrl.generation import parallel
from tpsrl.generation.moved import moved_episode
from tpsrl.generation.parallel import fingerprint, generate
from tpsrl.generation.rules import find_scenario, load_scenario, with_clutter
from tpsrl.jobs.folder import ResultFolder, read_records
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.description import Shape

N = 6


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What one undisturbed worker writes, and why it drew again."""
    out = tmp_path_factory.mktemp("one") / "e.json.gz"
    rejected = generate(load_scenario("set_table"), "val", N, 5, out, workers=1)
    return out.read_bytes(), rejected


def test_the_file_does_not_depend_on_the_number_of_workers(tmp_path, expected):
    out = tmp_path / "e.json.gz"
    rejected = generate(load_scenario("set_table"), "val", N, 5, out, workers=2)
    assert out.read_bytes() == expected[0] and rejected == expected[1]
    assert [p.name for p in tmp_path.iterdir()] == ["e.json.gz"]
    episodes = load_episodes(out)
    assert len(episodes) == N
    assert episodes.extra["generator"]["seed"] == 5


def test_an_unfinished_set_of_another_command_is_refused(tmp_path):
    out = tmp_path / "e.json.gz"
    partial = tmp_path / "e.json.gz.partial"
    with ResultFolder(partial, {"scenario": "set_table", "split": "val", "seed": 4}) as folder:
        folder.append({"index": 0})
    with pytest.raises(UserError, match="seed=4, this one has"):
        generate(load_scenario("set_table"), "val", 1, 5, out, workers=1)
    assert partial.exists() and not out.exists()


def descendants(pid):
    """Living children of a process, and theirs."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(stat.parent.name)
            found += [child, *descendants(child)]
    return found


def alive(pids):
    def running(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    return [p for p in pids if running(p)]


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopping_leaves_no_process_and_loses_nothing(tmp_path, expected, how):
    out = tmp_path / "e.json.gz"
    words = ["scenario=set_table", "n=400", "seed=5", f"out={out}", "workers=2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tpsrl", "episodes", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    lines = tmp_path / "e.json.gz.partial" / "episodes.jsonl"
    deadline = time.monotonic() + 60
    while not (lines.exists() and lines.read_text().count("\n") > 2):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    children = descendants(process.pid)
    assert len(children) >= 2
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as Ctrl-C in a terminal does
    else:
        process.kill()
    _, err = process.communicate(timeout=20)
    assert process.returncode == (130 if how == signal.SIGINT else -9)
    if how == signal.SIGINT:
        assert err.endswith("tpsrl: interrupted\n") and "Traceback" not in err
    deadline = time.monotonic() + 10
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(children) == []
    assert not out.exists()
    with lines.open("a") as file:
        file.write('{"index":5,"epis')  # a killed process may leave half a line
    rejected = generate(load_scenario("set_table"), "val", N, 5, out, workers=1)
    assert out.read_bytes() == expected[0] and rejected == expected[1]
    if max(read_records(lines)[0], default=0) < N:  # it may have been faster
        assert [p.name for p in tmp_path.iterdir()] == ["e.json.gz"]


def test_command_writes_and_reports(tmp_path, capsys):
    out = tmp_path / "new" / "e.json"
    assert command.run(["scenario=in_fridge", "n=2", "workers=1", "split=test", f"out={out}"]) == 0
    assert "2 episodes" in capsys.readouterr().out
    assert {e.layout.split("_")[0] for e in load_episodes(out)} == {"sc4"}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("scenario=tidyhouse", "did you mean 'tidy_house'"),
        ("split=vall", "did you mean 'val'"),
        ("n=0", "at least 1"),
        ("n=many", "whole number"),
        ("sead=3", "did you mean 'seed'"),
        ("workers=0", "at least 1"),
        ("out=episodes.txt", "must end in .json or .json.gz"),
    ],
)
def test_bad_words_are_refused_by_name(word, message):
    with pytest.raises(UserError, match=message):
        command.run([word])


def test_an_unwritable_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "e.json"
    with pytest.raises(UserError, match="cannot be written"):
        command.run(["scenario=in_fridge", "n=1", "workers=1", f"out={out}"])


def test_a_set_is_told_by_what_it_depends_on_and_not_by_where_its_file_lies(tmp_path, monkeypatch):
    text = find_scenario("set_table").read_text()
    codes = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "set_table.yaml").write_text(text)
        codes.append(fingerprint(load_scenario(str(tmp_path / name / "set_table.yaml")), "val", 0))
    assert codes[0] == codes[1] == fingerprint(load_scenario("set_table"), "val", 0)
    monkeypatch.setattr(parallel, "GENERATOR_FORMAT", 0)
    codes.append(fingerprint(load_scenario("set_table"), "val", 0))
    (tmp_path / "mujoco-99.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: mujoco\nVersion: 99.0\n"
    (tmp_path / "mujoco-99.0.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    codes.append(fingerprint(load_scenario("set_table"), "val", 0))
    assert len(set(codes[1:])) == 3


def test_every_corner_of_a_mesh_counts():
    corners, faces = np.random.default_rng(0).normal(size=(2000, 3)), np.zeros((9, 3), np.int32)
    moved, turned = corners.copy(), faces.copy()
    moved[1000, 1] += 1e-3
    turned[5, 1] = 1
    shapes = [
        Shape("mesh", vertices=vertices, faces=of)
        for vertices, of in (
            (corners, faces), (corners + 1e-12, faces.astype(np.int64)), (moved, faces),
            (corners, turned),
        )
    ]  # fmt: skip
    same, still, *others = (tuple(parallel._words(shape)) for shape in shapes)
    assert same == still and len({same, *others}) == 3


def test_the_file_says_what_made_it_and_fewer_episodes_leave_the_rest(tmp_path):
    out = tmp_path / "e.json"
    scenario = with_clutter(load_scenario("set_table"), 1)
    generate(scenario, "val", 1, 5, out, workers=1)
    made = load_episodes(out).extra["generator"]
    assert made["clutter"] == 1 and made["fingerprint"] == fingerprint(scenario, "val", 5)
    assert made["fingerprint"] != fingerprint(load_scenario("set_table"), "val", 5)
    config = {key: value for key, value in made.items() if key not in ("n", "engine")}
    one = {"fingerprint": made["fingerprint"], "rejections": {}}
    one["episode"] = json.loads(out.read_text())["episodes"][0]
    partial = tmp_path / "e.json.partial"
    with ResultFolder(partial, config) as folder:  # as of n=9, interrupted
        folder.append({"index": 0, **one})
        folder.append({"index": 7, **one})
    before = out.read_bytes()
    generate(scenario, "val", 1, 5, out, workers=1)
    assert out.read_bytes() == before
    assert sorted(read_records(partial / "episodes.jsonl")[0]) == [0, 7]
    with (partial / "episodes.jsonl").open("r+") as lines:
        lines.readline()
        lines.truncate(lines.tell())
    generate(scenario, "val", 1, 5, out, workers=1)
    assert out.read_bytes() == before and not partial.exists()


def test_clutter_that_no_sampler_can_have_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    sampler = "{objects: [005_tomato_soup_can], receptacles: [counter_left]}"
    goal = "{sampler: can, receptacles: [table_01]}"
    path.write_text(f"samplers: {{can: {sampler}}}\ngoals: {{can: {goal}}}\n")
    words = [f"scenario={path}", "n=1", f"out={tmp_path / 'e.json'}"]
    with pytest.raises(UserError, match=r"clutter=3: all objects of .*mine.yaml are targets; give"):
        command.run([*words, "clutter=3"])
    assert with_clutter(load_scenario(str(path)), 0).clutter() == 0


def test_episodes_of_another_apartment_are_not_moved(tmp_path):
    source = tmp_path / "theirs.json"
    text = gzip.decompress(shipped_file("rearrange_easy").read_bytes()).decode()
    source.write_text(text.replace("sc3_staging_00", "my_flat"))
    words = [f"moved={source}", "split=wide", "n=2", f"out={tmp_path / 'e.json'}"]
    with pytest.raises(UserError, match=r"theirs.json: episode .* names layout 'my_flat', which"):
        command.run(words)
    theirs = next(e for e in load_episodes(source) if e.layout == "my_flat")
    apartment = load_apartment()
    with pytest.raises(UserError, match=r"cannot be moved: apartment .* has no layout 'my_flat'"):
        moved_episode(theirs, apartment, apartment.layouts["wide_0000"], "a")


def test_clutter_is_what_several_samplers_draw_together(tmp_path):
    path = tmp_path / "mine.yaml"
    cans = "cans: {objects: [005_tomato_soup_can], receptacles: [counter_left], count: 5}"
    fruit = "fruit: {objects: [013_apple], receptacles: [table_01], count: 3}"
    goal = "{sampler: cans, receptacles: [table_01]}"
    path.write_text(f"samplers: {{{cans}, {fruit}}}\ngoals: {{can: {goal}}}\n")
    scenario = load_scenario(str(path))
    assert scenario.clutter() == 7
    counts = {n: with_clutter(scenario, n).samplers for n in (0, 2, 5, 7, 9)}
    found = {n: (s["cans"].count, s["fruit"].count) for n, s in counts.items()}
    assert found == {0: (1, 0), 2: (3, 0), 5: (5, 1), 7: (5, 3), 9: (5, 5)}
