"""Bodies of a model that can be objects of several types, one after the other.

A model has a fixed number of bodies, and every one costs time in every step, used or not. Types
whose bodies MuJoCo computes in the same way, most cans, boxes and fruit, are of one form: what
tells them apart are a few numbers, which a world writes when it loads an episode. So a model needs
as many bodies as an episode has objects and not as many as any episode has of each type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.scenes.description import ObjectType
from tpsrl.sim.mujoco.objects import add_object, add_object_meshes

Pool = Mapping[str, tuple[int, ...]]
"""Form -> bodies."""

_BODY = ("mass", "subtreemass", "inertia", "invweight0", "ipos", "iquat")
_GEOM = ("type", "dataid", "size", "aabb", "rbound", "pos", "quat", "friction", "condim", "rgba")
FIELDS = (
    *(f"body_{name}" for name in _BODY),
    *(f"geom_{name}" for name in _GEOM),
    "dof_invweight0",
    "dof_M0",
    "dof_length",
    "bvh_aabb",
)
"""Of a model: what differs between types of one form."""


class Forms:
    """Which types can be the same body.

    Args:
        types: object type by name.

    Attributes:
        types: the same, sorted.
        of: type -> its form, which has the name of its first type.
        model: a body of each type.
        bodies: type -> that body.
    """

    def __init__(self, types: Mapping[str, ObjectType]) -> None:
        self.types = dict(sorted(types.items()))
        self.model = _one_of_each(self.types)
        self.bodies = {name: self.model.body(name).id for name in self.types}
        first: dict[tuple[Any, ...], str] = {}
        self.of = {name: first.setdefault(self._kind(name), name) for name in self.types}

    def several(self) -> list[str]:
        """Return the forms that more than one type has."""
        return [form for form, count in Counter(self.of.values()).items() if count > 1]

    def need(self, episode: Episode) -> Counter[str]:
        """Return how many bodies of each form an episode needs; unknown types need none."""
        return Counter(self.of[item.type] for item in episode.objects if item.type in self.of)

    def count(self, types: Mapping[str, int], where: str = "pool") -> Counter[str]:
        """Return how many bodies of each form so many objects of some types need.

        Args:
            types: object type -> objects.
            where: it is from, for the error.

        Raises:
            UserError: there is no such type.
        """
        found: Counter[str] = Counter()
        for name, count in types.items():
            if name not in self.of:
                raise UserError(f"{where}: unknown object type '{name}'{nearest(name, self.of)}")
            found[self.of[name]] += count
        return found

    def fits(self, pool: Pool, episode: Episode) -> bool:
        """Return whether there is a body for every object of an episode."""
        return all(len(pool.get(form, ())) >= n for form, n in self.need(episode).items())

    def choose(self, pool: Pool, episode: Episode) -> np.ndarray:
        """Return the (k,) bodies that are an episode's objects, in its order."""
        used: Counter[str] = Counter()
        bodies = []
        for form in (self.of[item.type] for item in episode.objects):
            bodies.append(pool[form][used[form]])
            used[form] += 1
        return np.array(bodies, dtype=np.int64)

    def _kind(self, name: str) -> tuple[Any, ...]:
        """Return what has to be equal of two types of one form."""
        model, body = self.model, self.bodies[name]
        geoms = np.flatnonzero(model.geom_bodyid == body)
        if len(geoms) > 1:
            return (name,)
        geom = int(geoms[0])
        return (
            int(model.body_simple[body]),
            int(model.body_sameframe[body]),
            int(model.geom_sameframe[geom]),
            int(model.geom_contype[geom]),
        )


def _one_of_each(types: Mapping[str, ObjectType]) -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.worldbody.add_body(name="gripper_link")
    add_object_meshes(spec, types)
    for k, (name, kind) in enumerate(types.items()):
        add_object(spec, kind, name, np.array([k, 0.0, 0.0]))
    return spec.compile()


class Kinds:
    """The numbers by which bodies of a compiled model become types.

    The bodies of all forms of several types are the first objects of a model, each with one geom,
    so what they have of a field lies in one piece.

    Args:
        model: compiled with all types' meshes.
        forms: of the types.
        pool: its bodies.

    Attributes:
        pieces: for each of ``FIELDS``, of the model, a view of that piece.
    """

    def __init__(self, model: mujoco.MjModel, forms: Forms, pool: Pool) -> None:
        bodies = sorted(b for form in forms.several() for b in pool.get(form, ()))
        self._first = bodies[0] if bodies else 0
        self.size = len(bodies)
        if bodies != list(range(self._first, self._first + self.size)):
            raise ValueError("bodies of several types have to be one after the other")
        self._rows = {name: row for row, name in enumerate(forms.types)}
        plain = [self._rows[form] for form in forms.several() for _ in pool.get(form, ())]
        self._plain = np.array(plain, dtype=np.int64)
        self.pieces = [_piece(model, field, self._first, self.size) for field in FIELDS]
        self._values = [_values(model, forms, field) for field in FIELDS]

    def rows(self, bodies: np.ndarray, types: list[str]) -> np.ndarray:
        """Return the (n,) rows of all such bodies where these (k,) are of these types."""
        rows, at = self._plain.copy(), bodies - self._first
        mine = (at >= 0) & (at < self.size)
        rows[at[mine]] = np.array([self._rows[name] for name in types], dtype=np.int64)[mine]
        return rows

    def write(self, rows: np.ndarray, *copies: list[np.ndarray]) -> None:
        """Write (n,) rows into pieces of the model, or copies of them."""
        for k, values in enumerate(self._values):
            chosen = values[rows]
            for pieces in copies:
                pieces[k][...] = chosen.reshape(pieces[k].shape)


def _slice(model: mujoco.MjModel, field: str, body: int, count: int) -> slice:
    """Return where a field has the numbers of bodies with one geom each."""
    if field.startswith("body"):
        first, each = body, 1
    elif field.startswith("geom"):
        first, each = int(model.body_geomadr[body]), 1
    elif field.startswith("dof"):
        first, each = int(model.body_dofadr[body]), 6
    else:
        first, each = int(model.body_bvhadr[body]), 1
    return slice(first, first + each * count)


def _piece(model: mujoco.MjModel, field: str, body: int, count: int) -> np.ndarray:
    return getattr(model, field)[_slice(model, field, body, count) if count else slice(0, 0)]


def _values(model: mujoco.MjModel, forms: Forms, field: str) -> np.ndarray:
    """Return (t, ...) what a field has for each type; rows of types with several geoms are 0."""
    parts = []
    for name, body in forms.bodies.items():
        part = np.array(_piece(forms.model, field, body, 1))
        if field == "geom_dataid" and part[0] >= 0:
            part[0] = model.mesh(f"{name}#0").id
        parts.append(part)
    return np.array(parts)
