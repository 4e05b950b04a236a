"""``tpsrl dataset export`` after a command that ended before it ran an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval.commands import dataset as command
from eval.episode import fingerprint
from tpsrl.cli import main


class StopError(Exception):
    """Raised in place of running the episodes."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be run: spec and episodes of each command."""
    calls: list[Any] = []

    def record(spec: Any, episodes: Any, *_: Any) -> None:
        calls.append((spec, episodes))
        raise StopError

    monkeypatch.setattr(command, "record", record)
    return calls


def test_a_command_that_is_refused_leaves_nothing(tmp_path: Path, capsys: Any) -> None:
    words = ["dataset", "export", "split=val", "agent=tpsrl", "episodes=2", f"out={tmp_path / 'd'}"]
    assert main([*words, f"weights={tmp_path / 'none'}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_episodes_without_a_config_are_not_taken_for_those_asked_for(
    tmp_path: Path, given: list[Any]
) -> None:
    out = tmp_path / "set"
    for split in ("val", "train"):  # the first ends with its episodes written, and no config
        with pytest.raises(StopError):
            command.run(["export", f"split={split}", "episodes=2", f"out={out}", "workers=1"])
    (_, old), (spec, new) = given
    assert spec.config["split"] == "train"
    assert not {*map(fingerprint, new)} & {*map(fingerprint, old)}
    # A config stands for episodes that were begun: they are gone on with.
    (tmp_path / "set.parts/config.json").write_text("{}")
    with pytest.raises(StopError):
        command.run(["export", "split=val", "episodes=2", f"out={out}", "workers=1"])
    assert [*map(fingerprint, given[2][1])] == [*map(fingerprint, new)]


def test_a_set_may_be_made_in_the_folder_one_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    words = ["export", "scenario=rearrange_easy", "split=val", "episodes=1", "max_steps=8"]
    words += ["failures=true", "pixels=16", "depth=16", "workers=1", "out=."]
    assert command.run(words) == 0
    assert (here / "meta/info.json").exists() and [p.name for p in tmp_path.iterdir()] == ["here"]
