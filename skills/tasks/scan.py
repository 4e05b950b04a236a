"""Ranges around the base, as a planar range finder measures them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from tpsrl.sim.door import Simulator

SCAN, FAR_SCAN = "base_scan", "base_scan_far"
RAYS = 23
"""Number of directions."""
FIELD = np.radians(220.0)
"""Angle between the first and the last, the field of view of Fetch's laser scanner, rad."""
_ANGLES = np.linspace(-FIELD / 2, FIELD / 2, RAYS)
REACH, FAR_REACH = 2.0, 6.0
"""Ranges of the two end here, m."""


def base_scan(sim: Simulator, base_pose: Any, reach: float = REACH) -> Any:
    """Measure the distance from the base to the furniture around it.

    Furniture counts with its outline on the floor, closed, as in ``SceneInfo.navigation``: also
    below a table top. Movable objects and open doors are not seen.

    Args:
        sim: whose scenes they are.
        base_pose: (n, 3) of all its worlds.
        reach: where ranges end, m.

    Returns:
        (n, ``RAYS``) float64 ranges of at most ``reach``, m, from right to left.
    """
    ranges = sim.scan(np.asarray(base_pose), _ANGLES, reach)
    return array_namespace(base_pose).asarray(ranges, device=device(base_pose))


def scan_for(sensors: Sequence[str], sim: Simulator, base_pose: Any) -> Any:
    """Return the ranges that these sensors are made of, ``None`` if none is; see base_scan."""
    if SCAN not in sensors and FAR_SCAN not in sensors:
        return None
    return base_scan(sim, base_pose, FAR_REACH if FAR_SCAN in sensors else REACH)
