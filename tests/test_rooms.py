"""One staircase: what stands below may be imported by what stands above, never the other way."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLAN = """
    ver_trainer

    tpsrl
        tpsrl.errors tpsrl.rooms tpsrl.files tpsrl.compiled tpsrl.geometry
        tpsrl.provenance tpsrl.drawing tpsrl.jobs tpsrl.launch
        tpsrl.robot.fetch tpsrl.robot.occupancy tpsrl.robot.mjcf tpsrl.robot.kinematics
        tpsrl.scenes.description tpsrl.scenes.geometry tpsrl.scenes.boxes tpsrl.scenes.library
        tpsrl.scenes.cache tpsrl.scenes.objects tpsrl.scenes.kitchen tpsrl.scenes.furniture
        tpsrl.scenes.layouts tpsrl.scenes.wide tpsrl.scenes.apartment
        tpsrl.scenes.checks tpsrl.scenes.draw_wide tpsrl.scenes
        tpsrl.episodes.types tpsrl.episodes.handles tpsrl.episodes.reader
        tpsrl.episodes.habitat_json tpsrl.episodes.validate tpsrl.episodes.shipped
        tpsrl.sim.scene tpsrl.sim.door tpsrl.sim.clamp tpsrl.sim.grid tpsrl.sim.navigation
        tpsrl.sim.scene_info
        tpsrl.sim.mujoco
        tpsrl.generation.rules tpsrl.generation.prisms tpsrl.generation.room
        tpsrl.generation.placement tpsrl.generation.reach tpsrl.generation.draw
        tpsrl.generation.assemble tpsrl.generation.goals tpsrl.generation.moved
        tpsrl.generation.generator
        tpsrl.generation.parallel
        tpsrl.habitat.sound tpsrl.habitat.format tpsrl.habitat.urdf_links tpsrl.habitat.load
        tpsrl.habitat.export tpsrl.habitat.scenes tpsrl.habitat.server tpsrl.habitat.link
        tpsrl.habitat.raster tpsrl.habitat.remote tpsrl.habitat.hosted tpsrl.habitat.engine
        tpsrl.engines tpsrl.provide
        tpsrl.options tpsrl.commands tpsrl.cli tpsrl.start tpsrl.__main__

    skills
        skills.interface skills.tasks skills.row skills.motion skills.programs skills.rows
        skills.book
        skills.envs skills.learned skills.chain_starts skills.training skills.series skills.sweep
        skills.commands

    planner.model planner.ground planner.search planner.load planner
        planner.monitor planner.draw planner.pddl planner.chain
        planner.words.lexicon planner.words.clauses planner.words.grammar planner.words.goals
        planner.words.order planner.words.options planner.words.within planner.words.propose
        planner.words.door planner.words planner.commands

    eval.statistics eval.trace eval.recording eval.episode eval.spec eval.table eval.words
        eval.overlay eval.camera eval.report eval
        eval.view.words eval.view.scene eval.view.goals eval.view.senses
        eval.view.sources eval.view.player eval.view.page eval.view.desk
        eval.dataset.statistics eval.dataset.words eval.dataset.frames eval.dataset.record
        eval.dataset.lerobot eval.dataset.reading eval.dataset.replay eval.dataset eval.commands

    benchmarks
"""
"""From the ground up. A file belongs to the longest name that it begins with; files of one name
stand on one floor, beside each other."""
FLOORS = tuple(PLAN.split())
OURS = tuple(name for name in FLOORS if "." not in name)
NOTHING_OF_OURS = ("ver_trainer", "planner.model", "planner.ground", "planner.search")
LIBRARIES = {
    "torch": (
        "ver_trainer",
        "skills.training",
        "skills.series",
        "skills.commands",
        "eval.dataset.clone",
    )
}
"""Only these import a library that worker processes must not load."""


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    files = [file for top in OURS for file in sorted((ROOT / top).rglob("*.py"))]
    return {module_of(file): file for file in files}


@cache
def imports() -> tuple[tuple[str, int, str, bool], ...]:
    """Importing module, line, imported module of ours, and whether it is within a function."""
    return tuple(entry for name, file in modules().items() for entry in _imports(name, file))


def _imports(name: str, file: Path) -> Iterator[tuple[str, int, str, bool]]:
    tree = ast.parse(file.read_text(), str(file))
    inner = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = file.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found = [f"{module}.{alias.name}" for alias in node.names]
        for full in found:
            while full and full not in modules():
                full = full.rpartition(".")[0]
            if full:
                yield name, node.lineno, full, id(node) in inner


def floor(module: str) -> int:
    """Height of the floor that a module stands on."""
    names = [name for name in FLOORS if f"{module}.".startswith(f"{name}.")]
    return FLOORS.index(max(names, key=len))


@pytest.mark.parametrize("room", OURS)
def test_every_import_points_down(room: str) -> None:
    wrong = [
        f"{name}:{line} imports {other}"
        for name, line, other, _ in imports()
        if name.partition(".")[0] == room and floor(other) > floor(name)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", NOTHING_OF_OURS)
def test_these_know_nothing_of_ours(room: str) -> None:
    top = room.partition(".")[0]
    users = [e for e in imports() if f"{e[0]}.".startswith(f"{room}.")]
    wrong = [f"{name}:{line} imports {o}" for name, line, o, _ in users if not o.startswith(top)]
    assert not wrong, "\n".join(wrong)


def test_names_in_strings_point_down_too() -> None:
    """``"module:function"`` is an import that no importer sees."""
    wrong = []
    for name, file in modules().items():
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            other = node.value.partition(":")[0]
            if other in modules() and "." in other and floor(other) > floor(name):
                wrong.append(f"{name}:{node.lineno} names {other}")
    assert not wrong, "\n".join(wrong)


def test_no_two_modules_import_each_other() -> None:
    down: dict[str, set[str]] = {}
    for name, _, other, _ in imports():
        if other != name and not name.startswith(f"{other}."):
            down.setdefault(name, set()).add(other)
    seen: dict[str, int] = {}

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if seen.setdefault(name, 0):
            return
        for other in sorted(down.get(name, ())):
            walk(other, (*path, name))
        seen[name] = 1

    for name in sorted(down):
        walk(name, ())


def test_imports_inside_functions_stay_few() -> None:
    count = sum(inside for *_, inside in imports())
    assert count < 100, f"{count} imports of ours stand inside functions"


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for name, file in modules().items()
        if not name.startswith("benchmarks")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twice = sorted(name for name, count in names.items() if count > 1)
    assert len(twice) <= 3, twice


def test_only_training_loads_torch() -> None:
    wrong = []
    for name, file in modules().items():
        if any(f"{name}.".startswith(f"{room}.") for room in LIBRARIES["torch"]):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            wrong += [name for other in found if other.partition(".")[0] == "torch"]
    assert not [w for w in wrong if not w.startswith("benchmarks")], wrong
