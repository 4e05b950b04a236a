"""What a robot has seen of the furniture: an occupancy grid from depth pictures and odometry.

Everything follows from what a robot has: its head's depth picture, its joints, and how its base
has moved since it began to look. Nothing here knows a simulator.
"""

from __future__ import annotations

import numpy as np

from tpsrl.compiled import compiled_later
from tpsrl.robot import fetch

CELL = 0.1
"""Side of a cell, m."""
SIDE = 80
"""Least number of cells along each side of a grid."""
_MARGIN = 4.0
"""At least so many metres longer than the way to the goal each side is."""
_LOW, _FLOOR = 0.1, 0.06
"""A point so high above the floor stands in the way, one so low is floor, m."""
_FARTHEST = 4.0
"""What is farther away than that is not looked at: a pixel is then wider than a cell, m."""
_ARM, _HELD, _BODY = 0.2, 0.35, 0.45
"""What is so near to the arm, to a cup that holds something or to the base is the robot, m."""
_FOUND, _SURE = 2, 8
"""What a cell is worth that is seen to be occupied, and the most it can be worth either way."""
_RADIUS = fetch.BASE_RADIUS
_COMFORT, _SLOWEST, _WITHIN = 0.3, 0.3, 0.05
"""Free space beside the robot where it is at full speed, m; its speed beside furniture; in it."""
_UNSEEN, _DOUBT = 0.7, 0.5
"""Speed where nothing has been seen yet, and what it costs to end there, m."""
_BEYOND, _OVER = 0.1, 0.3
"""Where no end of a way is within reach they are so much less near than the nearest; what rises
so far above the goal may hide it from an end, m."""
_JUST_ABOVE = (0.1, 0.25)
"""It does where something was seen so far above the goal, m: a shelf's front is open there."""
_ROUNDS, _SETTLED = 4, 0.01
"""At most so many times four sweeps; they end when none changes a time by more than that, m."""
_STAND = 0.25
"""Cells so far from an occupied one are ends: that is as exact as a cell is, m."""
_FAR = 1e3
_MOST = 30.0
"""Goals are looked for no farther away, m: what fell out of the world would make grids without
end."""


class OccupancyGrid:
    """One world's grid, in the frame of the base as it stood at the start.

    A cell counts how often it was seen to be occupied, less how often its floor was seen.

    Args:
        goal: (3,) what the robot is about, in that frame, m. Half way to it is the grid's centre.
            A height of inf is an unknown one: nothing hides it. Farther away than 30 m it counts
            as so far away in the same direction.

    Attributes:
        score: (k, k) int8, k at least ``SIDE``, above 0 where it is occupied, 0 where nothing was
            seen.
        top: (k, k) float32, the highest point seen in an occupied cell, m.
        hides: (k, k) bool, an occupied cell in which something was seen just above the goal.
    """

    def __init__(self, goal: np.ndarray) -> None:
        self.goal = np.asarray(goal, dtype=np.float64)
        far = float(np.hypot(self.goal[0], self.goal[1]))
        if far > _MOST:
            self.goal = np.append(self.goal[:2] * (_MOST / far), self.goal[2])
            far = _MOST
        side = max(SIDE, int(np.ceil((far + _MARGIN) / CELL)))
        self.low = self.goal[:2] / 2.0 - CELL * side / 2.0
        self.score = np.zeros((side, side), dtype=np.int8)
        self.top = np.zeros((side, side), dtype=np.float32)
        self.hides = np.zeros((side, side), dtype=np.bool_)

    def look(self, depth: np.ndarray, pose: np.ndarray, arm: np.ndarray, holds: bool) -> None:
        """Enter a picture.

        Args:
            depth: (k, k) float32 in [0, 1], 1 = 10 m.
            pose: (3,) of the base, m and rad.
            arm: (j, 3) points along the arm, the cup last, in the base frame, m.
            holds: whether the cup holds something.
        """
        cells = self.score, self.top, self.hides
        _look(*cells, depth, pose, arm, holds, self.low, float(self.goal[2]))

    def way(self) -> np.ndarray:
        """Return the way to where a robot can reach the goal, as far as is known.

        Where nothing was seen yet it is free.

        Returns:
            (k, k, 3) float32 at the centres of cells: its length, m, told as time at
            full speed, and the (2,) way to go.
        """
        table = np.empty((*self.score.shape, 3), dtype=np.float32)
        _way(self.score, self.top, self.hides, self.low, self.goal, table)
        return table


