"""Where the camera of a video stands: near the robot, where no furniture hides it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpsrl.errors import UserError
from tpsrl.sim.door import Simulator

View = tuple[np.ndarray, np.ndarray]
"""Eye and the point it looks at, (3,) each, m."""

_HEIGHTS = (0.35, 0.75, 1.1)
"""Points of the robot that should be seen, m above its centre."""
_FOCUS_AHEAD, _FOCUS_HEIGHT = 0.35, 0.75
_NEAR_TARGET = 1.6
_TURN_SECONDS, _MOVE_SECONDS = 0.8, 0.3
_LOOK_SECONDS = 0.1
_HIDDEN_LOOKS = 4
"""After so many looks in which too much is hidden the picture cuts to another place."""
_ENOUGH, _LITTLE = 0.7, 0.4
"""Shares of the points: what should be seen, and below what the picture cuts at once."""
_MARGIN = 0.1


@dataclass(frozen=True)
class Viewpoint:
    """A place relative to the robot: angles in degrees, m.

    Attributes:
        around: of the eye, from straight ahead, left positive.
        above: elevation of the eye.
        distance: from the focus.
    """

    around: float
    above: float
    distance: float

    def cost(self, before: Viewpoint | None) -> float:
        """Return how much less it shows than the best: over the shoulder, low, and where it was."""
        side = abs(abs(self.around) - 145.0) / 180.0
        move = 0.0 if before is None else abs((self.around - before.around + 180) % 360 - 180) / 180
        return 0.25 * side + 0.3 * (self.above - 30.0) / 45.0 + 0.1 * move


PLACES = tuple(
    Viewpoint(around, above, distance)
    for above, distance in ((32.0, 2.8), (50.0, 2.9), (72.0, 3.1))
    for around in (145.0, -145.0, 180.0, 105.0, -105.0, 60.0, -60.0)
)


class Follower:
    """Follows the robot of world 0 and looks for a place from which it is seen.

    It glides with the robot, and cuts where furniture or walls have come between. An engine that
    casts no rays keeps its own camera.
    """

    def __init__(self) -> None:
        self._place: Viewpoint | None = None
        self._focus = np.zeros(3)
        self._pose = np.zeros(3)
        """World azimuth and elevation, rad, and distance, m."""
        self._hidden, self._seconds, self._looked = 0, -np.inf, -np.inf
        self._blind = False

    def look(self, sim: Simulator, target: np.ndarray | None, seconds: float) -> View | None:
        """Return where to look from, ``None`` for the engine's own camera.

        Args:
            sim: stepped to ``seconds``.
            target: (3,) object that the robot is about, ``None`` if there is none.
            seconds: of simulated time since the episode began.
        """
        if self._blind:
            return None
        state = sim.state()
        x, y, yaw = (float(value) for value in state.base_pose[0])
        ahead = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        focus = np.array([x, y, _FOCUS_HEIGHT]) + _FOCUS_AHEAD * ahead
        points = [np.array([x, y, height]) for height in _HEIGHTS]
        points.append(np.asarray(state.ee_pos[0], dtype=np.float64))
        if target is not None and np.hypot(*(target[:2] - (x, y))) < _NEAR_TARGET:
            points.append(np.asarray(target, dtype=np.float64))
        try:
            self._follow(sim, np.stack(points), focus, yaw, seconds)
        except UserError:
            self._blind = True
            return None
        around, above, distance = self._pose
        flat = np.cos(above)
        out = np.array([np.cos(around) * flat, np.sin(around) * flat, np.sin(above)])
        return self._focus + distance * out, self._focus.copy()

    def _follow(
        self, sim: Simulator, points: np.ndarray, focus: np.ndarray, yaw: float, seconds: float
    ) -> None:
        passed, self._seconds = seconds - self._seconds, seconds
        if self._place is not None and passed >= 0:
            wanted = _pose(self._place, yaw)
            turned = 1.0 - np.exp(-passed / _TURN_SECONDS)
            gap = wanted - self._pose
            gap[0] = (gap[0] + np.pi) % (2 * np.pi) - np.pi
            self._pose = self._pose + turned * gap
            self._focus += (1.0 - np.exp(-passed / _MOVE_SECONDS)) * (focus - self._focus)
            if seconds - self._looked < _LOOK_SECONDS:
                return
            self._looked = seconds
            seen = self._seen(sim, points, self._pose)
            self._hidden = 0 if seen >= _ENOUGH else self._hidden + 1
            if seen >= _LITTLE and self._hidden < _HIDDEN_LOOKS:
                return
        shown = [
            self._seen(sim, points, _pose(place, yaw)) - place.cost(self._place) for place in PLACES
        ]
        self._place = PLACES[int(np.argmax(shown))]
        self._pose, self._focus = _pose(self._place, yaw), focus
        self._looked, self._hidden = seconds, 0

    def _seen(self, sim: Simulator, points: np.ndarray, pose: np.ndarray) -> float:
        """Return the share of points between which and the eye there is nothing."""
        around, above, distance = pose
        flat = np.cos(above)
        out = np.array([np.cos(around) * flat, np.sin(around) * flat, np.sin(above)])
        # Rays start a little off what the point lies on, and end at the eye or beside it.
        free = sim.cast(points + 0.05 * out, out)
        return float(np.mean(free > distance + _MARGIN))


def _pose(place: Viewpoint, yaw: float) -> np.ndarray:
    around, above = np.radians([place.around, place.above])
    return np.array([yaw + around, above, place.distance])
