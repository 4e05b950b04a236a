"""Statistics of a feature over frames, as LeRobot keeps them for every episode and for a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Stats = dict[str, np.ndarray]
"""``min``, ``max``, ``mean``, ``std``, ``count``, quantiles; (values,), of pictures (3, 1, 1)."""
QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}


def of_rows(values: np.ndarray) -> Stats:
    """Return the statistics of (n,) or (n, k) numbers."""
    rows = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    return _measured(rows, len(rows))


def of_pictures(pictures: Sequence[np.ndarray]) -> Stats:
    """Return the statistics of each channel of (H, W, 3) uint8 pictures, in [0, 1]."""
    counts = np.zeros((256, 3), dtype=np.int64)  # all pixels of an episode would fill the memory
    for picture in pictures:
        for k in range(3):
            counts[:, k] += np.bincount(picture[..., k].ravel(), minlength=256)
    levels, total = np.arange(256)[:, None] / 255.0, counts[:, 0].sum()
    mean = (levels * counts).sum(0) / total
    found = {"mean": mean, "std": np.sqrt(((levels - mean) ** 2 * counts).sum(0) / total)}
    for name, part in {"min": 0.0, "max": 1.0, **QUANTILES}.items():
        found[name] = np.array([_ranked(column, part * (total - 1)) for column in counts.T])
    shaped = {name: value.reshape(3, 1, 1) for name, value in found.items()}
    return {**shaped, "count": np.array([len(pictures)])}


def _ranked(counts: np.ndarray, rank: float) -> float:
    """Return the value of a rank among counted bytes, in [0, 1]; linear between two ranks."""
    below, above = np.searchsorted(counts.cumsum(), [np.floor(rank), np.ceil(rank)], side="right")
    return float(below + (above - below) * (rank % 1.0)) / 255.0


def _measured(rows: np.ndarray, count: int) -> Stats:
    named = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    quantiles = np.quantile(rows, list(QUANTILES.values()), axis=0)
    return {**named, "count": np.array([count]), **dict(zip(QUANTILES, quantiles, strict=True))}


def together(parts: Sequence[Mapping[str, np.ndarray]]) -> Stats:
    """Return the statistics of several episodes; quantiles are the mean of theirs, by frames."""
    counts = np.array([part["count"][0] for part in parts], dtype=np.float64)
    stacked = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    weights = (counts / counts.sum()).reshape(-1, *[1] * (stacked["mean"].ndim - 1))
    found = {name: (weights * stacked[name]).sum(0) for name in ("mean", *QUANTILES)}
    spread = stacked["std"] ** 2 + (stacked["mean"] - found["mean"]) ** 2
    return {
        "min": stacked["min"].min(0),
        "max": stacked["max"].max(0),
        "mean": found.pop("mean"),
        "std": np.sqrt((weights * spread).sum(0)),
        "count": np.array([int(counts.sum())]),
        **found,
    }
