"""Finds sequences in a rollout and arranges them into equal mini-batches.

Wijmans et al. 2022, section 2.2: the K >= N sequences of a rollout are put in random order, joined,
and cut into B equal parts. A cut splits a sequence in two; both parts start from the recurrent
state stored with their own first row, so no state has to be looked up elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]


@dataclass
class Sequences:
    """Rows ordered by sequence.

    Attributes:
        rows: row numbers of the storage, sequence after sequence, oldest step first.
        starts: position in ``rows`` where each sequence begins.
        lengths: number of steps of each sequence.
    """

    rows: Ints
    starts: Ints
    lengths: Ints


def find_sequences(
    rows: Ints, env: Ints, episode: Ints, step: Ints, group: Ints | None = None
) -> Sequences:
    """Orders rows into maximal runs of consecutive steps of one episode.

    Args:
        rows: row numbers to arrange.
        env: environment of every storage row.
        episode: episode number of every storage row.
        step: step within the episode of every storage row.
        group: if given, rows of different groups are never joined (stale and fresh ones).
    """
    extra = np.zeros_like(env) if group is None else group
    order = np.lexsort((step[rows], episode[rows], extra[rows], env[rows]))
    rows = rows[order]
    if not len(rows):
        return Sequences(rows, np.zeros(0, np.int64), np.zeros(0, np.int64))
    e, p, s, g = env[rows], episode[rows], step[rows], extra[rows]
    new = (e[1:] != e[:-1]) | (p[1:] != p[:-1]) | (s[1:] != s[:-1] + 1) | (g[1:] != g[:-1])
    starts = np.flatnonzero(np.concatenate(([True], new)))
    return Sequences(rows, starts, np.diff(np.append(starts, len(rows))))


def split_long(sequences: Sequences, limit: int) -> Sequences:
    """Cuts sequences into pieces of at most ``limit`` steps."""
    pieces = -(-sequences.lengths // limit)
    first = np.repeat(sequences.starts, pieces)
    number = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = first + number * limit
    ends = np.repeat(sequences.starts + sequences.lengths, pieces)
    return Sequences(sequences.rows, starts, np.minimum(starts + limit, ends) - starts)


@dataclass
class PackedRows:
    """One mini-batch in packed order.

    Attributes:
        rows: storage rows: first steps of all sequences (longest first), then second steps, ...
        batch_sizes: int64 ``[longest]``, number of sequences that have a step ``t``.
        first_rows: storage row of each sequence's first step, longest sequence first.
    """

    rows: Ints
    batch_sizes: Ints
    first_rows: Ints


def pack(rows: Ints, starts: Ints, lengths: Ints) -> PackedRows:
    """Arranges sequences as ``torch.nn.utils.rnn.PackedSequence`` wants them."""
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    batch_sizes = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
    time = np.repeat(np.arange(lengths[0]), batch_sizes)
    sequence = np.arange(len(time)) - np.repeat(np.cumsum(batch_sizes) - batch_sizes, batch_sizes)
    return PackedRows(rows[starts[sequence] + time], batch_sizes.astype(np.int64), rows[starts])


def mini_batches(
    sequences: Sequences, count: int, rng: np.random.Generator
) -> Iterator[PackedRows]:
    """Yields ``count`` mini-batches whose sizes differ by at most one row.

    Every row is in exactly one of them.
    """
    order = rng.permutation(len(sequences.starts))
    lengths = sequences.lengths[order]
    offsets = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    position = np.repeat(sequences.starts[order] - offsets, lengths) + np.arange(total)
    joined = sequences.rows[position]
    cuts = np.linspace(0, total, count + 1).round().astype(np.int64)
    for part in rng.permutation(count):
        begin, end = int(cuts[part]), int(cuts[part + 1])
        if begin == end:
            continue
        inside = offsets[(offsets > begin) & (offsets < end)]
        starts = np.concatenate(([begin], inside))
        yield pack(joined, starts, np.diff(np.append(starts, end)))
