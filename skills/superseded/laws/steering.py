"""How a law drives: along a way, its speed a smooth function of the heading error."""

from __future__ import annotations

import numpy as np

from skills.motion.moves import GiveUpError
from skills.motion.paths import ComfortField
from tpsrl.geometry.rotations import wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR

_TURN_ONLY, _FULL_SPEED = 0.7, 0.25
"""A law drives not at all, and with full speed, at these heading errors, rad: in between the speed
changes little by little, which is easier to imitate than a switch."""
_SOFT_TURN = 1.5
"""A law turns slower than it could once this many steps of turning are left."""


def pursue(field: ComfortField, base: np.ndarray, distance: float) -> tuple[float, float]:
    """Steer towards a point ahead on the way: pure pursuit.

    Args:
        field: the way.
        base: (3,) pose of the robot.
        distance: how far along the way that point lies, m.

    Returns:
        The heading error, rad, left positive, and the part of full speed it allows, 0 to 1.

    Raises:
        GiveUpError: no way leads from here.
    """
    ahead = field.lookahead(base[:2], distance)
    if ahead is None:
        raise GiveUpError("no path to the target")
    gap = ahead - base[:2]
    error = wrap(float(np.arctan2(gap[1], gap[0])) - base[2])
    eager = np.clip((_TURN_ONLY - abs(error)) / (_TURN_ONLY - _FULL_SPEED), 0.0, 1.0)
    return error, float(eager)


def soft_turn(angle: float) -> float:
    """Return the turning action; slower near the end, which is easier to imitate."""
    return float(np.clip(angle / (_SOFT_TURN * BASE_DELTA_ANGULAR), -1.0, 1.0))
