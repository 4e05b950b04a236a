"""Makes simulators by name: which engine, whose scenes, which interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpsrl.errors import UserError, nearest

if TYPE_CHECKING:
    from tpsrl.data.load.dataset import Dataset
    from tpsrl.episodes.types import Episode
    from tpsrl.sim.door import Simulator

ENGINES = ("mujoco", "mujoco_server", "habitat")
"""``mujoco_server`` is MuJoCo in a process of its own, reached as Habitat's is."""
REPLICA_CAD = "replica_cad"
"""Value of ``data=`` that means: the benchmark's own episodes, found below ``path=``."""


@dataclass
class HabitatConfig:
    """Keys ``habitat.*``."""

    python: Path | None = field(
        default=None,
        metadata={"help": "interpreter that habitat-lab is installed in; null: this one"},
    )
    robot: Path | None = field(
        default=None, metadata={"help": "hab_suction.urdf; null for that of path= or of the export"}
    )


@dataclass(frozen=True)
class Scenes:
    """Scenes of a Habitat dataset and the episodes played there; plain values for workers.

    Attributes:
        path: scene dataset or Habitat data folder.
        scenario, split: which episodes.
        file: episode file, ``None`` to find it below ``path``.
        count: how many episodes, ``None`` for all.
    """

    path: str
    scenario: str
    split: str
    file: str | None = None
    count: int | None = None

    def read(self) -> tuple[Dataset, tuple[Episode, ...]]:
        """Return dataset and episodes; the last ones are kept.

        Raises:
            UserError: something is missing or malformed.
        """
        return _read(self)


# A skill environment asks twice, for its episodes and for its simulator.
@lru_cache(maxsize=1)
def _read(scenes: Scenes) -> tuple[Dataset, tuple[Episode, ...]]:
    from tpsrl.data.load.episodes import read_scene_data

    file = None if scenes.file is None else Path(scenes.file)
    return read_scene_data(Path(scenes.path), scenes.scenario, scenes.split, file, scenes.count)


def choose_scenes(
    path: Path | None, data: Path | None, scenario: str, split: str, count: int | None
) -> Scenes | None:
    """Return the scenes that ``data=`` and ``path=`` ask for, ``None`` for tpsrl's own.

    Raises:
        UserError: ``data=replica_cad`` without ``path``.
    """
    benchmark = data is not None and str(data) == REPLICA_CAD
    if path is None:
        if benchmark:
            from tpsrl.data.load.files import download_command

            raise UserError(
                "data=replica_cad needs path=DIR, the folder with replica_cad/ and objects/ycb/;"
                f" get them with '{download_command('replica_cad')}', and with --uids ycb and"
                " rearrange_dataset_v2"
            )
        return None
    file = None if data is None or benchmark else str(data.resolve())
    return Scenes(str(path.resolve()), scenario, split, file, count)


def habitat_options(config: HabitatConfig, gpu: int) -> dict[str, Any]:
    """Return the keys of the command line as plain values for workers."""
    python, robot = config.python, config.robot
    return {
        "python": None if python is None else str(python),
        "robot": None if robot is None else str(robot.resolve()),
        "gpu": gpu,
    }


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
        from tpsrl.sim.habitat.hosted import mujoco_server

        return mujoco_server(depth, chosen, pool)
    from tpsrl.sim.habitat.engine import habitat_simulator

    return habitat_simulator(depth, chosen, **(habitat or {}))


def _mujoco(
    num_envs: int, depth: int | None, scenes: Scenes | None, pool: Mapping[str, int] | None
) -> Simulator:
    from tpsrl.sim.mujoco.engine import MujocoSimulator

    if scenes is None:
        return MujocoSimulator(num_envs, depth=depth, pool=pool)
    dataset, episodes = scenes.read()
    return MujocoSimulator(
        num_envs,
        depth=depth,
        pool=object_pool(episodes) if pool is None else pool,
        apartment=dataset.apartment,
        types=dataset.types,
    )


def object_pool(episodes: Iterable[Episode]) -> dict[str, int]:
    """Return the most objects of each type that any of the episodes needs, sorted by type."""
    pool: Counter[str] = Counter()
    for episode in episodes:
        pool |= Counter(item.type for item in episode.objects)
    return dict(sorted(pool.items()))
