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


def test_durations_are_read_at_a_glance():
    assert [duration(s) for s in (0.4, 75, 7265)] == ["0:00", "1:15", "2:01:05"]
