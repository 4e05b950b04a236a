"""Tables of values over the floor."""

from __future__ import annotations

import numpy as np

from tpsrl.compiled import compiled_later


@compiled_later
def read_between(table: np.ndarray, low: np.ndarray, step: float, place: np.ndarray) -> np.ndarray:
    """Read a table between its four nodes around a point; beyond its border as at the border.

    Args:
        table: (a, b, k) float32 or float64, values at the nodes ``low + step * (i, j)``.
        low: (2,) the first node, m.
        step: between nodes, m.
        place: (2,), m.

    Returns:
        (k,) float64.
    """
    node, part = np.empty(2, dtype=np.int64), np.empty(2)
    for axis in range(2):
        cell = max((place[axis] - low[axis]) / step, 0.0)
        cell = min(cell, table.shape[axis] - 1.001)
        node[axis] = int(cell)
        part[axis] = cell - node[axis]
    (i, j), (a, b) = node, part
    values = np.empty(table.shape[2])
    for k in range(len(values)):
        near = (1.0 - a) * table[i, j, k] + a * table[i + 1, j, k]
        far = (1.0 - a) * table[i, j + 1, k] + a * table[i + 1, j + 1, k]
        values[k] = (1.0 - b) * near + b * far
    return values
