"""Whose scenes: those of a Habitat dataset, as plain values that a worker process can read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.habitat.load.dataset import Dataset
from tpsrl.habitat.load.episodes import read_scene_data
from tpsrl.habitat.load.files import download_command

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
            raise UserError(
                "data=replica_cad needs path=DIR, the folder with replica_cad/ and objects/ycb/;"
                f" get them with '{download_command('replica_cad')}', and with --uids ycb and"
                " rearrange_dataset_v2"
            )
        return None
    file = None if data is None or benchmark else str(data.resolve())
    name = Path(scenario).stem  # scenario= may be a file, and the dataset may have names of its own
    return Scenes(str(path.resolve()), name, split, file, count)


def named_data(data: Path | None) -> str | None:
    """Return ``data=`` as results keep it: the word ``replica_cad``, or a whole path."""
    if data is None:
        return None
    return REPLICA_CAD if str(data) == REPLICA_CAD else str(data.resolve())


def habitat_options(config: HabitatConfig, gpu: int) -> dict[str, Any]:
    """Return the keys of the command line as plain values for workers."""
    python, robot = config.python, config.robot
    return {
        "python": None if python is None else str(python),
        "robot": None if robot is None else str(robot.resolve()),
        "gpu": gpu,
    }
