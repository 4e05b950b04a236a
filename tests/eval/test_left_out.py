"""Starts of a chain that no Place can succeed at are no part of its success, and counted."""

from __future__ import annotations

import dataclasses
import json

from skills.envs.single import SkillEnv
from skills.interface import SkillCall
from skills.tasks.handoff import capture_start, write_starts
from tpsrl.cli import main


def test_starts_without_the_object_are_counted(tmp_path, capsys) -> None:
    with SkillEnv("place", depth=None, split="val") as env:
        env.reset(seed=0)
        right = capture_start(env.sim, 0, SkillCall("place", target=0))
    file, out = tmp_path / "starts.npz", tmp_path / "out"
    write_starts(file, [right, dataclasses.replace(right, held_object=-1)])
    words = ["eval", "skill=place", "agent=scripted", "episodes=4", "workers=1"]
    assert main([*words, f"handoff={file}", f"out={out}"]) == 0
    assert "starts of place left out: 1, whose hand is empty" in capsys.readouterr().out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["config"]["left_out"] == 1
    ways = [json.loads(line)["way"] for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert len(ways) == 1  # of the other one, once
