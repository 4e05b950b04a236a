"""Every library that the packages import stands in pyproject.toml, for pip to install."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("tpsrl", "skills", "planner", "ver_trainer", "eval")
ELSEWHERE = ROOT / "tpsrl/habitat/server"
"""Runs in Habitat's own interpreter."""


def imported(package: str) -> dict[str, str]:
    """Libraries that a package imports anywhere, and a file of each."""
    found = {}
    for path in (ROOT / package).rglob("*.py"):
        if path.is_relative_to(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found |= {name.split(".")[0]: str(path.relative_to(ROOT)) for name in names}
    known = {*sys.stdlib_module_names, *PACKAGES}
    return {name: path for name, path in found.items() if name not in known}


def declared() -> set[str]:
    """Distributions that pip installs, with all extras but the developers'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    words = [*project["dependencies"], *(w for k, v in extras.items() if k != "dev" for w in v)]
    return {_plain(re.split(r"[\[<>=!~; ]", word)[0]) for word in words}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_imported_is_required(package: str) -> None:
    owners, required = packages_distributions(), declared()
    missing = {
        name: path
        for name, path in imported(package).items()
        if not required & {_plain(owner) for owner in owners.get(name, [name])}
    }
    assert not missing
