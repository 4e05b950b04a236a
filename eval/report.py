"""``report.html`` of a result folder: one file that needs no network and no other file."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from eval.camera import Follower
from eval.overlay import running_target, target_boxes
from eval.recording import FOLDER, Recording, states_file
from eval.statistics import wilson
from eval.table import stage_label
from planner.chain.interface import AgentReport
from tpsrl.engines import make_stage
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.jobs.folder import SUMMARY_FILE, read_wanted
from ver_trainer.reading import read_json

REPORT_FILE = "report.html"
_MOST_PICTURES = 12
_WIDTH, _HEIGHT = 480, 360
_LINE, _ROW = 620, 15
"""Pixels: width of the longest timeline, height of one."""
_COLOURS = {
    "navigate": "#4c78a8", "pick": "#f58518", "place": "#54a24b", "open_cab": "#b279a2",
    "close_cab": "#d4a6c8", "open_fridge": "#72b7b2", "close_fridge": "#9ecae9",
    "reset_arm": "#d5d5d5", "wait": "#eeeeee", "release": "#bab0ac",
    "spin": "#79706e",
}  # fmt: skip
_OTHER = "#9d755d"
_CSS = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;
color:#212529}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse}
td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}th{font-weight:600}
.n{text-align:right}svg{display:block}figure{display:inline-block;margin:0 .8rem .8rem 0;
width:30%;min-width:17rem;vertical-align:top}figure img{width:100%}figcaption{font-size:.85rem}
.key i{display:inline-block;width:.8rem;height:.8rem;margin:0 .3rem 0 .9rem}small{color:#666}
code{font-size:.85rem}td:first-child{white-space:nowrap}"""

Record = Mapping[str, Any]


def write_report(folder: Path) -> Path:
    """Write the report of an evaluation, of a chain or of a skill.

    Args:
        folder: with config, records and summary.

    Returns:
        The file, replaced at once.

    Raises:
        UserError: the folder holds no evaluation.
        StorageError: the file cannot be written.
    """
    config, found = read_wanted(folder)
    records = [record for _, record in sorted(found.items())]
    summary = read_json(folder / SUMMARY_FILE)
    parts = [
        _head(config, summary),
        _rates(records, summary),
        _causes(records),
        _skills(summary),
        _timelines(records),
        _pictures(folder, records),
        _origin(config, summary),
    ]
    title = escape(_title(config))
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>'
        f"{title}</title><style>{_CSS}</style><body>{''.join(parts)}</body></html>\n"
    )
    path = folder / REPORT_FILE
    write_atomically(path, page.encode())
    return path


def _title(config: Record) -> str:
    names = [config.get(key) for key in ("scenario", "skill", "split", "agent", "executor")]
    return " ".join(str(name) for name in names if name)


def _head(config: Record, summary: Record) -> str:
    wanted = summary["wanted_episodes"]
    missing = "" if summary["complete"] else ", not complete"
    line = f"{summary['episodes']} of {wanted} episodes{missing}; {escape(summary['date'])}"
    return f"<h1>{escape(_title(config))}</h1><p>{line}</p>"


def _rates(records: Sequence[Record], summary: Record) -> str:
    """Success, and how far the episodes got, with Wilson intervals."""
    rows = []
    for name in summary.get("stages", {}):
        reached = sum(r["ordered_stages"].get(name) is not None for r in records)
        rows.append((f"reached {stage_label(name)}", reached, len(records)))
    for kind, found in summary.get("places", {}).items():
        rows.append((f"in a place of kind {kind}", found["successes"], found["episodes"]))
    for name, found in summary.get("ways", {}).items():
        rows.append((f"way of the base {name}", found["successes"], found["episodes"]))
    rows.append(("success", sum(bool(r["success"]) for r in records), len(records)))
    head = "<tr><th></th><th class=n>episodes</th><th class=n>rate</th><th>95% Wilson interval</th>"
    lines = "".join(_rate(*row) for row in rows)
    return f"<h2>How far they got</h2><table>{head}<th></th></tr>{lines}</table>"


