"""The tutorials can be followed, and what the site makes of the sources is there."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.docs.follow import ROOT, follow

NAMED = re.compile(
    r"`((?:tpsrl|skills|planner|eval|ver_trainer|configs|tests|benchmarks|scripts)/"
    r"[a-z0-9_/]+\.(?:py|yaml|sh))`"
)
TO_BE_WRITTEN = ("skills/tasks/wave.py",)
TUTORIALS = [f"tutorials/{page.name}" for page in (ROOT / "docs/tutorials").glob("*.md")]


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


def test_files_that_pages_name_are_there():
    pages = sorted((ROOT / "docs").glob("*.md"))  # notes keep what was there on their day
    named = {(page.name, name) for page in pages for name in NAMED.findall(page.read_text())}
    wrong = [n for n in named if not (ROOT / n[1]).exists() and n[1] not in TO_BE_WRITTEN]
    assert not wrong, wrong


@pytest.mark.parametrize("page", ["index.md", "start.md", "concepts.md", *TUTORIALS])
def test_a_page_is_short_and_its_prose_narrow(page):
    text = (ROOT / "docs" / page).read_text()
    assert len(text.split()) <= 1500
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    assert not [line for line in prose if len(line) > 100]
