"""``tpsrl plan``: the task plan of an episode, as a table, a picture and PDDL."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from planner import Plan, Problem
from planner.chain.errand import Errand, problem_of
from planner.chain.grounding import rename
from planner.chain.predicates import SymbolicWorld, present_problem
from planner.chain.problems import hab_problem
from planner.draw import draw_plan
from planner.pddl import to_pddl
from planner.words.door import errand_for
from planner.words.options import GOAL, PlannerConfig
from planner.words.order import plan_on
from tpsrl import options
from tpsrl.drawing import save_figure
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.provide import load_scenario_episodes, pick_episode
from tpsrl.sim.mujoco.engine import MujocoSimulator
from ver_trainer.options import load

HELP = """Plan one episode with the task planner and show the plan.

The start state is read off the simulator, reset to the episode: what lies in which container,
which containers are open, what is at its goal already. A goal in words may have several parts, one
after the other; then there is a plan, a picture and a PDDL problem for each.

  tpsrl plan scenario=set_table goal="bring the apple from the fridge to the table"
"""

PICTURES = (".png", ".pdf", ".svg")
WIDE = 120
"""Columns of a terminal from which on preconditions are shown as well."""


@dataclass
class PlanConfig:
    """Keys of ``tpsrl plan``."""

    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    goal: str | None = field(default=None, metadata=GOAL)
    episode: int = field(default=0, metadata={"help": "index in the file, from 0", "min": 0})
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(
        default=None, metadata={"help": "episode file to take instead of a shipped set"}
    )
    seed: int = field(default=0, metadata={"help": "of the robot's start pose", "min": 0})
    out: Path | None = field(
        default=None, metadata={"help": "picture of plan and explored states: .png, .pdf or .svg"}
    )
    pddl: Path | None = field(
        default=None, metadata={"help": "folder for domain.pddl and problem.pddl"}
    )
    planner: PlannerConfig = field(default_factory=PlannerConfig)


CONFIG = PlanConfig


def run(overrides: list[str]) -> int:
    """Plan, print, and write what was asked for."""
    config = load(PlanConfig, overrides)
    if config.out is not None and config.out.suffix not in PICTURES:
        raise UserError(f"out={config.out} must end in {', '.join(PICTURES)}")
    hab_problem(config.scenario)
    episodes = load_scenario_episodes(
        config.scenario, config.split, config.data, least=config.episode + 1
    )
    episode = pick_episode(episodes, config.episode)
    episode = errand_for(episode, config.goal, config.planner, config.scenario)
    console = Console()
    if isinstance(episode, Errand):
        for note in episode.notes:
            console.print(note, highlight=False)
    plans = _plans(config, episode)
    for index, plan in enumerate(plans):
        part = f"_{index + 1}" if len(plans) > 1 else ""
        _show(plan, episode, part, config, console)
    return 0


def _plans(config: PlanConfig, episode: Episode) -> list[Plan]:
    """Return a plan for each goal of the episode, one after the other."""
    base = rename(problem_of(episode, config.scenario), episode)
    with MujocoSimulator(depth=None) as sim:
        sim.reset([episode], [config.seed])
        present = present_problem(base, SymbolicWorld(sim, 0))
    goals = episode.goals if isinstance(episode, Errand) else (present.goal,)
    plans = plan_on(present, goals)
    if plans is None:
        raise UserError(
            f"no plan solves episode {episode.episode_id} of {config.scenario}; "
            "check its containers and their handles"
        )
    return plans


def _show(plan: Plan, episode: Episode, part: str, config: PlanConfig, console: Console) -> None:
    """Print a plan, and write what was asked for."""
    if config.pddl is not None:
        given = config.pddl.resolve()  # '.' has no name
        folder = given.with_name(given.name + part)
        _write_pddl(plan.problem, folder)
        console.print(f"PDDL: {folder / 'domain.pddl'}, {folder / 'problem.pddl'}")
    console.print(_table(plan, episode, wide=console.width >= WIDE))
    console.print(
        f"{len(plan)} actions; {plan.graph.number_of_nodes()} states seen "
        f"in {1000 * plan.seconds:.0f} ms"
    )
    if config.out is not None:
        out = config.out.with_stem(config.out.stem + part)
        _draw(plan, episode, out)
        console.print(f"picture: {out}")


def _table(plan: Plan, episode: Episode, wide: bool) -> Table:
    title = episode.words if isinstance(episode, Errand) else plan.problem.name
    table = Table(title=f"{title}, episode {episode.episode_id} ({episode.layout})")
    table.add_column("#", justify="right")
    table.add_column("action", overflow="fold")
    table.add_column("brings about", overflow="fold")
    if wide:
        table.add_column("needs", overflow="fold")
    for index, action in enumerate(plan.actions):
        brings = [a for a in action.effects if a.name != "outside"]
        cells = [str(index + 1), str(action), "\n".join(map(str, brings))]
        if wide:
            needs = sorted(a for a in action.pre if a.name not in ("belongs", "outside"))
            cells.append("\n".join(map(str, needs)))
        table.add_row(*cells)
    return table


def _draw(plan: Plan, episode: Episode, out: Path) -> None:

    figure = draw_plan(
        plan, f"{plan.problem.name}, episode {episode.episode_id}: {len(plan)} actions"
    )
    save_figure(figure, out, dpi=110)


def _write_pddl(problem: Problem, folder: Path) -> None:

    domain, text = to_pddl(problem)
    write_atomically(folder / "domain.pddl", domain.encode())
    write_atomically(folder / "problem.pddl", text.encode())
