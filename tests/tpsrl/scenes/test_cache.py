"""Where furniture is kept, and machines that have no such place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tpsrl.scenes.cache import cache_dir, cached_furniture, sources_digest


def test_a_folder_that_cannot_be_used_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As of a home that may not be entered, the system refuses to say whether it is there.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 300)))
    assert cached_furniture({}, lambda: ()) == ()
    assert [record.message for record in caplog.records if "cannot write" in record.message]


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_who_has_no_home_has_a_folder_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setuid(54321)
        os.write(write, str(cache_dir()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read() == f"{tempfile.gettempdir()}/tpsrl-54321"
    os.waitpid(child, 0)


def test_an_edit_of_what_builds_furniture_is_another_digest(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("WALL = 0.018\n")
    two.write_text("TOP = 0.038\n")
    before = sources_digest(str(one), str(two))
    assert sources_digest(str(one), str(two)) == before
    one.write_text("WALL = 0.020\n")
    assert sources_digest(str(one), str(two)) != before
