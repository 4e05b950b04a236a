"""What a video shows beside the world: depth inset, running skill, plan progress, result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from planner.chain.interface import AgentReport
from skills.tasks.tolerances import RELEASED_AT
from tpsrl.episodes.types import Episode

_WHITE, _GREY, _GREEN = (255, 255, 255), (170, 170, 170), (120, 220, 120)
_RED, _YELLOW = (240, 110, 100), (255, 210, 80)
_BAND = (0, 0, 0, 150)
_PLAN_LINES = 7
_INSET = 144


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
    """

    title: str
    step: int
    seconds: float
    speed: int
    report: AgentReport
    result: bool | None = None
    message: str = ""


def compose(picture: np.ndarray, depth: np.ndarray | None, caption: Caption) -> np.ndarray:
    """Return the picture with inset and words drawn over it.

    Args:
        picture: (H, W, 3) uint8 RGB.
        depth: (h, w, 1) float32 in [0, 1], or ``None``.
        caption: what to write.
    """
    image = Image.fromarray(picture).convert("RGBA")
    layer = Image.new("RGBA", image.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    _draw_head(draw, caption, image.width)
    _draw_plan(draw, caption.report, image.height)
    if depth is not None:
        _paste_depth(layer, draw, depth, image.width)
    if caption.result is not None:
        _draw_result(draw, caption, image.width, image.height)
    return np.asarray(Image.alpha_composite(image, layer).convert("RGB"))


def target_boxes(episode: Episode, report: AgentReport, object_pos: np.ndarray) -> list[Any]:
    """Return wireframes at the running action's object (yellow) and its goal (green).

    Other targets that are not at their goals yet get thin grey ones.

    Args:
        episode: its targets and labels.
        report: names the running action.
        object_pos: (O, 3) positions now, m.
    """
    running = running_target(episode, report)
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


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def _draw_head(draw: ImageDraw.ImageDraw, caption: Caption, width: int) -> None:
    draw.rectangle((0, 0, width, 44), fill=_BAND)
    draw.text((8, 4), caption.title, font=_font(14), fill=_WHITE)
    speed = f"  {caption.speed}x" if caption.speed > 1 else ""
    clock = f"{caption.seconds:5.1f} s  step {caption.step}{speed}"
    draw.text((width - 8, 4), clock, font=_font(14), fill=_GREY, anchor="ra")
    skills = caption.report.skills
    if skills:
        now = skills[-1]
        policy = f" ({now.policy} policy)" if now.policy else ""
        text = f"skill: {now.skill}{policy}   {now.action}   {now.steps} steps"
        colour = _GREEN if now.policy == "learned" else _YELLOW
        draw.text((8, 23), text, font=_font(14), fill=colour)


def _draw_plan(draw: ImageDraw.ImageDraw, report: AgentReport, height: int) -> None:
    total = len(report.plan)
    if not total:
        return
    first = max(0, min(report.cursor - 2, total - _PLAN_LINES))
    lines = report.plan[first : first + _PLAN_LINES]
    top = height - 17 * (len(lines) + 1) - 10
    right = 30 + max(draw.textlength(text, font=_font(12)) for text in lines)
    draw.rectangle((0, top - 4, max(right, 170), height), fill=_BAND)
    done = min(report.cursor, total)
    head = f"plan: {done}/{total} done" + (f", replanned {report.replans}x" * bool(report.replans))
    draw.text((8, top - 2), head, font=_font(13), fill=_WHITE)
    for row, text in enumerate(lines):
        index = first + row
        colour = _GREEN if index < report.cursor else _WHITE if index == report.cursor else _GREY
        y = top + 17 * (row + 1)
        if index <= report.cursor:
            box = (9, y + 4, 16, y + 11)
            draw.rectangle(box, fill=colour if index < report.cursor else None, outline=colour)
        draw.text((22, y), text, font=_font(12), fill=colour)


def _paste_depth(
    layer: Image.Image, draw: ImageDraw.ImageDraw, depth: np.ndarray, width: int
) -> None:
    grey = (255 * (1.0 - np.clip(np.asarray(depth)[..., 0] / 0.5, 0.0, 1.0))).astype(np.uint8)
    inset = Image.fromarray(grey).resize((_INSET, _INSET), Image.Resampling.NEAREST)
    corner = (width - _INSET - 8, 52)
    layer.paste(inset.convert("RGBA"), corner)
    bottom = corner[1] + _INSET
    draw.rectangle((corner[0] - 1, bottom, corner[0] + _INSET, bottom + 17), fill=_BAND)
    edge = (corner[0] - 1, corner[1] - 1, corner[0] + _INSET, bottom + 17)
    draw.rectangle(edge, outline=_WHITE)
    text = "head depth, 0 to 5 m"
    draw.text((corner[0] + 3, bottom + 3), text, font=_font(11), fill=_WHITE)


def _draw_result(draw: ImageDraw.ImageDraw, caption: Caption, width: int, height: int) -> None:
    colour = _GREEN if caption.result else _RED
    middle = height // 2
    draw.rectangle((0, middle - 30, width, middle + 30), fill=(0, 0, 0, 190))
    text = "success" if caption.result else f"failed: {caption.message}"
    draw.text((width // 2, middle), text, font=_font(28), fill=colour, anchor="mm")
