"""Makes simulators by name: which engine, whose scenes, which interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.habitat.engine import habitat_simulator
from tpsrl.habitat.hosted import mujoco_server
from tpsrl.habitat.scenes import Scenes
from tpsrl.scenes.description import ObjectType
from tpsrl.scenes.objects import object_types
from tpsrl.sim.door import Simulator
from tpsrl.sim.mujoco.engine import MujocoSimulator
from tpsrl.sim.mujoco.forms import Forms

ENGINES = ("mujoco", "mujoco_server", "habitat")
"""``mujoco_server`` is MuJoCo in a process of its own, reached as Habitat's is."""


def make_simulator(
    engine: str = "mujoco",
    depth: int | None = None,
    scenes: Mapping[str, Any] | None = None,
    habitat: Mapping[str, Any] | None = None,
    *,
    num_envs: int = 1,
    pool: Mapping[str, int] | None = None,
) -> Simulator:
    """Return a simulator.

    Args:
        engine: one of ``ENGINES``.
        depth: pixels of the head depth picture, ``None`` for none.
        scenes: fields of :class:`Scenes`, ``None`` for tpsrl's own apartment.
        habitat: ``python``, ``robot`` and ``gpu``, for ``engine="habitat"``.
        num_envs: worlds; engines in a process of their own have one.
        pool: object type -> bodies that MuJoCo compiles in; ``None`` for as many as the episodes
            of ``scenes`` need, or a default.

    Raises:
        UserError: unknown engine, or something that it needs is missing.
    """
    if engine not in ENGINES:
        raise UserError(f"unknown engine '{engine}'{nearest(engine, ENGINES)}")
    chosen = None if scenes is None else Scenes(**scenes)
    if engine == "mujoco":
        return _mujoco(num_envs, depth, chosen, pool)
    if num_envs != 1:
        raise UserError(
            f"sim={engine} has one world in a simulator, and {num_envs} were asked for; make as"
            " many environments instead"
        )
    if engine == "mujoco_server":
        return mujoco_server(f"{__name__}:{make_simulator.__name__}", depth, chosen, pool)

    return habitat_simulator(depth, chosen, **(habitat or {}))


def _mujoco(
    num_envs: int, depth: int | None, scenes: Scenes | None, pool: Mapping[str, int] | None
) -> MujocoSimulator:

    if scenes is None:
        return MujocoSimulator(num_envs, depth=depth, pool=pool)
    dataset, episodes = scenes.read()
    return MujocoSimulator(
        num_envs,
        depth=depth,
        pool=object_pool(episodes, dataset.types) if pool is None else pool,
        apartment=dataset.apartment,
        types=dataset.types,
    )


def make_stage(depth: int | None, scenes: Mapping[str, Any] | None = None) -> MujocoSimulator:
    """Return a world in which recorded states of any engine are shown.

    Args:
        depth: pixels of the head depth picture, ``None`` for none.
        scenes: fields of :class:`Scenes`, ``None`` for tpsrl's own apartment.

    Raises:
        UserError: the scenes are missing or malformed.
    """
    return _mujoco(1, depth, None if scenes is None else Scenes(**scenes), None)


def object_pool(
    episodes: Iterable[Episode], types: Mapping[str, ObjectType] | None = None
) -> dict[str, int]:
    """Return how many bodies MuJoCo has to compile in for any of the episodes, sorted by type.

    Args:
        episodes: to be loaded.
        types: of their objects; ``None`` for those of the benchmark.
    """
    forms, pool = Forms(object_types() if types is None else types), Counter[str]()
    for episode in episodes:
        pool |= forms.need(episode)
    return dict(sorted(pool.items()))
