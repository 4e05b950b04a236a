"""``tpsrl plan`` from the outside."""

from pathlib import Path

import pytest
from pyperplan.planner import SEARCHES, search_plan

from tpsrl.cli import main


def test_prints_draws_and_writes_pddl(tmp_path, capsys):
    out, pddl = tmp_path / "plan.png", tmp_path / "pddl"
    words = ["plan", "scenario=set_table", "episode=1", f"out={out}", f"pddl={pddl}"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "open_fridge(fridge_push_point" in text
    assert "11 actions" in text
    assert out.read_bytes().startswith(b"\x89PNG")
    files = [str(pddl / name) for name in ("domain.pddl", "problem.pddl")]
    assert len(search_plan(*files, SEARCHES["bfs"], None)) == 11
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pddl", "plan.png"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["scenario=settable"],
            "unknown scenario 'settable', which is no YAML file either; did you mean 'set_t",
        ),
        (["epsiode=1"], "unknown key 'epsiode'; did you mean 'episode'?"),
        (["episode=999"], "episode=999 does not exist; give 0 to 99"),
        (["out=plan.gif"], "out=plan.gif must end in .png, .pdf, .svg"),
        (["data=none.json.gz"], "none.json.gz"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(capsys, words, message):
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_pddl_is_written_into_the_folder_one_stands_in(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["plan", "pddl=."]) == 0
    assert sorted(p.name for p in Path().iterdir()) == ["domain.pddl", "problem.pddl"]
