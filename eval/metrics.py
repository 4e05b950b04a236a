"""From episode records to the numbers of a summary; docs/metrics.md explains each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from eval.episode import NOT_PLAYED, EpisodeRecord
from eval.statistics import bootstrap, wilson


def summarize(records: Iterable[EpisodeRecord], seed: int = 0) -> dict[str, Any]:
    """Return the metrics of a set of episodes as plain values.

    Args:
        records: any number of episodes; each counts once. Those of which nothing was measured
            (:data:`eval.episode.NOT_PLAYED`) have no steps, distance, forces and replans to count.
        seed: of the bootstrap.
    """
    rows = sorted(records, key=lambda record: record.index)
    begun = [row for row in rows if row.end not in NOT_PLAYED]
    return {
        "episodes": len(rows),
        "success": _rate([row.success for row in rows], seed),
        "stages": stage_curve(rows, seed),
        "stages_any_order": stage_curve(rows, seed, ordered=False),
        "failures": failures(rows),
        "skills": skill_table(rows),
        "ends": dict(Counter(row.end for row in rows)),
        "diverged": [_name(row) for row in rows if row.end == "diverged"],
        "errors": [_name(row) for row in rows if row.end in {"error", "worker_died"}],
        "steps": _spread(begun, "steps", seed),
        "steps_of_successes": _spread([row for row in rows if row.success], "steps", seed),
        "distance": _spread(begun, "distance", seed),
        "force_max": _spread(begun, "force_max", seed),
        "force_sum": _spread(begun, "force_sum", seed),
        "replans": _spread(begun, "replans", seed),
        "throughput": throughput(rows),
    }


def stage_curve(
    rows: Sequence[EpisodeRecord], seed: int = 0, ordered: bool = True
) -> dict[str, dict[str, Any]]:
    """Return for each stage the fraction of episodes that reached it, with its interval.

    Args:
        rows: episodes of one scenario; an episode that never started counts as 0 everywhere.
        seed: of the bootstrap.
        ordered: a stage counts only once all earlier ones were reached (VER, figure 6).
    """
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row.ordered_stages))
    curve = {}
    for name in names:
        source = [(row.ordered_stages if ordered else row.stages).get(name) for row in rows]
        curve[name] = _rate([step is not None for step in source], seed)
    return curve


def _rate(happened: Sequence[bool], seed: int) -> dict[str, Any]:
    """Return a rate with both intervals: the bootstrap's is a point where all or none happened."""
    rate = bootstrap(list(happened), seed).to_json()
    low, high = wilson(sum(happened), len(happened))
    return {**rate, "wilson": {"low": low, "high": high} if happened else None}


def failures(rows: Sequence[EpisodeRecord]) -> dict[str, dict[str, int]]:
    """Return ``skill -> cause -> number`` of failed episodes; the counts sum to the failures."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.failure is not None:
            table[row.failure["skill"]][row.failure["cause"]] += 1
    return {skill: dict(causes.most_common()) for skill, causes in sorted(table.items())}


def skill_table(rows: Sequence[EpisodeRecord]) -> dict[str, dict[str, Any]]:
    """Return for each skill its runs, success rate, mean steps and causes of failed runs."""
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        for skill in row.skills:
            runs[skill["skill"]].append(skill)
    table = {}
    for name, calls in sorted(runs.items()):
        failed = [call for call in calls if call["outcome"] in {"failure", "timeout"}]
        table[name] = {
            "runs": len(calls),
            "success": sum(call["outcome"] == "success" for call in calls) / len(calls),
            "steps": float(np.mean([call["steps"] for call in calls])),
            "failures": dict(Counter(call["cause"] or call["outcome"] for call in failed)),
        }
    return table


def throughput(rows: Sequence[EpisodeRecord]) -> dict[str, float | None]:
    """Return control steps a second and episodes an hour of one worker, resets included."""
    seconds = sum(row.seconds for row in rows)
    if seconds <= 0:
        return {"steps_per_second_per_worker": None, "episodes_per_hour_per_worker": None}
    timed = sum(row.seconds > 0 for row in rows)
    return {
        "steps_per_second_per_worker": sum(row.steps for row in rows) / seconds,
        "episodes_per_hour_per_worker": 3600 * timed / seconds,
    }


def _spread(rows: Sequence[EpisodeRecord], name: str, seed: int) -> dict[str, Any]:
    values = np.array([getattr(row, name) for row in rows], dtype=np.float64)
    result = bootstrap(values, seed).to_json()
    result["median"] = float(np.median(values)) if values.size else None
    result["max"] = float(values.max()) if values.size else None
    return result


def _name(row: EpisodeRecord) -> dict[str, Any]:
    return {"index": row.index, "episode_id": row.episode_id, "seed": row.seed, "end": row.end}
