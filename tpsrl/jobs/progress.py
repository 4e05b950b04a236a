"""Progress of long work: how many, how fast, until when, and what is being measured."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

LINE = 80
"""Columns of a line of progress."""
_BAR = 12
_PLAIN_SECONDS = 15.0


class Tally:
    """A progress bar on a terminal, a plain line now and then where there is none.

    Args:
        label: what is done.
        total: units of work.
        done: units that were done before.
        unit: what a unit is called, e.g. ``"episodes"``.
    """

    def __init__(self, label: str, total: int, done: int = 0, unit: str = "episodes") -> None:
        self._label, self._first, self._unit = label, done, unit
        self.done, self.total = done, total
        self._start = self._last_line = time.monotonic()
        # Not the console's own opinion: FORCE_COLOR would have it write a bar into files.
        self._plain = not sys.stderr.isatty()
        self._bar = Progress(
            BarColumn(bar_width=_BAR),
            TextColumn("{task.description}"),
            console=Console(file=sys.stderr),
            disable=self._plain,
        )
        self._task = self._bar.add_task(f"{label}: starting", total=total, completed=done)

    @property
    def seconds(self) -> float:
        """Wall-clock time since the beginning."""
        return max(time.monotonic() - self._start, 1e-9)

    def __enter__(self) -> Tally:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def add(self, count: int, text: str = "", total: int | None = None) -> None:
        """Count finished units.

        Args:
            count: how many.
            text: what is being measured.
            total: a better estimate of all that there are.
        """
        self.done += count
        self.total = self.total if total is None else max(total, self.done)
        rate = (self.done - self._first) / self.seconds
        left = duration((self.total - self.done) / max(rate, 1e-9))
        speed = f"{rate:.1f} {self._unit}/s" if rate >= 1 else f"{60 * rate:.1f} {self._unit}/min"
        status = f"{self.done}/{self.total} {speed}, {left} left" + (f", {text}" if text else "")
        now = time.monotonic()
        if not self._plain:
            line = _fitting(self._label, status, LINE - _BAR - 1)
            self._bar.update(self._task, completed=self.done, total=self.total, description=line)
        elif now - self._last_line > _PLAIN_SECONDS or self.done >= self.total:
            self._last_line = now
            print(_fitting(self._label, status, LINE), file=sys.stderr, flush=True)


def _fitting(label: str, status: str, width: int) -> str:
    """Return label and status on one line; of a long label the end is left out."""
    room = max(width - len(status) - 2, 8)
    short = label if len(label) <= room else f"{label[: room - 2]}.."
    return f"{short}: {status}"


def duration(seconds: float) -> str:
    """Return a duration as ``m:ss`` or ``h:mm:ss``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
