"""``tpsrl plan``: the task plan of an episode, as a table, a picture and PDDL."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from planner import Plan, PlannerError, Problem, find_plan
from planner.chain.grounding import rename
from planner.chain.predicates import SymbolicWorld, present_problem
from planner.chain.problems import hab_problem
from tpsrl import options
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.provide import load_scenario_episodes, pick_episode
from tpsrl.sim.mujoco.engine import MujocoSimulator
from ver_trainer.options import load

HELP = """Plan one episode with the task planner and show the plan.

The start state is read off the simulator, reset to the episode: what lies in which container,
which containers are open, what is at its goal already."""

PICTURES = (".png", ".pdf", ".svg")
WIDE = 120
"""Columns of a terminal from which on preconditions are shown as well."""


@dataclass
class PlanConfig:
    """Keys of ``tpsrl plan``."""

    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
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
    problem = _problem(config, episode)
    console = Console()
    if config.pddl is not None:
        _write_pddl(problem, config.pddl)
        console.print(f"PDDL: {config.pddl / 'domain.pddl'}, {config.pddl / 'problem.pddl'}")
    try:
        plan = find_plan(problem)
    except PlannerError as error:
        raise UserError(str(error)) from error
    if plan is None:
        raise UserError(
            f"no plan solves episode {episode.episode_id} of {config.scenario}; "
            "check its containers and their handles"
        )
    console.print(_table(plan, episode, wide=console.width >= WIDE))
    console.print(
        f"{len(plan)} actions; {plan.graph.number_of_nodes()} states seen "
        f"in {1000 * plan.seconds:.0f} ms"
    )
    if config.out is not None:
        _draw(plan, episode, config.out)
        console.print(f"picture: {config.out}")
    return 0


def _problem(config: PlanConfig, episode: Episode) -> Problem:
    base = rename(hab_problem(config.scenario), episode)
    with MujocoSimulator(depth=None) as sim:
        sim.reset([episode], [config.seed])
        return present_problem(base, SymbolicWorld(sim, 0))


def _table(plan: Plan, episode: Episode, wide: bool) -> Table:
    table = Table(title=f"{plan.problem.name}, episode {episode.episode_id} ({episode.layout})")
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
    from planner.draw import draw_plan
    from tpsrl.drawing import save_figure

    figure = draw_plan(
        plan, f"{plan.problem.name}, episode {episode.episode_id}: {len(plan)} actions"
    )
    save_figure(figure, out, dpi=110)


def _write_pddl(problem: Problem, folder: Path) -> None:
    from planner.pddl import to_pddl

    domain, text = to_pddl(problem)
    write_atomically(folder / "domain.pddl", domain.encode())
    write_atomically(folder / "problem.pddl", text.encode())
