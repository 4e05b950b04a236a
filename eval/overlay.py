"""What a video shows beside the picture: running skill, plan, its reason, head depth, a map."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from eval.words import reason, spoken
from planner.chain.interface import AgentReport
from skills.tasks.tolerances import RELEASED_AT
from tpsrl.episodes.types import Episode

_BACK = (24, 26, 30)
_WHITE, _GREY, _GREEN = (240, 240, 240), (150, 152, 158), (120, 220, 120)
_RED, _YELLOW = (240, 110, 100), (255, 210, 80)
_ROW, _LETTER = 21, 7.3
"""Height of a line of the plan, and about the width of its letters, pixels."""
_CLOCK = 220
"""Width of the step and its seconds at the right of a title, pixels."""
_DEPTH_REACH = 0.5
"""Of the 0 to 1 of a depth picture: what is farther is black."""

Spot = tuple[int, int]


@dataclass(frozen=True)
class Arrangement:
    """Where the parts of a panel stand, pixels.

    Attributes:
        size: width and height of the panel.
        picture: of the world beside or above it.
        below: the panel is below the picture, otherwise at its right.
        skill: upper left corner.
        plan: upper left corner.
        rows: lines of the plan.
        depth: corner of the head depth picture, its side is ``side``.
        side: of the head depth picture, 0 for none.
        chart: corner of the map.
        chart_size: most width and height of the map.
    """

    size: Spot
    picture: Spot
    below: bool
    skill: Spot
    plan: Spot
    rows: int
    depth: Spot
    side: int
    chart: Spot
    chart_size: Spot


WHOLE = Arrangement(
    (320, 720), (960, 720), False, (14, 78), (14, 132), 10, (14, 410), 112, (14, 534), (292, 176)
)
"""1280x720: one episode."""
HALF = Arrangement(
    (640, 240), (640, 480), True, (14, 36), (14, 84), 5, (0, 0), 0, (404, 40), (224, 190)
)
"""640x720: one of two episodes side by side."""


@dataclass(frozen=True)
class Caption:
    """The words of one frame.

    Attributes:
        title: scenario and episode.
        step: control steps so far.
        seconds: simulated time.
        speed: video seconds pass this many times faster than simulated ones.
        report: of the agent.
        result: ``None`` while it runs, else success.
        message: shown with the result.
        notes: further lines, in place of a plan.
    """

    title: str
    step: int
    seconds: float
    speed: int
    report: AgentReport
    result: bool | None = None
    message: str = ""
    notes: Sequence[str] = ()


class Panel:
    """Draws a panel; what does not change from frame to frame is drawn once.

    Args:
        layout: where things stand.
        episode: whose labels the plan has.
    """

    def __init__(self, layout: Arrangement, episode: Episode) -> None:
        self.layout, self._episode = layout, episode
        self._still: tuple[Any, Image.Image] | None = None

    def frame(
        self,
        picture: np.ndarray,
        caption: Caption,
        depth: np.ndarray | None = None,
        chart: Image.Image | None = None,
    ) -> np.ndarray:
        """Return picture and panel together, (H, W, 3) uint8.

        Args:
            picture: (h, w, 3) uint8 RGB of the world, of the layout's size.
            caption: what to write.
            depth: (d, d, 1) float32 in [0, 1], or ``None``.
            chart: the map, or ``None``.
        """
        image = self._background(caption).copy()
        draw = ImageDraw.Draw(image)
        speed = f"   {caption.speed}x" if caption.speed > 1 else ""
        clock = f"{caption.seconds:.1f} s   step {caption.step}{speed}"
        width = self.layout.size[0]
        if self.layout.below:
            draw.text((width - 14, 12), clock, font=_font(14), fill=_GREY, anchor="ra")
        else:
            draw.text((14, 42), clock, font=_font(15), fill=_GREY)
        if caption.report.skills:
            self._draw_skill(draw, caption.report)
        if depth is not None and self.layout.side:
            _paste_depth(image, draw, depth, self.layout.depth, self.layout.side)
        if chart is not None:
            image.paste(chart, self.layout.chart)
        if caption.result is not None:
            picture = _with_result(picture, caption)
        return np.concatenate([picture, np.asarray(image)], axis=0 if self.layout.below else 1)

    def _background(self, caption: Caption) -> Image.Image:
        report = caption.report
        key = (caption.title, tuple(report.plan), report.cursor, report.replans, caption.notes)
        if self._still is None or self._still[0] != key:
            image = Image.new("RGB", self.layout.size, _BACK)
            draw = ImageDraw.Draw(image)
            self._draw_title(draw, caption.title)
            for row, text in enumerate(caption.notes):
                x, y = self.layout.plan
                draw.text((x, y + _ROW * row), text, font=_font(14), fill=_GREY)
            if report.plan:
                self._draw_plan(draw, report)
            self._still = (key, image)
        return self._still[1]

    def _draw_title(self, draw: ImageDraw.ImageDraw, title: str) -> None:
        """Write the title, smaller and in two lines where it is a long one."""
        room = self.layout.size[0] - (_CLOCK if self.layout.below else 28)
        if _font(18).getlength(title) <= room:
            draw.text((14, 10), title, font=_font(18), fill=_WHITE)
            return
        most = 1 if self.layout.below else 2
        lines = textwrap.wrap(title, int(room / _LETTER), max_lines=most, placeholder=" ...")
        for row, line in enumerate(lines):
            draw.text((14, 6 + 17 * row), line, font=_font(14), fill=_WHITE)

    def _draw_skill(self, draw: ImageDraw.ImageDraw, report: AgentReport) -> None:
        now, (x, y) = report.skills[-1], self.layout.skill
        colour = _GREEN if now.policy == "learned" else _YELLOW
        text = _cut(spoken(now.action, self._episode), self._letters(8.6))
        draw.text((x, y), text, font=_font(17), fill=colour)
        policy = f", {now.policy} policy" if now.policy else ""
        below = f"skill {now.skill}{policy}, {now.steps} steps"
        draw.text((x, y + 24), below, font=_font(13), fill=_GREY)

    def _draw_plan(self, draw: ImageDraw.ImageDraw, report: AgentReport) -> None:
        (x, y), rows, total = self.layout.plan, self.layout.rows, len(report.plan)
        done = min(report.cursor, total)
        draw.text((x, y), f"plan: {done} of {total} done", font=_font(14), fill=_WHITE)
        first = max(0, min(report.cursor - 2, total - rows))
        for row, action in enumerate(report.plan[first : first + rows]):
            index, top = first + row, y + _ROW * (row + 1) + 2
            before, now = index < report.cursor, index == report.cursor
            colour = _GREEN if before else _WHITE if now else _GREY
            mark = (x + 2, top + 5, x + 9, top + 12)
            draw.rectangle(mark, fill=colour if before else None, outline=colour)
            text = _cut(spoken(action, self._episode), self._letters() - 2)
            draw.text((x + 17, top), text, font=_font(14), fill=colour)
        why = reason(report, self._episode)
        if why:
            number = f" ({report.replans + 1})" if report.replans else ""
            text = f"new plan{number}, because {why}"
            most = 1 if self.layout.below else 2
            lines = textwrap.wrap(text, self._letters(), max_lines=most, placeholder=" ...")
            top = y + _ROW * (min(rows, total) + 1) + 4
            for row, line in enumerate(lines):
                draw.text((x, top + 17 * row), line, font=_font(13), fill=_YELLOW)

    def _letters(self, width: float = _LETTER) -> int:
        """Return how many letters a line of the panel holds."""
        room = self.layout.chart[0] - 28 if self.layout.below else self.layout.size[0] - 28
        return int(room / width)


def running_target(episode: Episode, report: AgentReport) -> int | None:
    """Return the index of the target that the running action is about, ``None`` if unknown."""
    texts = [report.skills[-1].action] if report.skills else []
    if 0 <= report.cursor < len(report.plan):
        texts.append(report.plan[report.cursor])
    for text in texts:
        words = re.split(r"[(),\s]+", text)
        for index, target in enumerate(episode.targets):
            if any(word.endswith(target.label) for word in words):
                return index
    return None


def target_boxes(episode: Episode, running: int | None, object_pos: np.ndarray) -> list[Any]:
    """Return wireframes at the running action's object (yellow) and its goal (green).

    Other targets that are not at their goals yet get thin grey ones.

    Args:
        episode: its targets and labels.
        running: index of the target that the running action is about.
        object_pos: (O, 3) positions now, m.
    """
    boxes: list[Any] = []
    for index, target in enumerate(episode.targets):
        position = np.asarray(object_pos[target.object_index], dtype=np.float64)
        goal = np.asarray(target.goal_pos, dtype=np.float64)
        if index == running:
            boxes.append((position, np.full(3, 0.09), (1.0, 0.82, 0.1, 1.0)))
            boxes.append((goal, np.full(3, 0.11), (0.2, 0.9, 0.3, 1.0)))
        elif np.linalg.norm(position - goal) > RELEASED_AT:
            boxes.append((position, np.full(3, 0.06), (0.7, 0.7, 0.7, 0.6)))
    return boxes


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 2]}.."


def _paste_depth(
    image: Image.Image, draw: ImageDraw.ImageDraw, depth: np.ndarray, corner: Spot, side: int
) -> None:
    near = 1.0 - np.clip(np.asarray(depth)[..., 0] / _DEPTH_REACH, 0.0, 1.0)
    grey = Image.fromarray((255 * near).astype(np.uint8))
    image.paste(grey.resize((side, side), Image.Resampling.NEAREST), corner)
    x, y = corner
    for row, text in enumerate(("head camera,", "depth: white is near,", "black 5 m or more")):
        draw.text((x + side + 12, y + 17 * row), text, font=_font(13), fill=_GREY)


def _with_result(picture: np.ndarray, caption: Caption) -> np.ndarray:
    """Return the picture with a bar at its bottom that says how the episode ended."""
    colour = _GREEN if caption.result else _RED
    height, width = picture.shape[:2]
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, height - 64, width, height), fill=_BACK)
    text = "success" if caption.result else f"failed: {caption.message}"
    middle = (width // 2, height - 32)
    draw.text(middle, _cut(text, width // 15), font=_font(26), fill=colour, anchor="mm")
    return np.asarray(image)
