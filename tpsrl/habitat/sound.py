"""Whether what a file describes can exist: finite numbers, positive sizes, rotations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tpsrl.errors import UserError
from tpsrl.scenes.description import Link, Shape

LARGEST = 1e4
"""No number of a description is larger; lengths are m, masses kg."""
_SIZES = {"box": 3, "cylinder": 2, "sphere": 1, "mesh": 0}
"""Numbers of a shape's size that have to be positive."""


def check_links(path: Path, links: Iterable[Link]) -> None:
    """Refuse links whose masses, frames, joints or shapes cannot be.

    Raises:
        UserError: naming the file, the link and what is wrong.
    """
    for link in links:
        where = f"{path}: link '{link.name}'"
        _check(_finite([link.mass]) and link.mass > 0, f"{where}: its mass is {link.mass:g}")
        _check(_finite(link.pos), f"{where}: its place is not finite")
        _check(_unit(link.quat, 4), f"{where}: its orientation is no rotation")
        if link.joint is not None:
            j = link.joint
            limits = (j.lower, j.upper, j.damping, j.friction)
            _check(_finite(limits) and j.lower < j.upper, f"{where}: its joint has no finite range")
            _check(min(j.damping, j.friction) >= 0, f"{where}: its joint has negative friction")
            _check(_unit(j.axis, 3), f"{where}: its joint has no axis")
        for shape in link.shapes:
            problem = shape_problem(shape)
            _check(not problem, f"{where}: {problem}")


def shape_problem(shape: Shape) -> str:
    """Return what is wrong with a shape, ``""`` for nothing."""
    if shape.kind not in _SIZES:
        return f"a shape is of the unknown kind '{shape.kind}'"
    size = tuple(shape.size)[: _SIZES[shape.kind]]
    if len(shape.size) != 3 or not _finite(size) or any(n <= 0 for n in size):
        return f"the size of a {shape.kind} is not positive and finite"
    if len(shape.pos) != 3 or not _finite(shape.pos) or not _unit(shape.quat, 4):
        return f"the pose of a {shape.kind} is no place and rotation"
    if len(shape.rgba) != 4 or not _finite(shape.rgba):
        return f"the colour of a {shape.kind} is no colour"
    if shape.vertices is not None and not (np.abs(shape.vertices) <= LARGEST).all():
        return "a vertex of a mesh is not finite or farther away than is allowed"
    return ""


def _finite(values: Sequence[float]) -> bool:
    return bool((np.abs(np.asarray(values, dtype=float)) <= LARGEST).all())


def _unit(values: Sequence[float], count: int) -> bool:
    length = np.linalg.norm(np.clip(np.asarray(values, dtype=float), -2.0, 2.0))
    return len(values) == count and bool(abs(length - 1.0) < 1e-2)


def _check(good: bool, problem: str) -> None:
    if not good:
        raise UserError(f"{problem}; correct the file or download it again")
