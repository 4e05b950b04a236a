"""Progress of a run: how many, how fast, until when, how successful so far."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from eval.statistics import wilson
from planner.chain.interface import Agent
from tpsrl.sim.door import Simulator

_PLAIN_SECONDS = 15.0


class _Display:
    """A bar on a terminal, a line now and then where there is none.

    Args:
        label: what is shown.
        total: where the bar is full.
        done: where it begins.
        columns: between bar and elapsed time.
    """

    def __init__(self, label: str, total: float, done: int, *columns: ProgressColumn) -> None:
        self._label = label
        self._start = self._last_line = time.monotonic()
        console = Console(file=sys.stderr)
        self._plain = not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            *columns,
            TimeElapsedColumn(),
            TextColumn("{task.fields[status]}"),
            console=console,
            disable=self._plain,
        )
        self._task = self._bar.add_task(label, total=total, completed=done, status="starting")

    @property
    def _quiet(self) -> float:
        """Seconds since the last line."""
        return time.monotonic() - self._last_line

    def _show(self, done: float, status: str, line: str, due: bool = False) -> None:
        """Move the bar; print ``line`` where there is none and it is ``due`` or time for one."""
        self._bar.update(self._task, completed=done, status=status)
        if self._plain and (due or self._quiet > _PLAIN_SECONDS):
            self._last_line = time.monotonic()
            print(f"{self._label}: {line}", file=sys.stderr)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()


class EvaluationProgress(_Display):
    """A bar on a terminal, a line now and then where there is none.

    Args:
        total: episodes of the run.
        done: episodes that were there already.
        successes: successes among them.
        label: what is evaluated.
    """

    def __init__(self, total: int, done: int, successes: int, label: str) -> None:
        super().__init__(label, total, done, MofNCompleteColumn())
        self._total, self._done, self._successes = total, done, successes
        self._initial, self._steps = done, 0

    def update(self, success: bool, steps: int) -> None:
        """Count one finished episode."""
        self._done += 1
        self._successes += success
        self._steps += steps
        status = self.status()
        line = f"{self._done}/{self._total} {status}"
        self._show(self._done, status, line, due=self._done == self._total)

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


def _duration(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


class RecordingProgress(_Display):
    """Progress of one episode that is being recorded; an observer of ``run_episode``.

    Args:
        label: what is recorded.
        max_steps: control steps at most; the end usually comes much earlier.
    """

    def __init__(self, label: str, max_steps: int) -> None:
        super().__init__(label, 1.0, 0)
        self._max_steps = max_steps

    def __call__(self, sim: Simulator, agent: Agent, step: int) -> None:
        """Show plan progress, rate and an estimate of the end."""
        if step % 10 and self._quiet < _PLAIN_SECONDS:
            return
        report = agent.report()
        seconds = max(time.monotonic() - self._start, 1e-9)
        plan = report.cursor / len(report.plan) if report.plan else 0.0
        # A plan that was made again starts over, so the step limit bounds the estimate.
        left = min(seconds * (1 - plan) / max(plan, 1e-3), self._max_steps * seconds / (step + 1))
        estimate = f", about {_duration(left)} left" if plan > 0 else ""
        skill = report.skills[-1].skill if report.skills else "-"
        status = f"step {step}, {step / seconds:.0f} steps/s, {skill}{estimate}"
        self._show(plan, status, status)
