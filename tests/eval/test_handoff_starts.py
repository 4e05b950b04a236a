"""Measured at hand-off starts: each begins one episode."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from eval.commands.eval import run
from eval.trials import handoff_start
from skills.envs.single import SkillEnv
from skills.interface import SkillCall
from skills.tasks.handoff import StartRecorder, read_starts, write_starts
from tpsrl.errors import UserError


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """Return a file of three starts of Open Cabinet, of episodes of their own."""
    found = []
    with closing(SkillEnv("open_cab", depth=None, split="val")) as env:
        for seed in range(3):
            env.reset(seed=seed)
            recorder = StartRecorder()
            call = env.worlds.origins[0].call
            assert isinstance(call, SkillCall)
            recorder.note(env.sim, 0, call)
            found += recorder.starts
    path = tmp_path_factory.mktemp("starts") / "starts.npz"
    write_starts(path, found)
    return path


def test_seeds_in_a_row_begin_at_each_start_once(starts):
    given = {"depth": None, "split": "val", "start": "handoff", "handoff": str(starts)}
    with closing(SkillEnv("open_cab", **given)) as env:
        taken = [handoff_start(env, seed) for seed in range(5, 11)]
        assert sorted(taken[:3]) == [0, 1, 2] and taken[3:] == taken[:3]
        ids = [start.episode.episode_id for start in read_starts(starts)]
        for k in (2, 0):
            assert env.reset(seed=9, options={"start": k})[1]["episode_id"] == ids[k]
        with pytest.raises(UserError, match="no start 3 of 'open_cab', but 3"):
            env.reset(seed=0, options={"start": 3})
    with closing(SkillEnv("open_cab", **given, handoff_fraction=0.5)) as env:
        assert handoff_start(env, 0) is None


def test_no_more_episodes_than_starts(starts, tmp_path, capsys):
    words = ["skill=open_cab", "agent=random", f"handoff={starts}", f"out={tmp_path}", "workers=1"]
    assert run(words) == 0
    assert "has 3 starts of open_cab: one episode from each of them" in capsys.readouterr().out
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len({record["episode_id"] for record in records}) == len(records) == 3


def test_depth_that_a_policy_does_not_take(tmp_path):
    for words in (["agent=tpsrl", "depth=128"], ["agent=scripted", "depth=64"]):
        with pytest.raises(UserError, match="leave depth= out"):
            run(["skill=open_cab", *words, f"out={tmp_path}"])
