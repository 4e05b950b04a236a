"""Records of a run: JSON lines always, TensorBoard and W&B on request, a progress bar."""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ver_trainer.config import LogConfig
from ver_trainer.errors import ConfigError
from ver_trainer.files import replacing, writing

LINE = 80
"""Columns of a line of progress."""
_BAR = 12


class JsonLines:
    """One JSON object a line; on resume, records after the checkpoint are removed."""

    def __init__(self, path: Path, keep_until: int | None) -> None:
        self.path = path
        if keep_until is not None and path.is_file():
            lines = path.read_text(errors="replace").splitlines()
            lines = [line for line in lines if _update_of(line) <= keep_until]
            with replacing(path) as temporary:
                temporary.write_text("".join(line + "\n" for line in lines))
        elif path.is_file():
            with writing(path):
                path.unlink()

    def write(self, record: dict[str, Any]) -> None:
        """Appends one record."""
        clean = {k: (v if not _is_nan(v) else None) for k, v in record.items()}
        # Opened anew, so that a file that somebody removed is not written to unseen.
        with writing(self.path), self.path.open("a") as file:
            file.write(json.dumps(clean) + "\n")


class TensorBoard:
    """Scalars for TensorBoard, written at once: its own thread loses what a full disk refuses."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary, self._record_writer = Event, Summary, RecordWriter
        name = f"{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = folder / f"events.out.tfevents.{name}"
        with writing(self.path):
            folder.mkdir(parents=True, exist_ok=True)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, scalars: dict[str, float], step: int) -> None:
        """Appends one value of every scalar."""
        values = [self._summary.Value(tag=k, simple_value=v) for k, v in scalars.items()]
        summary = self._summary(value=values)
        self._write(self._event(wall_time=time.time(), step=step, summary=summary))

    def _write(self, event: Any) -> None:
        with writing(self.path), self.path.open("ab") as file:
            self._record_writer(file).write(event.SerializeToString())


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return math.inf  # a line cut off by a kill or a full disk


class Logger:
    """Writes records to every sink that is switched on; silent on ranks other than the first."""

    def __init__(
        self,
        config: LogConfig,
        folder: Path,
        run_config: dict[str, Any],
        total_steps: int,
        resume_update: int | None,
        enabled: bool,
    ) -> None:
        self.enabled = enabled
        self.total_steps = total_steps
        self._json: JsonLines | None = None
        self._tensorboard: TensorBoard | None = None
        self._wandb: Any = None
        self._progress: Progress | None = None
        self._task: Any = None
        self._last_print = 0.0
        self._console = Console(stderr=True)
        self._show = config.progress and enabled
        if not enabled:
            return
        self._json = JsonLines(folder / "metrics.jsonl", resume_update)
        if config.tensorboard:
            self._tensorboard = TensorBoard(folder / "tensorboard")
        if config.wandb:
            self._wandb = _start_wandb(config, folder, run_config)
        if self._show and self._console.is_terminal:
            self._start_bar()

    def _start_bar(self) -> None:
        self._progress = Progress(
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[text]}"),
            console=self._console,
        )
        self._task = self._progress.add_task("training", total=self.total_steps, text="")
        self._progress.start()

    def record(self, record: dict[str, Any]) -> None:
        """Writes one record; ``step``, ``update`` and ``time/*`` are expected in it."""
        if not self.enabled:
            return
        assert self._json is not None
        self._json.write(record)
        step = int(record["step"])
        scalars = {k: v for k, v in record.items() if isinstance(v, (int, float))}
        if self._tensorboard is not None:
            self._tensorboard.write(scalars, step)
        if self._wandb is not None:
            self._wandb.log(scalars, step=step)
        if self._show:
            self._print(record, step)

    def record_evaluation(self, step: int, update: int, values: dict[str, float]) -> None:
        """Writes the result of an evaluation as a record of its own."""
        if not self.enabled:
            return
        assert self._json is not None
        self._json.write({"step": step, "update": update, **values})
        if self._tensorboard is not None:
            self._tensorboard.write(values, step)
        if self._wandb is not None:
            self._wandb.log(values, step=step)
        shown = "  ".join(f"{k} {_short(v)}" for k, v in values.items())
        self.message(f"evaluation after {step:,} steps: {shown}")

    def _print(self, record: dict[str, Any], step: int) -> None:
        width = min(self._console.width, LINE) if self._console.is_terminal else LINE
        if self._progress is not None:
            text = progress_line(record, self.total_steps, width - _BAR - 1)
            self._progress.update(self._task, completed=step, text=text)
            return
        now = time.monotonic()
        if now - self._last_print < 10 and step < self.total_steps:
            return
        self._last_print = now
        text = progress_line(record, self.total_steps, width)
        self._console.print(text, highlight=False, soft_wrap=True)

    def message(self, text: str) -> None:
        """Shows a sentence to the person at the keyboard."""
        if self._show:
            self._console.print(text, highlight=False)

    def close(self) -> None:
        """Closes all sinks."""
        if self._progress is not None:
            self._progress.stop()
        if self._wandb is not None:
            self._wandb.finish()


def progress_line(record: dict[str, Any], total: int, width: int = LINE) -> str:
    """Returns how far a training is, on one line.

    Args:
        record: of the log.
        total: steps in all.
        width: columns; what matters least is left out where they do not suffice.
    """
    step, speed = int(record["step"]), float(record["time/steps_per_second"])
    left = str(timedelta(seconds=round(max(total - step, 0) / speed))) if speed > 0 else "?"
    success = record.get("episode/success")
    faults = record.get("fault/count")
    parts = [
        (f"{_count(step)}/{_count(total)} steps", 0),
        (f"success {success:.1%}" if success is not None else "", 1),
        (f"return {_short(record.get('episode/return'))}", 4),
        (f"{_count(speed)} steps/s", 2),
        (f"{left} left", 3),
        (f"faults {faults}" if faults else "", 5),
    ]
    parts = [part for part in parts if part[0]]
    while len(line := "  ".join(text for text, _ in parts)) > width and len(parts) > 1:
        parts.remove(max(parts, key=lambda part: part[1]))
    return line


def _count(value: float) -> str:
    """Returns a number in at most six characters: 812, 12,345, 1.23M, 4.56G."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.2f}{unit}"
    return f"{value:,.0f}"


def _short(value: Any) -> str:
    return "-" if value is None or _is_nan(value) else f"{value:.4g}"


def _start_wandb(config: LogConfig, folder: Path, run_config: dict[str, Any]) -> Any:
    try:
        import wandb
    except ModuleNotFoundError:
        raise ConfigError(
            "log.wandb=true needs the wandb package: pip install wandb, or log.wandb=false"
        ) from None
    id_file = folder / "wandb_id"
    run_id = id_file.read_text().strip() if id_file.is_file() else secrets.token_hex(4)
    with replacing(id_file) as temporary:
        temporary.write_text(run_id)
    return wandb.init(
        project=config.wandb_project, id=run_id, resume="allow", dir=str(folder), config=run_config
    )
