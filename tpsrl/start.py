"""Where the command line begins: Ctrl-C has an answer before anything slow is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def answer_ctrl_c() -> None:
    """End at Ctrl-C with one line from now on; where it is ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _quit)


def main() -> int:
    """Run the command line; see :func:`tpsrl.cli.main`."""
    answer_ctrl_c()
    from tpsrl.cli import main as run

    try:
        if signal.getsignal(signal.SIGINT) is _quit:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:
        print("tpsrl: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _quit(number: int, frame: FrameType | None) -> None:
    os.write(2, b"tpsrl: interrupted\n")
    os._exit(_INTERRUPTED)
