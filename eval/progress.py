"""Progress of a run: how many, how fast, until when, how successful so far."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eval.statistics import wilson
from tpsrl.agents.interface import Agent
from tpsrl.sim.door import Simulator

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


class RecordingProgress:
    """Progress of one episode that is being recorded; an observer of ``run_episode``.

    Args:
        label: what is recorded.
        max_steps: control steps at most; the end usually comes much earlier.
    """

    def __init__(self, label: str, max_steps: int) -> None:
        self._console = Console(file=sys.stderr)
        self._label = label
        self._start = self._last_line = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[status]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._max_steps = max_steps
        self._task = self._bar.add_task(label, total=1.0, status="starting")

    def __call__(self, sim: Simulator, agent: Agent, step: int) -> None:
        """Show plan progress, rate and an estimate of the end."""
        now = time.monotonic()
        if step % 10 and now - self._last_line < _PLAIN_SECONDS:
            return
        report = agent.report()
        seconds = max(now - self._start, 1e-9)
        plan = report.cursor / len(report.plan) if report.plan else 0.0
        # A plan that was made again starts over, so the step limit bounds the estimate.
        left = min(seconds * (1 - plan) / max(plan, 1e-3), self._max_steps * seconds / (step + 1))
        estimate = f", about {_duration(left)} left" if plan > 0 else ""
        skill = report.skills[-1].skill if report.skills else "-"
        status = f"step {step}, {step / seconds:.0f} steps/s, {skill}{estimate}"
        self._bar.update(self._task, completed=plan, status=status)
        if not self._console.is_terminal and now - self._last_line > _PLAIN_SECONDS:
            self._last_line = now
            print(f"{self._label}: {status}", file=sys.stderr)

    def __enter__(self) -> RecordingProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
