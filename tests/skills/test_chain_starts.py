"""A training that is stopped while it runs the chain takes the chain along."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.processes import members


def test_a_stop_leaves_no_stray_process(tmp_path: Path) -> None:
    code = "from skills.chain_starts import chain_starts; chain_starts(2, workers=2)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while not list(tmp_path.glob("tpsrl/starts/*.parts")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    assert len(members(process.pid)) >= 3
    process.terminate()  # as a scheduler does: the group is not told
    process.wait()
    end = time.monotonic() + 20
    while members(process.pid):
        assert time.monotonic() < end, members(process.pid)
        time.sleep(0.1)
