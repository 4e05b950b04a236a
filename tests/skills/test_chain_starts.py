"""Start states of the chain for training, made by the command that users call."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.faults.runs import ROOT, members
from skills.chain_starts import _starts_of
from skills.envs.single import SkillEnv
from skills.tasks.handoff import read_starts
from skills.training import parse


@pytest.mark.parametrize(
    ("agent", "calls"),
    [("scripted", {"navigate", "open_cab", "pick", "place"}), ("tpsrl", {"navigate", "open_cab"})],
)
def test_a_chain_gives_start_states_once(agent, calls, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = _starts_of("set_table", 1, agent, 1, tmp_path)
    called = {start.call.skill for start in read_starts(file)}
    assert calls <= called
    assert not list(tmp_path.glob("*.parts"))
    assert f"running the chain of set_table by agent={agent}" in capfd.readouterr().err
    assert _starts_of("set_table", 1, agent, 1, tmp_path) == file
    assert not capfd.readouterr().err
    env = SkillEnv("open_cab", depth=None, split="val", start="handoff", handoff=str(file))
    env.reset(seed=0)
    env.close()


def test_starts_of_the_chain_are_off_unless_asked_for():
    assert parse(["skill=pick", "config=laptop"])[0].chain_starts == 0


def test_a_stop_leaves_no_stray_process(tmp_path: Path) -> None:
    code = "from skills.chain_starts import chain_starts; chain_starts(2, workers=2)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while not list(tmp_path.glob("tpsrl/starts/*.parts")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    assert len(members(process.pid)) >= 3
    process.terminate()  # as a scheduler does: the group is not told
    process.wait()
    end = time.monotonic() + 20
    while members(process.pid):
        assert time.monotonic() < end, members(process.pid)
        time.sleep(0.1)
