"""Reading tables between their nodes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

from tpsrl.geometry.tables import read_between


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_table_is_read_linearly_between_its_nodes_and_ends_at_its_border(kind: type) -> None:
    rng = np.random.default_rng(0)
    low, step = np.array([-1.0, 2.0]), 0.1
    table = rng.normal(size=(12, 9, 3)).astype(kind)
    axes = [low[k] + step * np.arange(table.shape[k]) for k in range(2)]
    between = RegularGridInterpolator(axes, table.astype(np.float64))
    for place in low + rng.uniform(-0.5, 1.5, (50, 2)):
        inside = np.clip(place, low, low + step * (np.array(table.shape[:2]) - 1.001))
        found = read_between(table, low, step, place)
        np.testing.assert_allclose(found, between(inside)[0], rtol=0, atol=1e-12)
