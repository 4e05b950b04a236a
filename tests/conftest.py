"""What all tests start from."""

from __future__ import annotations

import os
import signal

# Some tests fork where others have drawn, and a fork has no threads of Mesa's to draw with.
os.environ.setdefault("LP_NUM_THREADS", "0")
# A runner started in the background ignores Ctrl-C, and so would every program it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
