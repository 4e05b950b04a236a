"""Which room may import which: the table of docs/architecture.md, checked against the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("tpsrl", "skills", "planner", "ver_trainer", "eval", "configs", "benchmarks", "tests")
PLAIN = ("tpsrl.errors", "tpsrl.atomic", "tpsrl.processes")
"""These import nothing else of ours."""
WORLD = ("tpsrl.sim", "tpsrl.robot", "tpsrl.episodes", *PLAIN)
BELOW = (*WORLD, "tpsrl.scenes", "tpsrl.data", "tpsrl.options", "tpsrl.__version__", "configs")
MAY = {
    "ver_trainer": ("ver_trainer",),
    "planner": ("planner",),
    "eval": ("eval", "tpsrl.agents.interface", "tpsrl.sim.door", "tpsrl.episodes.types", *PLAIN),
    "skills": ("skills", *WORLD, "ver_trainer"),
    "skills/tasks": ("skills.tasks", "skills.interface", *WORLD),
    "skills/scripted": ("skills.scripted", "skills.tasks", "skills.interface", *WORLD),
    "skills/envs": ("skills.envs", "skills.scripted", "skills.tasks", "skills.interface", *WORLD),
    "skills/learned": ("skills", *WORLD),
    "tpsrl/sim": BELOW,
    "tpsrl/robot": BELOW,
    "tpsrl/scenes": BELOW,
    "tpsrl/episodes": BELOW,
    "tpsrl/data": BELOW,
    "tpsrl/errors.py": (),
    "tpsrl/atomic.py": PLAIN,
    "tpsrl/processes.py": PLAIN,
}


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything of ours that a file imports, at any depth."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = file.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] in OURS:
                yield node.lineno, name


def allowed(name: str, roots: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{root}.") for root in roots)


@pytest.mark.parametrize("room", MAY)
def test_rooms_import_what_they_may(room: str) -> None:
    place = ROOT / room
    files = [place] if place.suffix else sorted(place.rglob("*.py"))
    assert files
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if not allowed(name, MAY[room])
    ]
    assert not wrong, "\n".join(wrong)


def test_only_imitation_knows_the_trainer() -> None:
    users = {
        file.parent.name
        for file in (ROOT / "skills").rglob("*.py")
        for _, name in imports(file)
        if allowed(name, ("ver_trainer",))
    }
    assert users == {"imitation"}
