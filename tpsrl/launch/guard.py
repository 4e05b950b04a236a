"""Ends what a Ray cluster of a command's own leaves when the command is killed.

Started as ``python -m tpsrl.launch.guard SESSION`` with a pipe as its standard input, which closes
however the command ends. Ray's own reaper ends most of its processes, not always its agents.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

import psutil

_GRACE = 5.0
"""Seconds in which Ray's processes may end by themselves."""


def members(session: str, besides: int = 0) -> list[psutil.Process]:
    """Return our processes that write into a session's folder: they change all else of theirs.

    Args:
        session: folder.
        besides: the process that is no part of it, though it writes there too.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid == besides or process.uids().real != os.getuid():
                continue
            # Someone may read the logs meanwhile.
            written = [file.path for file in process.open_files() if file.mode != "r"]
            if any(path.startswith(f"{session}/") for path in written):
                found.append(process)
    return found


def main(session: str) -> None:
    """Wait until the command is gone, and end what is left."""
    command = os.getppid()
    sys.stdin.read()
    end = time.monotonic() + _GRACE
    while (left := members(session, command)) and time.monotonic() < end:
        time.sleep(0.2)
    for process in left:
        with suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    main(sys.argv[1])
