"""``report.html``: complete, by itself, and about what happened."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from eval.figures import load_runs
from eval.recording import states_file
from eval.report import write_report
from eval.runner import evaluate
from tests.eval.counting_world import episode, spec
from tests.eval.real import spec as real_spec
from tpsrl.episodes.shipped import load_shipped


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br", "rect", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "path"):
            assert self.open.pop() == tag, tag


def test_the_report_says_what_the_records_say(tmp_path: Path) -> None:
    episodes = [
        episode(0),
        episode(1, goal_step=20, skill=("failure", "<b>dropped</b>")),
        episode(2, stop_step=99),
    ]
    evaluate(spec(agent="counter & co"), episodes, tmp_path)
    text = write_report(tmp_path).read_text()
    tags = Tags(text)
    assert tags.open == ["html"] or not tags.open
    assert not tags.links, "nothing failed has states, so there is no picture"
    assert "counter &amp; co" in text and "&lt;b&gt;dropped" in text and "<b>dropped" not in text
    assert "1 of 3" in text and "6.1% to 79.2%" in text, "Wilson's interval of one in three"
    assert "reached pick 1" in text and "no_stop" in text
    assert text.count("<title>pick(0)") == 3, "a bar for each skill run"
    assert "config: max_steps" in text and "commit" in text


def test_what_was_asked_for_counts_and_not_all_that_lies_there(tmp_path: Path) -> None:
    episodes = [episode(k, goal_step=5 if k else 99) for k in range(4)]
    evaluate(spec(), episodes, tmp_path)
    evaluate(spec(), episodes[:2], tmp_path)
    text = write_report(tmp_path).read_text()
    assert "1 of 2" in text and "3 of 4" not in text
    (run,) = load_runs([tmp_path])
    assert run["episodes"] == 2 and run["success"]["mean"] == 0.5


def test_failures_have_pictures_in_the_file(tmp_path: Path) -> None:
    episodes = load_shipped("tidy_house", "val").episodes[:1]
    evaluate(real_spec(steps=20), episodes, tmp_path, record="failures")
    assert states_file(tmp_path, 0).exists()
    text = write_report(tmp_path).read_text()
    pictures = Tags(text).links
    assert len(pictures) == 1 and pictures[0].startswith("data:image/jpeg;base64,")
    assert len(pictures[0]) > 5000 and not re.search(r"https?://", text)