@compiled_later
def _of_robot(x: float, y: float, z: float, arm: np.ndarray, holds: bool) -> bool:
    """Tell whether a point in the base frame belongs to the robot or to what it holds."""
    if x * x + y * y < _BODY * _BODY:
        return True
    last = len(arm) - 1
    for k in range(last):
        a0, a1, a2 = arm[k, 0], arm[k, 1], arm[k, 2]
        b0, b1, b2 = arm[k + 1, 0] - a0, arm[k + 1, 1] - a1, arm[k + 1, 2] - a2
        p0, p1, p2 = x - a0, y - a1, z - a2
        along = (p0 * b0 + p1 * b1 + p2 * b2) / max(b0 * b0 + b1 * b1 + b2 * b2, 1e-9)
        along = min(max(along, 0.0), 1.0)
        p0, p1, p2 = p0 - along * b0, p1 - along * b1, p2 - along * b2
        if p0 * p0 + p1 * p1 + p2 * p2 < _ARM * _ARM:
            return True
    p0, p1, p2 = x - arm[last, 0], y - arm[last, 1], z - arm[last, 2]
    return holds and p0 * p0 + p1 * p1 + p2 * p2 < _HELD * _HELD


@compiled_later
def _look(
    score: np.ndarray,
    top: np.ndarray,
    hides: np.ndarray,
    depth: np.ndarray,
    pose: np.ndarray,
    arm: np.ndarray,
    holds: bool,
    low: np.ndarray,
    goal_height: float,
) -> None:
    pixels, side = len(depth), len(score)
    eye, at = fetch.HEAD_CAMERA_POSITION, fetch.HEAD_CAMERA_TARGET
    pitch = np.arctan2(at[2] - eye[2], at[0] - eye[0])
    ahead, down = np.cos(pitch), np.sin(pitch)
    tangent = np.tan(fetch.HEAD_CAMERA_HFOV / 2.0)
    cosine, sine = np.cos(pose[2]), np.sin(pose[2])
    found = np.zeros((side, side), dtype=np.int8)
    box = _around(pose, low, side)
    for i in range(pixels):
        up = (1.0 - 2.0 * (i + 0.5) / pixels) * tangent
        for j in range(pixels):
            z = depth[i, j] * fetch.DEPTH_RANGE[1]
            height = eye[2] + z * (down + up * ahead)
            high = height > fetch.NAVIGATION_HEIGHT or _FLOOR < height < _LOW
            if high or not 0.0 < z <= _FARTHEST:
                continue
            x, y = eye[0] + z * (ahead - up * down), (2.0 * (j + 0.5) / pixels - 1.0) * -tangent * z
            if height >= _LOW and _of_robot(x, y, height, arm, holds):
                continue
            a = int((pose[0] + cosine * x - sine * y - low[0]) / CELL)
            b = int((pose[1] + sine * x + cosine * y - low[1]) / CELL)
            if not (0 <= a < side and 0 <= b < side):
                continue
            box[0], box[1] = min(box[0], a), max(box[1], a + 1)
            box[2], box[3] = min(box[2], b), max(box[3], b + 1)
            if height < _LOW:
                found[a, b] = max(found[a, b], 1)
            else:
                found[a, b] = 2
                top[a, b] = max(top[a, b], height)
                if _JUST_ABOVE[0] < height - goal_height < _JUST_ABOVE[1]:
                    hides[a, b] = True
    _count(score, top, hides, found, pose, low, box)


@compiled_later
def _around(pose: np.ndarray, low: np.ndarray, side: int) -> np.ndarray:
    """Return (4,) int: first cell and one after the last along both sides that the base covers."""
    box = np.empty(4, dtype=np.int64)
    for k in range(2):
        first = int(np.floor((pose[k] - _RADIUS - low[k]) / CELL))
        last = int(np.floor((pose[k] + _RADIUS - low[k]) / CELL))
        box[2 * k], box[2 * k + 1] = min(max(first, 0), side), min(max(last + 1, 0), side)
    return box


@compiled_later
def _count(
    score: np.ndarray,
    top: np.ndarray,
    hides: np.ndarray,
    found: np.ndarray,
    pose: np.ndarray,
    low: np.ndarray,
    box: np.ndarray,
) -> None:
    """Count what one picture showed: ``found`` is 2 where something stands, 1 on the floor.

    Nothing was found outside the cells of ``box``, and the base is not there.
    """
    for a in range(box[0], box[1]):
        for b in range(box[2], box[3]):
            x, y = low[0] + CELL * (a + 0.5) - pose[0], low[1] + CELL * (b + 0.5) - pose[1]
            if x * x + y * y < _RADIUS * _RADIUS:
                score[a, b], top[a, b], hides[a, b] = -_SURE, 0.0, False
            elif found[a, b] == 2:
                score[a, b] = min(max(score[a, b], 0) + _FOUND, _SURE)
            elif found[a, b] == 1:
                score[a, b] = max(score[a, b] - 1, -_SURE)
                if score[a, b] <= 0:
                    score[a, b] = min(score[a, b], -1)
                    top[a, b], hides[a, b] = 0.0, False


