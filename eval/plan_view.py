"""A small map beside the picture: free space, the robot and its way, objects and their goals."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.sim.door import Simulator

_CELL = 0.06
_EDGE = 0.3
_FREE, _TAKEN = (74, 78, 86), (36, 38, 43)
_TRAIL, _WAY, _ROBOT = (110, 150, 200), (255, 210, 80), (90, 190, 255)
_OBJECT, _GOAL = (255, 210, 80), (120, 220, 120)
_NEW_WAY = 15
"""Steps after which the way ahead is looked for again."""


class SmallMap:
    """Draws the apartment of world 0 from above, x to the right.

    Args:
        sim: reset to the episode.
        episode: whose targets are shown.
        width: pixels.
        height: most pixels.
    """

    def __init__(self, sim: Simulator, episode: Episode, width: int, height: int) -> None:
        self._episode, self._free = episode, sim.scene(0).navigation
        low, high = _extent(sim, episode)
        self._low, self._high = low - _EDGE, high + _EDGE
        span = self._high - self._low
        self._scale = min(width / span[0], height / span[1])
        self.size = (int(span[0] * self._scale), int(span[1] * self._scale))
        self._base = self._draw_base()
        self._trail: list[tuple[float, float]] = []
        self._way: tuple[tuple[int, int | None], list[tuple[float, float]]] = ((-1, None), [])

    def draw(
        self, sim: Simulator, step: int, running: int | None, goal: np.ndarray | None
    ) -> Image.Image:
        """Return the map now.

        Args:
            sim: the simulator.
            step: control steps so far.
            running: index of the target that the running action is about.
            goal: (3,) where the robot is heading, ``None`` if that is not known.
        """
        state = sim.state()
        x, y, yaw = (float(value) for value in state.base_pose[0])
        here = self._pixel(x, y)
        if not self._trail or np.hypot(*np.subtract(here, self._trail[-1])) > 1.5:
            if self._trail:
                ImageDraw.Draw(self._base).line([self._trail[-1], here], fill=_TRAIL, width=2)
            self._trail.append(here)
        picture = self._base.copy()
        draw = ImageDraw.Draw(picture)
        self._draw_way(draw, np.array([x, y]), step, running, goal)
        for index, target in enumerate(self._episode.targets):
            now = state.object_pos[0][target.object_index]
            size = 5 if index == running else 3
            px, py = self._pixel(*target.goal_pos[:2])
            draw.rectangle((px - size, py - size, px + size, py + size), outline=_GOAL, width=2)
            px, py = self._pixel(float(now[0]), float(now[1]))
            draw.ellipse((px - size, py - size, px + size, py + size), fill=_OBJECT)
        corners = [(0.42, 0.0), (-0.3, 0.26), (-0.3, -0.26)]
        cos, sin = np.cos(yaw), np.sin(yaw)
        shape = [self._pixel(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in corners]
        draw.polygon(shape, fill=_ROBOT)
        return picture

    def _draw_way(
        self,
        draw: ImageDraw.ImageDraw,
        here: np.ndarray,
        step: int,
        running: int | None,
        goal: np.ndarray | None,
    ) -> None:
        key = (step // _NEW_WAY, running)
        if goal is not None and key != self._way[0]:
            points = self._free.path(self._free.snap(here), self._free.snap(np.asarray(goal)[:2]))
            line = [] if points is None else [self._pixel(*point) for point in points]
            self._way = (key, line)
        if goal is not None and len(self._way[1]) > 1:
            draw.line(self._way[1], fill=_WAY, width=1)

    def _draw_base(self) -> Image.Image:
        columns, rows = (int(np.ceil(n)) for n in (self._high - self._low) / _CELL)
        xs = self._low[0] + _CELL * (np.arange(columns) + 0.5)
        ys = self._high[1] - _CELL * (np.arange(rows) + 0.5)
        free = self._free.is_navigable(np.stack(np.meshgrid(xs, ys), axis=-1))
        cells = np.where(free[..., None], _FREE, _TAKEN).astype(np.uint8)
        return Image.fromarray(cells).resize(self.size, Image.Resampling.BILINEAR)

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        return (x - self._low[0]) * self._scale, (self._high[1] - y) * self._scale


def _extent(sim: Simulator, episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners (2,) of the box around free space, furniture and goals."""
    points = [np.asarray(pose)[:2] for pose in sim.scene(0).furniture_pose.values()]
    points += [np.asarray(target.goal_pos)[:2] for target in episode.targets]
    points += [np.asarray(sim.state().base_pose[0])[:2]]
    centre = np.mean(points, axis=0)
    grid = np.stack(np.meshgrid(*[np.arange(-9.0, 9.0, 0.25)] * 2), axis=-1) + centre
    free = grid[sim.scene(0).navigation.is_navigable(grid)]
    if not len(free):
        raise UserError(f"layout {episode.layout} has no free space to draw; check its dataset.")
    every = np.concatenate([free, np.stack(points)])
    return every.min(axis=0), every.max(axis=0)
