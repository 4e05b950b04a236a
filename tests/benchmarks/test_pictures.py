"""``benchmarks.pictures``: both draw, and what they draw is nearly the same."""

from __future__ import annotations

import pytest

from benchmarks.pictures import main, measure


def test_both_draw_the_same():
    row = measure(worlds=2, size=32, pictures=4)
    assert row["ours_us"] > 0 and row["mujoco_us"] > 0
    assert row["wrong"] < 0.002


def test_no_worlds_are_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["worlds=[0]"])
    assert caught.value.code == 2 and "worlds" in capsys.readouterr().err
