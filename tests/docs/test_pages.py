"""The tutorials can be followed, and what the site makes of the sources is there."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from skills.tasks.sensors import SENSORS
from tests.docs.follow import ROOT, follow

NAMED = re.compile(
    r"`((?:tpsrl|skills|planner|eval|ver_trainer|configs|tests|benchmarks|scripts)/"
    r"[a-z0-9_/]+\.(?:py|yaml|sh))`"
)
TO_BE_WRITTEN = ("skills/tasks/wave.py",)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:\s]+\.md)")
PAGES = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("docs/tutorials/*"))
]


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


def test_an_apartment(tmp_path):
    follow("tutorials/apartment.md", tmp_path)
    summary = json.loads((tmp_path / "result/summary.json").read_text())
    assert summary["success"]["mean"] == 1.0


def test_stable_baselines3(tmp_path):
    pytest.importorskip("stable_baselines3", reason="pip install 'tpsrl[sb3]'")
    assert "of 3 succeeded" in follow("tutorials/stable_baselines3.md", tmp_path)


def test_an_agent_of_ones_own(tmp_path):
    follow("evaluation.md", tmp_path)
    assert (tmp_path / "outputs/mine/episodes.jsonl").read_text().count("\n") == 2


def test_files_that_pages_name_are_there():
    pages = sorted((ROOT / "docs").glob("*.md"))  # notes keep what was there on their day
    named = {(page.name, name) for page in pages for name in NAMED.findall(page.read_text())}
    wrong = [n for n in named if not (ROOT / n[1]).exists() and n[1] not in TO_BE_WRITTEN]
    assert not wrong, wrong


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short(page):
    assert len((ROOT / page).read_text().split()) <= 1500


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md", "benchmarks/README.md"])
def test_prose_is_narrow(page):
    prose = FENCED.sub("", (ROOT / page).read_text()).splitlines()
    assert not [line for line in prose if len(line) > 100 and line[0] not in "|!"]


def test_every_sensor_is_on_its_page():
    rows = re.findall(r"^\| (`.+?`) \| (\d+) \|", (ROOT / "docs/sensors.md").read_text(), re.M)
    told = {name: int(size) for names, size in rows for name in re.findall(r"`(\w+)`", names)}
    ours = "skills.tasks.sensors."
    known = {n: s.size for n, s in SENSORS.items() if s.read.__module__.startswith(ours)}
    assert told == known


def test_every_page_is_reached_from_the_readme():
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        reached.add(page)
        links = {(page.parent / link).resolve() for link in LINK.findall(page.read_text())}
        todo += [link for link in links - reached if link.is_file()]
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.name != "index.md"}
    assert not pages - reached - set((ROOT / "docs/api").iterdir())  # they are the site's


INTERVAL = re.compile(r"(\d+%) (\[\d+, \d+\])")


def _rates(page: str) -> dict[str, set[str]]:
    """Rates with an interval in a page's tables, by scenario.

    A row without a scenario of its own (``its first object placed``) belongs to the one above.
    """
    rates: dict[str, set[str]] = {}
    scenario = ""
    for line in (ROOT / page).read_text().replace("**", "").splitlines():
        if not line.startswith("| "):
            continue
        first = line.split("|")[1].strip()
        scenario = scenario if first.startswith("its ") else first
        rates.setdefault(scenario, set()).update(" ".join(m) for m in INTERVAL.findall(line))
    return rates


def test_the_readme_has_the_numbers_of_the_results():
    results, told = _rates("docs/results.md"), _rates("README.md")
    told = {scenario: rates for scenario, rates in told.items() if rates}
    assert len(told) == 3
    for scenario, rates in told.items():
        assert rates <= results[scenario], f"README: {scenario} {rates - results[scenario]}"
