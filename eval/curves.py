"""Learning curves: ``python -m eval.curves [LABEL=]RUN ... out=FIG [keep=FILE] [points=N]``.

A run is a folder of the trainer, its ``metrics.jsonl``, or a file that ``keep=`` wrote. Stages that
went on from each other's weights are one run: ``LABEL=STAGE1,STAGE2``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.drawing import save_figure
from tpsrl.errors import UserError
from tpsrl.files import write_atomically

USAGE = (
    "usage: python -m eval.curves [LABEL=]RUN[,STAGE...] ... out=FIG.png [keep=FILE.jsonl]"
    " [points=200]"
)
STEP, SECONDS = "step", "time/seconds"
VALUES = ("episode/success", "episode/return", "episode/length")


def read_curve(path: Path | Sequence[Path], points: int = 200) -> dict[str, np.ndarray]:
    """Read a run's records and average them over at most ``points`` equal spans of records.

    Args:
        path: folder with ``metrics.jsonl``, or such a file; of several, each counts its steps and
            seconds from the end of the one before.
        points: most points of the curve.

    Returns:
        ``step``, ``time/seconds`` (at the end of each span) and the means of what the records have
        of ``episode/success``, ``episode/return`` and ``episode/length``, each (p,) float64.

    Raises:
        UserError: there is no record of a finished episode, or the file is damaged.
    """
    records: list[dict[str, Any]] = []
    for stage in [path] if isinstance(path, Path) else path:
        before = records[-1] if records else {STEP: 0, SECONDS: 0.0}
        for record in _records(stage):
            moved = {name: record[name] + before[name] for name in (STEP, SECONDS)}
            records.append({**record, **moved})
    spans = np.array_split(np.arange(len(records)), min(points, len(records)))
    curve = {name: [records[span[-1]][name] for span in spans] for name in (STEP, SECONDS)}
    for name in VALUES:
        if all(name in record for record in records):
            curve[name] = [float(np.mean([records[k][name] for k in span])) for span in spans]
    return {name: np.asarray(values, dtype=np.float64) for name, values in curve.items()}


def _records(path: Path) -> list[dict[str, Any]]:
    file = path / "metrics.jsonl" if path.is_dir() else path
    try:
        records = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: no records of a run ({error}).") from None
    records = [r for r in records if {STEP, SECONDS, VALUES[0]} <= r.keys()]
    if not records:
        raise UserError(f"{file}: no record has '{VALUES[0]}'; the run needs a finished episode.")
    return records


def keep_curve(curve: Mapping[str, np.ndarray], path: Path) -> None:
    """Write a curve as JSON lines that :func:`read_curve` reads."""
    rows = [
        {name: round(float(values[k]), 4) for name, values in curve.items()}
        for k in range(len(curve[STEP]))
    ]
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def draw_curves(curves: Mapping[str, Mapping[str, np.ndarray]], out: Path) -> Path:
    """Draw success against steps and against hours.

    Args:
        curves: label -> as from :func:`read_curve`.
        out: PNG (or PDF, SVG) file, replaced at once.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for label, curve in curves.items():
        percent = 100 * curve[VALUES[0]]
        axes[0].plot(curve[STEP] / 1e6, percent, label=label)
        axes[1].plot(curve[SECONDS] / 3600, percent, label=label)
    axes[0].set_xlabel("steps of experience, millions")
    axes[1].set_xlabel("hours")
    axes[0].set_ylabel("success of training episodes, %")
    for axis in axes:
        axis.set_ylim(0, 100)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    save_figure(figure, out)
    return out


def _label(path: Path) -> str:
    """Return what a run is called: its folder, also where its metrics.jsonl is named."""
    path = path.absolute()
    return path.parent.name if path.name == "metrics.jsonl" else path.name.removesuffix(".jsonl")


def _options(words: Sequence[str]) -> tuple[dict[str, list[Path]], dict[str, str]]:
    runs: dict[str, list[Path]] = {}
    options: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if name in ("out", "keep", "points"):
            options[name] = value
        else:
            stages = [Path(part) for part in (value if sign else word).split(",")]
            label = name if sign else _label(stages[0])
            if label in runs:
                raise UserError(f"two runs are called '{label}'; name them: first={value or word}")
            runs[label] = stages
    return runs, options


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the runs named on the command line; returns the exit code."""
    words: list[Any] = list(sys.argv[1:] if argv is None else argv)
    if {"-h", "--help"} & set(words):
        print(USAGE)
        return 0
    try:
        runs, options = _options(words)
    except UserError as error:
        print(f"eval.curves: {error}", file=sys.stderr)
        return 2
    points = options.get("points", "200")
    wrong = not points.isdigit() or int(points) < 1 or ("keep" in options and len(runs) != 1)
    if not runs or "out" not in options or wrong:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        curves = {label: read_curve(path, int(points)) for label, path in runs.items()}
        if "keep" in options:
            keep_curve(next(iter(curves.values())), Path(options["keep"]))
        print(draw_curves(curves, Path(options["out"])))
    except UserError as error:
        print(f"eval.curves: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
