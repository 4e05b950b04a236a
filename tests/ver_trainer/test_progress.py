"""What a person sees of a training: one line of 80 columns."""

from __future__ import annotations

import math

from ver_trainer.logger import progress_line

RECORD = {
    "step": 123_456_789,
    "time/steps_per_second": 12_345.6,
    "episode/success": 0.9876,
    "episode/return": -1234.5678,
    "fault/count": 1234,
}


def test_the_line_says_success_speed_and_time_left() -> None:
    line = progress_line(RECORD | {"fault/count": 0}, 10**9)
    assert line == (
        "123.46M/1.00G steps  success 98.8%  return -1235  12,346 steps/s  19:43:20 left"
    )
    assert len(line) == 79


def test_what_matters_least_gives_way() -> None:
    assert len(progress_line(RECORD, 10**9)) <= 80
    short = progress_line(RECORD, 10**9, width=67)
    assert "success 98.8%" in short and "12,346 steps/s" in short and "left" in short
    early = progress_line({"step": 0, "time/steps_per_second": 0.0, "episode/return": math.nan}, 50)
    assert early == "0/50 steps  return -  0 steps/s  ? left"
