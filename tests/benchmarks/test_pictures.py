"""``benchmarks.pictures``: both draw, and what they draw is nearly the same."""

from __future__ import annotations

from benchmarks.pictures import measure


def test_both_draw_the_same():
    row = measure(worlds=2, size=32, pictures=4)
    assert row["ours_us"] > 0 and row["mujoco_us"] > 0
    assert row["wrong"] < 0.002