def _rate(name: str, won: int, count: int) -> str:
    if not count:
        return ""
    low, high = wilson(won, count)
    share = won / count
    bar = (
        '<svg width="220" height="14"><rect width="220" height="14" fill="#eee"/>'
        f'<rect width="{220 * share:.1f}" height="14" fill="#4c78a8"/>'
        f'<path d="M{220 * low:.1f} 7H{220 * high:.1f}M{220 * low:.1f} 3v8M{220 * high:.1f} 3v8"'
        ' stroke="#222" fill="none"/></svg>'
    )
    cells = f"<td class=n>{won} of {count}</td><td class=n>{share:.1%}</td>"
    interval = f"{low:.1%} to {high:.1%}"
    return f"<tr><td>{escape(name)}</td>{cells}<td>{interval}</td><td>{bar}</td></tr>"


def _ending(record: Record) -> tuple[str, str]:
    """Return skill and cause of a failed episode."""
    failure = record.get("failure")
    if failure:
        return str(failure["skill"]), str(failure["cause"])
    reason = record.get("reason")
    return "", f"{record.get('cause', '')}" + (f" ({reason})" if reason else "")


def _causes(records: Sequence[Record]) -> str:
    failed = [record for record in records if not record["success"]]
    if not failed:
        return "<h2>Failures</h2><p>None.</p>"
    counts: dict[tuple[str, str], list[int]] = {}
    for record in failed:
        counts.setdefault(_ending(record), []).append(int(record["index"]))
    rows = []
    for (skill, cause), indices in sorted(counts.items(), key=lambda item: -len(item[1])):
        which = ", ".join(map(str, indices[:12])) + (", ..." if len(indices) > 12 else "")
        length = 180 * len(indices) / len(failed)
        bar = (
            f'<svg width="180" height="12"><rect width="{length:.1f}" height="12" fill="#e45756"/>'
        )
        rows.append(
            f"<tr><td>{escape(skill)}</td><td>{escape(cause)}</td><td class=n>{len(indices)}</td>"
            f"<td>{bar}</svg></td><td><small>{which}</small></td></tr>"
        )
    head = "<tr><th>skill</th><th>cause</th><th class=n>number</th><th></th><th>episodes</th></tr>"
    return f"<h2>Failures by cause</h2><table>{head}{''.join(rows)}</table>"


def _skills(summary: Record) -> str:
    rows = []
    for name, row in summary.get("skills", {}).items():
        low, high = wilson(round(row["success"] * row["runs"]), row["runs"])
        causes = ", ".join(f"{cause} {count}" for cause, count in row["failures"].items())
        rows.append(
            f"<tr><td>{escape(name)}</td><td class=n>{row['runs']}</td>"
            f"<td class=n>{row['success']:.1%}</td><td>{low:.1%} to {high:.1%}</td>"
            f"<td class=n>{row['steps']:.0f}</td><td>{escape(causes)}</td></tr>"
        )
    if not rows:
        return ""
    head = (
        "<tr><th>skill</th><th class=n>runs</th><th class=n>success</th>"
        "<th>95% Wilson interval</th><th class=n>mean steps</th><th>failed runs</th></tr>"
    )
    return f"<h2>Skills</h2><table>{head}{''.join(rows)}</table>"


def _timelines(records: Sequence[Record]) -> str:
    """A line for each episode: its skills one after the other, failed ones with a red foot."""
    longest = max((record["steps"] for record in records), default=0)
    if not longest:
        return ""
    scale, rows = _LINE / longest, []
    for number, record in enumerate(records):
        y, ending = _ROW * number, "success" if record["success"] else " ".join(_ending(record))
        rows.append(f'<text x="0" y="{y + 11}">{record["index"]}</text>')
        rows += _bars(record, 40, y, scale)
        x = 46 + scale * record["steps"]
        colour = "#2b8a3e" if record["success"] else "#c92a2a"
        rows.append(f'<text x="{x:.0f}" y="{y + 11}" fill="{colour}">{escape(ending)}</text>')
    used = {run["skill"] for record in records for run in record.get("skills", ())}
    names = [name for name in _COLOURS if name in used] + sorted(used - set(_COLOURS))
    key = "".join(f'<i style="background:{_colour(name)}"></i>{escape(name)}' for name in names)
    size = f'width="{_LINE + 340}" height="{_ROW * len(records)}"'
    drawing = f'<svg {size} font-size="11" font-family="system-ui,sans-serif">{"".join(rows)}</svg>'
    note = f"<small>the longest has {longest} steps, 30 a second</small>"
    return f"<h2>Every episode</h2><p class=key>{note}{key}</p>{drawing}"


