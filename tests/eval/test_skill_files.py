"""``skill:`` in a file of ``config=``: its other keys are those of the skill's table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval.commands import eval as evaluation
from eval.commands import record
from tpsrl.cli import main


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return f"config={path}"


def test_a_file_chooses_the_table_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(evaluation, "evaluate_skill", lambda config: found.append(config) or 0)
    monkeypatch.setattr(record, "_skill", lambda config: found.append(config) or 0)
    own = "skill: pick\nplaces: [open]\nepisodes: 2\nsample: true\n"
    file = written(tmp_path / "s.yaml", own)
    above = written(tmp_path / "above.yaml", "base: s\nepisodes: 3\n")
    assert main(["eval", file]) == main(["eval", above, "seed=4"]) == 0
    assert [(c.skill, c.places, c.episodes, c.seed) for c in found] == [
        ("pick", ["open"], 2, 0), ("pick", ["open"], 3, 4)
    ]  # fmt: skip
    assert main(["eval", "skill=place", file]) == 0 and found[2].skill == "place"
    film = written(tmp_path / "film.yaml", "skill: pick\ncontract: parity\n")
    assert main(["record", film]) == 0
    assert (found[3].skill, found[3].contract) == ("pick", "parity")


@pytest.mark.parametrize("command", ["eval", "record"])
def test_mistakes_in_such_a_file_are_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, wanted in (
        ("skill: pick\nexecutor: hab\n", "unknown key 'executor'"),
        ("skill: null\ncontract: parity\n", "unknown key 'contract'"),
        ("skill: [pick\n", "s.yaml"),
    ):
        assert main([command, written(tmp_path / "s.yaml", text)]) == 2
        error = capsys.readouterr().err
        assert wanted in error and error.count("\n") == 1
    assert main([command, "config=none.yaml"]) == 2
    assert "config=none.yaml: no such file" in capsys.readouterr().err
