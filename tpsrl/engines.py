"""Makes simulators by name: which engine, whose scenes, which interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpsrl.errors import UserError, nearest

if TYPE_CHECKING:
    from tpsrl.data.load.dataset import Dataset
    from tpsrl.episodes.types import Episode
    from tpsrl.sim.door import Simulator

ENGINES = ("mujoco", "habitat")
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
        """Return dataset and episodes.

        Raises:
            UserError: something is missing or malformed.
        """
        from tpsrl.data.load.episodes import read_scene_data

        file = None if self.file is None else Path(self.file)
        return read_scene_data(Path(self.path), self.scenario, self.split, file, self.count)


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
) -> Simulator:
    """Return a simulator with one world.

    Args:
        engine: one of ``ENGINES``.
        depth: pixels of the head depth picture, ``None`` for none.
        scenes: fields of :class:`Scenes`, ``None`` for tpsrl's own apartment.
        habitat: ``python``, ``robot`` and ``gpu``, for ``engine="habitat"``.

    Raises:
        UserError: unknown engine, or something that it needs is missing.
    """
    if engine not in ENGINES:
        raise UserError(f"unknown engine '{engine}'{nearest(engine, ENGINES)}")
    chosen = None if scenes is None else Scenes(**scenes)
    if engine == "habitat":
        from tpsrl.sim.habitat.engine import habitat_simulator

        return habitat_simulator(depth, chosen, **(habitat or {}))
    from tpsrl.sim.mujoco.engine import MujocoSimulator

    if chosen is None:
        return MujocoSimulator(1, depth=depth)
    dataset, episodes = chosen.read()
    return MujocoSimulator(
        1, depth=depth, pool=object_pool(episodes), apartment=dataset.apartment, types=dataset.types
    )


def object_pool(episodes: tuple[Episode, ...]) -> dict[str, int]:
    """Return the most objects of each type that any of the episodes needs."""
    pool: dict[str, int] = {}
    for episode in episodes:
        need: dict[str, int] = {}
        for item in episode.objects:
            need[item.type] = need.get(item.type, 0) + 1
        for name, count in need.items():
            pool[name] = max(pool.get(name, 0), count)
    return pool
