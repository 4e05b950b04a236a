"""``benchmarks.names``: how a benchmark ends."""

from __future__ import annotations

import signal
import subprocess
import sys

from benchmarks.names import run_main

CODE = """
import subprocess, sys, time
from benchmarks.names import run_main

def main(words):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        print(child.pid, flush=True)
        child.wait()
    finally:
        child.kill()
        child.wait()
        print("child ended", flush=True)

sys.exit(run_main(main))
"""


def test_sigterm_lets_a_benchmark_end_what_it_started():
    process = subprocess.Popen(
        [sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) > 0
    process.terminate()
    told, errors = process.communicate(timeout=30)
    assert told == "child ended\n" and errors == ""
    assert process.returncode == 128 + signal.SIGTERM


def test_the_handler_of_before_is_back():
    before = signal.getsignal(signal.SIGTERM)
    assert run_main(lambda words: None, []) == 0
    assert signal.getsignal(signal.SIGTERM) is before