def _bars(record: Record, x: float, y: float, scale: float) -> list[str]:
    runs = record.get("skills") or [{"skill": "", "action": "", "steps": record["steps"]}]
    bars = []
    for run in runs:
        width = scale * run["steps"]
        text = " ".join(str(run.get(key, "")) for key in ("action", "outcome", "cause"))
        tip = f"<title>{escape(text.strip())}, {run['steps']} steps</title>"
        place = f'x="{x:.1f}" width="{width:.1f}"'
        bars.append(
            f'<rect {place} y="{y}" height="12" fill="{_colour(run["skill"])}">{tip}</rect>'
        )
        if run.get("outcome") in ("failure", "timeout"):
            bars.append(f'<rect {place} y="{y + 9}" height="3" fill="#c92a2a"/>')
        x += width
    return bars


def _colour(skill: str) -> str:
    return _COLOURS.get(skill, _OTHER)


def _pictures(folder: Path, records: Sequence[Record]) -> str:
    """How the first failed episodes stood at their ends, where their states were kept."""
    files = [(r, states_file(folder, int(r["index"]))) for r in records if not r["success"]]
    kept = [(record, file) for record, file in files if file.exists()]
    if not kept:
        return ""
    try:
        shown = "".join(_figures(kept[:_MOST_PICTURES]))
    except UserError as error:  # no OpenGL library here, or a damaged file
        shown = f"<p>{escape(str(error))}</p>"
    note = (
        f"The first {min(len(kept), _MOST_PICTURES)} of {len(files)}. Yellow: what the robot was "
    )
    note += f"about; green: where it belongs. Their states are in {FOLDER}/; to see them move:"
    command = f"<code>tpsrl view results={escape(str(folder))}</code>"
    return f"<h2>Where failed episodes ended</h2><p>{note} {command}</p>{shown}"


def _figures(kept: Sequence[tuple[Record, Path]]) -> list[str]:
    figures, stage, scenes = [], None, None
    try:
        for record, file in kept:
            recording = Recording.load(file)
            wanted = recording.about["simulator"].get("scenes")
            if stage is None or wanted != scenes:
                if stage is not None:
                    stage.close()
                stage, scenes = make_stage(None, wanted), wanted
            stage.reset([recording.episode], [0])
            stage.place(recording.poses(len(recording) - 1))
            marks = recording.marks(len(recording) - 1)
            plan = recording.plans[marks.plan]["actions"] if marks.plan >= 0 else []
            report = AgentReport(plan, marks.cursor, recording.runs)
            running = running_target(recording.episode, report)
            positions = stage.state().object_pos[0]
            boxes = target_boxes(recording.episode, running, positions)
            about = running if running is None else recording.episode.targets[running].object_index
            view = Follower().look(stage, None if about is None else positions[about], 0.0)
            options = {"width": _WIDTH, "height": _HEIGHT, "boxes": boxes, "view": view}
            picture = stage.render("third_person", 0, **options)
            words = f"{record['index']}: {' '.join(_ending(record))}"
            figures.append(
                f'<figure><img alt="" src="{_embedded(picture)}">'
                f"<figcaption>{escape(words)}</figcaption></figure>"
            )
    finally:
        if stage is not None:
            stage.close()
    return figures


def _embedded(picture: Any) -> str:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _origin(config: Record, summary: Record) -> str:
    """Configuration, commit, those of earlier episodes, versions and machine."""
    rows = {f"config: {key}": value for key, value in config.items()}
    rows["commit"] = summary.get("commit")
    if summary.get("earlier"):
        rows["earlier: episodes by"] = "; ".join(_flat(run) for run in summary["earlier"])
    rows |= {key: summary.get(key) for key in ("engine", "versions", "machine")}
    lines = "".join(
        f"<tr><td>{escape(key)}</td><td><code>{escape(_flat(value))}</code></td></tr>"
        for key, value in rows.items()
    )
    return f"<h2>Where the numbers come from</h2><table>{lines}</table>"


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_flat(item) for item in value)
    return str(value)
