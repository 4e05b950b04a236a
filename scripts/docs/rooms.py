"""The map of the rooms, drawn from the list that tests/test_rooms.py reads against the sources."""

from __future__ import annotations

import ast
import re
from html import escape

from tests.test_rooms import FLOORS, OURS, ROOT, imports, modules

WIDTH, STEP, PAD, COLUMN = 960, 34, 12, 22
LINE, CHIP, LETTER = 24, 26, 6.8
"""Heights of a line of text and of a row of names, width of a letter in them; all in pixels."""


def rooms_map() -> str:
    """Return the map as SVG: one stair a room, the lowest at the bottom, arrows to what it uses."""
    right = WIDTH - COLUMN * len(OURS)
    stairs: dict[str, tuple[float, float]] = {}
    parts, top = [], 0.0
    for room in reversed(OURS):
        left = STEP * OURS.index(room)
        rows = _rows(_names(room), right - left - 2 * PAD)
        height = 2 * PAD + LINE + CHIP * len(rows)
        parts.append(_stair(room, left, top, right - left, height, rows))
        stairs[room] = (top, height)
        top += height + PAD
    for place, room in enumerate(room for room in reversed(OURS) if _uses(room)):
        parts.append(_arrows(room, right, right + COLUMN * (place + 0.7), stairs))
    label = "Rooms of tpsrl: each imports only those below it"
    return (
        f'<figure><svg class="rooms" viewBox="0 0 {WIDTH} {top:.0f}" role="img" '
        f'aria-label="{label}"><defs><marker id="into" viewBox="0 0 8 8" refX="8" refY="4" '
        f'markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
        f"{''.join(parts)}</svg></figure>"
    )


def _names(room: str) -> list[str]:
    """Return the parts of a room from the ground up."""
    inner = [floor.split(".")[1] for floor in FLOORS if floor.startswith(f"{room}.")]
    inner = inner or sorted(name.split(".")[1] for name in modules() if name.startswith(f"{room}."))
    return [name for name in dict.fromkeys(inner) if not name.startswith("_")]


def _uses(room: str) -> list[str]:
    """Return the other rooms that a room imports, from the ground up."""
    pairs = {(name.partition(".")[0], other.partition(".")[0]) for name, _, other, _ in imports()}
    return [other for other in OURS if other != room and (room, other) in pairs]


def _rows(names: list[str], width: float) -> list[list[tuple[str, float, float]]]:
    """Return rows of (name, left edge, width) that fit into a stair."""
    rows: list[list[tuple[str, float, float]]] = []
    at = width
    for name in names:
        wide = LETTER * len(name) + 14
        if at + wide > width:
            rows.append([])
            at = 0.0
        rows[-1].append((name, at, wide))
        at += wide + 6
    return rows


def _stair(
    room: str,
    left: float,
    top: float,
    width: float,
    height: float,
    rows: list[list[tuple[str, float, float]]],
) -> str:
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""
    about = re.split(r"[.;\n]", text.removeprefix("tpsrl: ").replace("``", ""))[0]
    parts = [
        f'<rect class="stair" x="{left}" y="{top}" width="{width}" height="{height}" rx="4"/>',
        f'<text x="{left + PAD}" y="{top + PAD + 14}"><tspan class="room">{room}/</tspan>'
        f'<tspan dx="10">{escape(about)}</tspan></text>',
    ]
    for index, row in enumerate(rows):
        y = top + PAD + LINE + CHIP * index
        for name, at, wide in row:
            x = left + PAD + at
            parts.append(f'<rect class="part" x="{x}" y="{y}" width="{wide}" height="20" rx="3"/>')
            parts.append(f'<text class="name" x="{x + 7}" y="{y + 14}">{name}</text>')
    return "".join(parts)


def _arrows(room: str, right: float, x: float, stairs: dict[str, tuple[float, float]]) -> str:
    """Draw a line from a room down its column, and from there into each room that it uses."""
    start = stairs[room][0] + 20
    ends = [stairs[other][0] + 20 + (x - right) / 3 for other in _uses(room)]
    down = f'<path class="use" d="M{right} {start}H{x:.0f}V{max(ends):.0f}"/>'
    return down + "".join(
        f'<path class="use" d="M{x:.0f} {y:.0f}H{right}" marker-end="url(#into)"/>' for y in ends
    )
