"""Draw a plan beside the state graph that the search explored."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from planner.model import Action, Atom, State
from planner.search import Plan

COLOURS = ("#4477aa", "#228833", "#ccbb44", "#aa3377", "#66ccee", "#ee6677", "#997700", "#bbbbbb")
"""Paul Tol's bright palette: one colour per kind of action, told apart by colour-blind readers."""


def draw_plan(plan: Plan, title: str = "") -> Figure:
    """Return a figure: the actions with their effects, and the explored states by depth.

    Args:
        plan: what to draw; it may be empty.
        title: heading; by default the problem's name and the plan's length.
    """
    rows = max(len(plan), 4)
    figure = Figure(figsize=(16.0, 1.4 + 0.42 * rows), layout="constrained")
    figure.suptitle(title or f"{plan.problem.name}: {len(plan)} actions", fontsize=14)
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1.0))
    colours = _colours(plan)
    _draw_actions(left, plan, colours)
    _draw_graph(right, plan, colours)
    return figure


def layout(plan: Plan) -> dict[State, tuple[float, float]]:
    """Return where each explored state is drawn: x its depth, y its rank within that depth.

    States of the plan lie on y = 0; the others alternate above and below it in the order in which
    the search met them.
    """
    path = set(plan.states)
    levels: dict[int, list[State]] = {}
    for state, depth in plan.graph.nodes(data="depth"):
        levels.setdefault(depth, []).append(state)
    places: dict[State, tuple[float, float]] = {}
    for depth, states in levels.items():
        others = [s for s in states if s not in path]
        for index, state in enumerate(others):
            side = 1 if index % 2 == 0 else -1
            places[state] = (float(depth), side * (index // 2 + 1.0))
        for state in states:
            if state in path:
                places[state] = (float(depth), 0.0)
    return places


def _colours(plan: Plan) -> dict[str, str]:
    labels = list(dict.fromkeys(action.label for action in plan.actions))
    return {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}


def _draw_actions(axes: Axes, plan: Plan, colours: dict[str, str]) -> None:
    axes.set_title("Plan", loc="left")
    axes.set_xlim(0, 1)
    axes.set_ylim(max(len(plan), 4) - 0.4, -0.6)
    axes.axis("off")
    if not plan.actions:
        axes.text(0.05, 0, "Nothing to do: the goal holds.", va="center")
    for row, (action, before) in enumerate(zip(plan.actions, plan.states[:-1], strict=True)):
        colour = colours[action.label]
        box = FancyBboxPatch(
            (0.05, row - 0.34), 0.43, 0.68, boxstyle="round,pad=0.004,rounding_size=0.01"
        )
        box.set(facecolor=colour, alpha=0.22, edgecolor=colour)
        axes.add_patch(box)
        axes.text(0.035, row, str(row + 1), ha="right", va="center", fontsize=9, color="#555555")
        axes.text(0.06, row, _short(action), va="center", fontsize=9)
        axes.text(0.55, row, _changes(action, before), va="center", fontsize=8, color="#333333")


def _short(action: Action) -> str:
    # place names goal and object alike: the goal says it all.
    shown = action.shown[:1] if action.label == "place" else action.shown
    return f"{action.label}  {', '.join(shown)}"


def _changes(action: Action, before: State) -> str:
    added = [a for a in action.effects if a not in before]
    removed = sorted(a for a in before if action.deletes(a) and a.name != "robot_at")
    return "  ".join([*(f"+{a}" for a in _brief(added)), *(f"\u2212{a}" for a in _brief(removed))])


def _brief(atoms: Sequence[Atom]) -> list[str]:
    return [f"{a.name}({a.args[0]})" if a.args else a.name for a in atoms if a.name != "outside"]


def _draw_graph(axes: Axes, plan: Plan, colours: dict[str, str]) -> None:
    graph, places = plan.graph, layout(plan)
    axes.set_title(
        f"Explored: {graph.number_of_nodes()} states, {graph.number_of_edges()} transitions",
        loc="left",
    )
    for source, target in graph.edges:
        (x0, y0), (x1, y1) = places[source], places[target]
        axes.plot((x0, x1), (y0, y1), color="#cccccc", linewidth=0.6, zorder=1)
    others = [places[s] for s in graph.nodes if s not in set(plan.states)]
    if others:
        axes.scatter([x for x, _ in others], [y for _, y in others], s=12, c="#999999", zorder=2)
    for index, action in enumerate(plan.actions):
        axes.plot((index, index + 1), (0, 0), color=colours[action.label], linewidth=3.5, zorder=3)
    depths = range(len(plan.states))
    axes.scatter(depths, [0] * len(depths), s=26, color="black", zorder=4)
    axes.annotate("start", (0, 0), (0, -9), textcoords="offset points", ha="center", va="top")
    end = (len(plan), 0)
    axes.annotate("goal", end, (0, -9), textcoords="offset points", ha="center", va="top")
    handles = [Line2D([], [], color=c, linewidth=3.5, label=k) for k, c in colours.items()]
    handles.append(Line2D([], [], color="#999999", marker="o", linestyle="", label="other states"))
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
    axes.set_xlabel("actions from the start")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    reach = max((abs(y) for _, y in places.values()), default=1.0) + 1.0
    axes.set_ylim(-reach, reach)
