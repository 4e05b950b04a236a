"""What a progress display writes where there is no terminal."""

import os
import subprocess
import sys

from tpsrl.jobs.progress import duration

SCRIPT = """
from tpsrl.jobs.progress import Tally
with Tally("work", 4, done=1, unit="pieces") as tally:
    for k in range(3):
        tally.add(1, f"success {k}")
    tally.add(2, total=9)
"""


def test_a_file_gets_plain_lines_without_colour_codes():
    for extra in ({}, {"FORCE_COLOR": "1"}):
        result = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            env={**os.environ, **extra},
            check=True,
        )
        assert result.stdout == "" and "\x1b" not in result.stderr
        (line,) = result.stderr.splitlines()
        assert line.startswith("work: 4/4 ") and line.endswith("pieces/s, 0:00 left, success 2")


def test_a_line_has_at_most_80_columns():
    code = """
from tpsrl.jobs.progress import Tally
with Tally("a_scenario_with_a_rather_long_name.yaml test hab", 2000, unit="episodes") as tally:
    tally.add(2000, "success 100.0% [100, 100]")
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    (line,) = result.stderr.splitlines()
    assert len(line) <= 80 and line.endswith("left, success 100.0% [100, 100]")
    assert ".." in line


def test_durations_are_read_at_a_glance():
    assert [duration(s) for s in (0.4, 75, 7265)] == ["0:00", "1:15", "2:01:05"]