@compiled_later
def _clear(score: np.ndarray) -> np.ndarray:
    """Return the (k, k) float32 distance of cells to the nearest occupied one, m, by a chamfer."""
    side = len(score)
    far = np.full((side + 2, side + 2), np.float32(_FAR))
    straight, slant = np.float32(CELL), np.float32(1.4 * CELL)
    for a in range(1, side + 1):
        for b in range(1, side + 1):
            if score[a - 1, b - 1] > 0:
                far[a, b] = 0.0
            above = min(far[a - 1, b - 1], far[a - 1, b + 1]) + slant
            beside = min(far[a - 1, b], far[a, b - 1]) + straight
            far[a, b] = min(far[a, b], above, beside)
    for a in range(side, 0, -1):
        for b in range(side, 0, -1):
            below = min(far[a + 1, b - 1], far[a + 1, b + 1]) + slant
            beside = min(far[a + 1, b], far[a, b + 1]) + straight
            far[a, b] = min(far[a, b], below, beside)
    return far[1:-1, 1:-1]


@compiled_later
def _sees(
    top: np.ndarray, hides: np.ndarray, score: np.ndarray, a: float, b: float, p: np.ndarray
) -> bool:
    """Tell whether nothing seen rises above a point, and is there just above it, before a cell."""
    length = np.hypot(p[0] - a, p[1] - b)
    steps = int(2.0 * length) + 1
    for k in range(steps):
        i = int(a + (p[0] - a) * k / steps + 0.5)
        j = int(b + (p[1] - b) * k / steps + 0.5)
        inside = 0 <= i < len(top) and 0 <= j < len(top)
        if inside and score[i, j] > 0 and hides[i, j] and top[i, j] > p[2] + _OVER:
            return False
    return True


@compiled_later
def _ends(
    score: np.ndarray,
    top: np.ndarray,
    hides: np.ndarray,
    clear: np.ndarray,
    low: np.ndarray,
    goal: np.ndarray,
) -> np.ndarray:
    """Return (k, k) bool: from where a robot can reach the goal."""
    side = len(score)
    p = np.array([(goal[0] - low[0]) / CELL - 0.5, (goal[1] - low[1]) / CELL - 0.5, goal[2]])
    far = np.full((side, side), _FAR)
    nearest = _FAR
    for a in range(side):
        for b in range(side):
            gap = CELL * np.hypot(a - p[0], b - p[1])
            if gap > fetch.FARTHEST_REACH or clear[a, b] < _STAND:
                continue
            if not _sees(top, hides, score, a, b, p):
                continue
            far[a, b] = gap
            nearest = min(nearest, gap)
    ends = far <= max(fetch.REACH, nearest + _BEYOND)
    if nearest == _FAR:
        i, j = min(max(int(p[0] + 0.5), 0), side - 1), min(max(int(p[1] + 0.5), 0), side - 1)
        ends[:] = False
        ends[i, j] = True
    return ends


@compiled_later
def _sweep(time: np.ndarray, slow: np.ndarray) -> None:
    """Solve the eikonal equation by sweeps in four orders (Zhao 2005, section 2).

    Args:
        time: (k, k) float32, what is left where ways end, and ``_FAR`` elsewhere and along the
            border.
        slow: (k, k) float32, time that a cell costs.
    """
    side = len(time)
    half, two = np.float32(0.5), np.float32(2.0)
    for order in range(4 * _ROUNDS):
        down, left = order % 2, order // 2 % 2
        change = np.float32(0.0)
        for m in range(1, side - 1):
            a = side - 1 - m if down else m
            for n in range(1, side - 1):
                b = side - 1 - n if left else n
                p, q = min(time[a - 1, b], time[a + 1, b]), min(time[a, b - 1], time[a, b + 1])
                old, step, gap = time[a, b], slow[a, b], p - q
                new = min(p, q) + step
                if new >= old and abs(gap) >= step:
                    continue
                if abs(gap) < step:
                    new = half * (p + q + np.sqrt(two * step * step - gap * gap))
                if new < old:
                    change = max(change, old - new)
                    time[a, b] = new
        if order > 3 and change < _SETTLED:
            return


@compiled_later
def _way(
    score: np.ndarray,
    top: np.ndarray,
    hides: np.ndarray,
    low: np.ndarray,
    goal: np.ndarray,
    table: np.ndarray,
) -> None:
    side = len(score)
    clear = _clear(score)
    ends = _ends(score, top, hides, clear, low, goal)
    slow = np.ones((side + 2, side + 2), dtype=np.float32)
    time = np.full((side + 2, side + 2), np.float32(_FAR))
    for a in range(side):
        for b in range(side):
            room = clear[a, b] - _RADIUS
            speed = min(max(room / _COMFORT, _SLOWEST), 1.0) if room >= 0.0 else _WITHIN
            slow[a + 1, b + 1] = CELL / (speed * _UNSEEN if score[a, b] == 0 else speed)
            if ends[a, b]:
                time[a + 1, b + 1] = _DOUBT if score[a, b] == 0 else 0.0
    _sweep(time, slow)
    for a in range(side):
        for b in range(side):
            table[a, b, 0] = time[a + 1, b + 1]
            i, k = max(a, 1), min(a + 2, side)
            table[a, b, 1] = (time[i, b + 1] - time[k, b + 1]) / (CELL * (k - i))
            i, k = max(b, 1), min(b + 2, side)
            table[a, b, 2] = (time[a + 1, i] - time[a + 1, k]) / (CELL * (k - i))
