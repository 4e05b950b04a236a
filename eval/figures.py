"""Cumulative success per stage (VER, figure 6): ``python -m eval.figures DIR ... out=FIG``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.metrics import summarize
from eval.runner import read_run
from eval.table import stage_label
from tpsrl.drawing import save_figure
from tpsrl.errors import UserError

USAGE = "usage: python -m eval.figures DIR [DIR ...] out=FIG.png"


def load_runs(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the metrics of each run, with its ``config`` and ``name``.

    Raises:
        UserError: a folder holds no run, or no finished episode.
    """
    runs = []
    for folder in folders:
        config, records = read_run(folder)
        if not records:
            raise UserError(f"{folder} holds no finished episode yet")
        summary = summarize(records.values(), int(config.get("seed", 0)))
        parts = [str(config[key]) for key in ("agent", "executor") if config.get(key)]
        if config.get("stand_ins"):
            parts.insert(1, f"(scripted: {', '.join(config['stand_ins'])})")
        runs.append({**summary, "config": config, "name": " ".join(parts) or folder.name})
    _tell_apart(runs, folders)
    return runs


def _tell_apart(runs: Sequence[dict[str, Any]], folders: Sequence[Path]) -> None:
    """Add to the names that one panel would have twice what their folders differ in."""
    alike: dict[tuple[Any, str], list[int]] = {}
    for index, run in enumerate(runs):
        alike.setdefault((run["config"].get("scenario"), run["name"]), []).append(index)
    for group in alike.values():
        if len(group) > 1:
            for index, part in zip(group, own_parts([folders[k] for k in group]), strict=True):
                runs[index]["name"] += f" ({part})"


def own_parts(folders: Sequence[Path]) -> list[str]:
    """Return the shortest end of each path that no other has, without what all ends share."""
    parts = [folder.absolute().parts for folder in folders]
    ends = [own[-1:] for own in parts]
    for length in range(1, max(map(len, parts)) + 1):
        found = [own[-length:] for own in parts]
        if len(set(found)) == len(set(parts)):
            ends = found
            break
    while len(set(ends)) > 1 and len({end[-1:] for end in ends}) == 1 and min(map(len, ends)) > 1:
        ends = [end[:-1] for end in ends]
    return ["/".join(end) for end in ends]


def draw_stages(runs: Sequence[Mapping[str, Any]], out: Path) -> Path:
    """Draw cumulative success per stage with 95% score intervals, one panel a scenario.

    The last point, "stop", is task success: the agent called stop and the goal held.

    Args:
        runs: as from :func:`load_runs`; runs of one scenario share a panel.
        out: PNG (or PDF, SVG) file, replaced at once.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    scenarios = list(dict.fromkeys(str(run["config"].get("scenario", "")) for run in runs))
    figure = Figure(figsize=(1.2 + 4.6 * len(scenarios), 3.8), layout="constrained")
    axes = figure.subplots(1, len(scenarios), sharey=True, squeeze=False)
    styles = _styles(runs)
    for axis, scenario in zip(axes[0], scenarios, strict=True):
        members = [run for run in runs if str(run["config"].get("scenario", "")) == scenario]
        _draw_panel(axis, members, styles)
        axis.set_title(scenario.replace("_", " "))
    axes[0][0].set_ylabel("episodes that got this far, %")
    _add_legends(figure, axes[0], shared=bool(styles))
    save_figure(figure, out)
    return out


def _styles(runs: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return a colour for each agent and a line style for each executor, alike in all panels."""
    keys = [_key(run) for run in runs]
    agents = list(dict.fromkeys(agent for agent, _ in keys))
    executors = list(dict.fromkeys(executor for _, executor in keys))
    panels = [
        (str(run["config"].get("scenario", "")), key) for run, key in zip(runs, keys, strict=True)
    ]
    if len(agents) == 1 or len(set(panels)) < len(panels):
        return {}  # runs that differ in something else, e.g. in weights
    lines = ("-", "--", ":", "-.")
    return {
        (a, e): {"color": f"C{agents.index(a) % 10}", "linestyle": lines[executors.index(e) % 4]}
        for a, e in keys
    }


def _key(run: Mapping[str, Any]) -> tuple[str, str]:
    config = run["config"]
    return str(config.get("agent", "")), str(config.get("executor") or "hab")


def _draw_panel(
    axis: Any, runs: Sequence[Mapping[str, Any]], styles: Mapping[tuple[str, str], dict[str, Any]]
) -> None:
    names = list(dict.fromkeys(name for run in runs for name in run["stages"]))
    positions = range(len(names) + 1)
    for number, run in enumerate(runs):
        rows = [run["stages"].get(name) for name in names] + [run["success"]]
        shift = 0.08 * (number - (len(runs) - 1) / 2)
        points = [(x + shift, row) for x, row in zip(positions, rows, strict=True) if row]
        axis.errorbar(
            [x for x, _ in points],
            [100 * row["mean"] for _, row in points],
            yerr=_whiskers([row for _, row in points]),
            marker="o",
            markersize=4,
            capsize=3,
            linewidth=1.5,
            clip_on=False,
            label=f"{run['name']} (n={run['episodes']})",
            **styles.get(_key(run), {}),
        )
    axis.set_xticks(list(positions))
    labels = [stage_label(name) for name in names] + ["stop"]
    axis.set_xticklabels(labels, rotation=45, ha="right")
    axis.set_ylim(-3, 103)
    axis.grid(axis="y", alpha=0.3)


def _add_legends(figure: Any, axes: Sequence[Any], shared: bool) -> None:
    """Tell the lines below all panels, or in each where they mean something else."""
    if not shared or len(axes) == 1:
        for axis in axes:
            axis.legend(fontsize=8)
        return
    lines: dict[str, Any] = {}
    for axis in axes:
        for line, label in zip(*axis.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=6, fontsize=8
    )


def _whiskers(rates: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Return how far the 95% score intervals reach below and above the rates, in percent."""
    below = [100 * (rate["mean"] - rate["wilson"]["low"]) for rate in rates]
    above = [100 * (rate["wilson"]["high"] - rate["mean"]) for rate in rates]
    return [[max(0.0, value) for value in side] for side in (below, above)]  # but for rounding


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the runs named on the command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    outs = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    folders = [Path(word) for word in words if not word.startswith("out=")]
    if {"-h", "--help"} & set(words):
        print(USAGE)
        return 0
    if not folders or len(outs) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        print(draw_stages(load_runs(folders), Path(outs[0])))
    except UserError as error:
        print(f"eval.figures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
