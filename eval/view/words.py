"""The page's words: the plan with its state, the running skill, why there is a new plan."""

from __future__ import annotations

from html import escape

from eval.words import reason, spoken
from planner.chain.interface import AgentReport
from tpsrl.episodes.types import Episode

_LINE = '<div style="padding:1px 0;color:{colour};font-weight:{weight}">{mark}&ensp;{text}</div>'
_BOX = '<div style="font-size:0.8rem;line-height:1.35;padding:0 0.5rem">{}</div>'
_GREEN, _GREY, _DARK, _RED, _AMBER = "#2b8a3e", "#868e96", "#212529", "#c92a2a", "#b35c00"


def status_html(title: str, step: int, last: int, hertz: int, ending: str) -> str:
    """Return what is shown and how it stands.

    Args:
        title: of the episode.
        step: that is shown.
        last: step there is.
        hertz: steps a second.
        ending: ``""`` while it runs.
    """
    colour = _GREEN if ending == "success" else _RED
    end = f'<b style="color:{colour}">{escape(ending)}</b>' if ending else "running"
    clock = f"<span data-step>step {step}</span> of {last}, {step / hertz:.1f} s"
    return _BOX.format(f"<b>{escape(title)}</b><br>{clock}<br>{end}")


def plan_html(report: AgentReport, episode: Episode) -> str:
    """Return the plan: what is done, what runs, what comes; and why it is a new one."""
    lines = []
    for index, action in enumerate(report.plan):
        done, now = index < report.cursor, index == report.cursor
        colour = _GREEN if done else _DARK if now else _GREY
        mark = "✓" if done else "▶" if now else "·"
        weight = "600" if now else "400"
        lines.append(
            _LINE.format(
                colour=colour, weight=weight, mark=mark, text=escape(spoken(action, episode))
            )
        )
    why = reason(report, episode)
    if why:
        text = f"plan {report.replans + 1}, because: {why}"
        why = f'<div data-why style="color:{_AMBER};padding-bottom:3px">{escape(text)}</div>'
    return _BOX.format(why + ("".join(lines) or "no plan: one skill by itself"))


def skill_html(report: AgentReport, episode: Episode, steps: int, held: str, force: float) -> str:
    """Return the running skill and what came of the last ones.

    Args:
        report: as it stood.
        episode: what its labels stand for.
        steps: of the running skill.
        held: name of what is held, ``""`` for nothing.
        force: contact force, N.
    """
    if not report.skills:
        return _BOX.format("between two skills")
    now = report.skills[-1]
    policy = f", {now.policy} policy" if now.policy else ""
    text = f"<b>{escape(spoken(now.action, episode))}</b>{policy}, {steps} steps<br>"
    text += f"holds {escape(held) or 'nothing'}; contact force {force:.0f} N"
    for run in report.skills[-4:-1]:
        colour = _GREEN if run.outcome == "success" else _RED
        cause = f": {run.cause}" if run.cause else ""
        outcome = "cut short" if run.outcome == "running" else run.outcome
        before = f"{spoken(run.action, episode)} {outcome}{cause}"
        text += f'<div style="color:{colour}">{escape(before)}</div>'
    return _BOX.format(text)


def note_html(text: str) -> str:
    """Return a remark, nothing for ``""``."""
    return _BOX.format(f'<span style="color:{_GREY}">{escape(text)}</span>') if text else ""
