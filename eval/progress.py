"""Progress of a run: how many, how fast, until when, how successful so far."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eval.statistics import wilson

_PLAIN_SECONDS = 15.0


class EvaluationProgress:
    """A bar on a terminal, a line now and then where there is none.

    Args:
        total: episodes of the run.
        done: episodes that were there already.
        successes: successes among them.
        label: what is evaluated.
    """

    def __init__(self, total: int, done: int, successes: int, label: str) -> None:
        self._console = Console(file=sys.stderr)
        self._total, self._done, self._successes = total, done, successes
        self._initial = done
        self._label = label
        self._start = self._last_line = time.monotonic()
        self._steps = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[status]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(label, total=total, completed=done, status="starting")

    def update(self, success: bool, steps: int) -> None:
        """Count one finished episode."""
        self._done += 1
        self._successes += success
        self._steps += steps
        self._bar.update(self._task, completed=self._done, status=self.status())
        now = time.monotonic()
        if not self._console.is_terminal and (
            now - self._last_line > _PLAIN_SECONDS or self._done == self._total
        ):
            self._last_line = now
            print(f"{self._label}: {self._done}/{self._total} {self.status()}", file=sys.stderr)

    def status(self) -> str:
        """Return rate, estimate of the end and success so far, as one line."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        fresh = self._done - self._initial
        rate = fresh / seconds
        left = (self._total - self._done) / rate if rate else 0.0
        low, high = wilson(self._successes, self._done)
        return (
            f"{60 * rate:.1f} episodes/min, {self._steps / seconds:.0f} steps/s, "
            f"{_duration(left)} left, success {self._successes / max(self._done, 1):.1%} "
            f"[{low:.0%}, {high:.0%}]"
        )

    def __enter__(self) -> EvaluationProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


def _duration(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
