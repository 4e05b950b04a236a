"""The tutorials can be followed, and what the site makes of the sources is there."""

from __future__ import annotations

import json
import shutil

from tests.docs.follow import ROOT, follow


def test_a_scenario(tmp_path):
    follow("tutorials/scenario.md", tmp_path)
    summary = json.loads((tmp_path / "result/summary.json").read_text())
    assert summary["success"]["mean"] == 1.0


def test_a_skill(tmp_path):
    follow("tutorials/skill.md", tmp_path)
    assert list((tmp_path / "runs/raise/checkpoints").iterdir())


def test_an_object(tmp_path):
    for package in ("tpsrl", "ver_trainer"):
        kept = shutil.ignore_patterns("__pycache__", "*.gz")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=kept)
    follow("tutorials/object.md", tmp_path, code=tmp_path)
