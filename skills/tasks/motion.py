"""How the base moved in a step, as its odometry tells."""

from __future__ import annotations

from array_api_compat import array_namespace

from tpsrl.geometry.arrays import Array, wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR


def base_motion(after: Array, before: Array) -> Array:
    """Return (n, 2) motion between two (n, 3) poses, ahead and leftward, 1 for the largest."""
    xp = array_namespace(after)
    moved, yaw = after - before, before[:, 2]
    ahead = xp.cos(yaw) * moved[:, 0] + xp.sin(yaw) * moved[:, 1]
    turned = wrap(xp, moved[:, 2])
    return xp.stack([ahead / BASE_DELTA_LINEAR, turned / BASE_DELTA_ANGULAR], axis=-1)
