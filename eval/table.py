"""The summary as a table for the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table


def stage_label(name: str) -> str:
    """Return the words for a stage; ``stage_k_5`` is object k held, ``stage_k`` k objects placed.

    Other names are returned with spaces for underscores.
    """
    match = re.fullmatch(r"stage_(\d+)(_5)?", name)
    if match is None:
        return name.replace("_", " ")
    number = int(match.group(1))
    return f"pick {number + 1}" if match.group(2) else f"place {number}"


def rate(interval: Mapping[str, Any]) -> str:
    """Return a rate and its interval as percentages, e.g. ``"87.0% [80.0, 93.0]"``."""
    if interval["mean"] is None:
        return "-"
    return (
        f"{100 * interval['mean']:.1f}% [{100 * interval['low']:.1f}, {100 * interval['high']:.1f}]"
    )


def print_summary(summary: Mapping[str, Any], console: Console | None = None) -> None:
    """Print success, stages, failures by skill and cause, steps, distance, force, throughput."""
    # Not the console's own opinion: FORCE_COLOR would have it write colour codes into files.
    console = console or Console(force_terminal=sys.stdout.isatty())
    console.print(Group(*_tables(summary)), highlight=False)


def _tables(summary: Mapping[str, Any]) -> list[RenderableType]:
    config = summary["config"]
    names = [str(config.get(key)) for key in ("scenario", "split", "agent", "executor")]
    title = " ".join(name for name in names if name not in {"None", ""})
    main = Table(title=title, title_justify="left", show_header=False, box=None)
    main.add_row("episodes", f"{summary['episodes']} of {summary['wanted_episodes']}")
    main.add_row("success (95% bootstrap)", rate(summary["success"]))
    if summary["success"]["mean"] in (0.0, 1.0):
        score = summary["success"]["wilson"]
        main.add_row("  (95% score interval)", f"{score['low']:.1%} to {score['high']:.1%}")
    for name, interval in summary["stages"].items():
        main.add_row(f"  reached {stage_label(name)}", rate(interval))
    for key, text, unit in (
        ("steps", "steps", ""),
        ("distance", "distance driven", " m"),
        ("force_max", "largest contact force", " N"),
        ("replans", "replans", ""),
    ):
        row = summary[key]
        if row["mean"] is not None:
            main.add_row(text, f"{row['mean']:.1f}{unit} (median {row['median']:.1f})")
    speed = summary["throughput"]["steps_per_second_per_worker"]
    if speed is not None:
        main.add_row("steps/s of one worker", f"{speed:.0f}")
    if summary["diverged"]:
        main.add_row("diverged worlds", str(len(summary["diverged"])))
    tables: list[RenderableType] = [main]
    if summary["skills"]:
        tables.append(_skills(summary["skills"]))
    if summary["failures"]:
        tables.append(_failures(summary["failures"]))
    return tables


def _skills(skills: Mapping[str, Any]) -> Table:
    table = Table("skill", "runs", "success", "mean steps", "failed runs", box=None)
    for name, row in skills.items():
        causes = ", ".join(f"{cause} {count}" for cause, count in row["failures"].items())
        table.add_row(
            name, str(row["runs"]), f"{100 * row['success']:.1f}%", f"{row['steps']:.0f}", causes
        )
    return table


def _failures(failures: Mapping[str, Mapping[str, int]]) -> Table:
    table = Table("failed episodes: skill", "cause", "number", box=None)
    for skill, causes in failures.items():
        for cause, count in causes.items():
            table.add_row(skill, cause, str(count))
    return table
