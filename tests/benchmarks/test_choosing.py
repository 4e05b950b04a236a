"""``benchmarks.choosing``: what was learned from decides nothing."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import choosing
from skills.learned.cards import SHIPPED
from tpsrl.errors import UserError


def config_of(out, **more):
    return choosing.Config(skill="open_cab", out=out, **more)


def test_apartments_that_were_learned_from_decide_nothing():
    starts = [
        choosing.Starts("own, train", (), 10, known=True),
        choosing.Starts("own, widedev", (), 10),
        choosing.Starts("arrives, set_table", (), 5),
    ]
    rows = {
        "shipped": {"own, train": 9, "own, widedev": 8, "arrives, set_table": 4},
        "by_heart": {"own, train": 10, "own, widedev": 7, "arrives, set_table": 4},
    }
    assert [choosing.score(won, starts) for won in rows.values()] == [12, 11]
    lines = choosing.table(rows, starts).splitlines()
    assert lines[0].endswith("| widedev, of 15 |") and lines[2].endswith("80.0% (54.8 to 93.0) |")


def test_candidates_have_names_of_their_own(tmp_path):
    for folder in ("one/run", "two/run"):
        (tmp_path / folder).mkdir(parents=True)
        for file in SHIPPED.glob("open_cab.*"):
            shutil.copy(file, tmp_path / folder)
    given = f"shipped,{tmp_path}/one/run"
    found = choosing.candidates_of(config_of(tmp_path, candidates=given))
    assert list(found) == ["shipped", "run"] and found["shipped"].parent == SHIPPED
    with pytest.raises(UserError, match="two of the name run"):
        choosing.candidates_of(config_of(tmp_path, candidates=f"{given},{tmp_path}/two/run"))
    with pytest.raises(UserError, match="names nothing"):
        choosing.candidates_of(config_of(tmp_path, candidates=" , "))


def test_it_measures_and_goes_on(tmp_path, capsys):
    words = ["skill=open_cab", "episodes=2", "starts=1", "chains=1", "scenarios=set_table"]
    words += [f"out={tmp_path}", "workers=2"]
    choosing.main(words)
    first = capsys.readouterr().out
    head = "| candidate | own, train, of 2 | own, widedev, of 2 | arrives, set_table, of 1 |"
    assert f"{head} widedev, of 3 |" in first
    assert first.splitlines()[-1].endswith("learned from: shipped")
    file = tmp_path / "open_cab_shipped_own_widedev" / "episodes.jsonl"
    written = file.read_text()  # with seconds, which a second run would not meet again
    choosing.main(words)
    assert capsys.readouterr().out.splitlines()[-4:] == first.splitlines()[-4:]
    assert file.read_text() == written
