"""Turns SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 into a request to checkpoint and stop."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from types import FrameType, TracebackType

from ver_trainer.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class StopSignals:
    """Context in which the first signal is remembered; a second SIGINT raises KeyboardInterrupt.

    Attributes:
        received: number of the signal, or 0.
    """

    def __init__(self) -> None:
        self.received = 0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number

    def check(self) -> None:
        """Raises Interrupted if a signal was received."""
        if self.received:
            raise Interrupted(signal.Signals(self.received).name)

    def requeue(self) -> bool:
        """After SIGUSR1 under SLURM: puts the job back into the queue, unless submitit does."""
        job = os.environ.get("SLURM_JOB_ID")
        if "SUBMITIT_EXECUTOR" in os.environ:  # see tpsrl.launch.start.SlurmJob
            return self.received == signal.SIGUSR2
        if self.received != signal.SIGUSR1 or not job or not shutil.which("scontrol"):
            return False
        return subprocess.run(["scontrol", "requeue", job], check=False).returncode == 0
