"""Making sets of episodes: worker processes, interruptions, the command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.commands import episodes as command
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.errors import UserError
from tpsrl.generation.parallel import generate
from tpsrl.generation.rules import load_scenario
from tpsrl.jobs.folder import ResultFolder

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
    with ResultFolder(partial, {"scenario": "set_table", "split": "val", "seed": 4}):
        pass
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
