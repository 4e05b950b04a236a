"""``tpsrl scenes``: apartments and objects as a Habitat scene dataset, out and in."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.shipped import load_shipped, shipped_scenarios
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError, nearest
from tpsrl.habitat.export.dataset import export_dataset
from tpsrl.habitat.load.dataset import load_dataset
from tpsrl.habitat.load.episodes import load_for_episodes
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from ver_trainer.options import load, option

HELP = """Write the apartments as a Habitat scene dataset, or read one and say what is in it.

  tpsrl scenes export format=habitat out=DIR      stage, furniture, objects, layouts, val episodes
                                                  and Fetch, so that Habitat needs no downloads
  tpsrl scenes check path=DIR [data=FILE]         read ReplicaCAD, YCB or an export, as
                                                  'tpsrl eval data=replica_cad path=DIR' will"""


@dataclass
class ScenesConfig:
    """Keys of ``tpsrl scenes``."""

    format: str = option("habitat", "export: of what program", choices=("habitat",))
    out: Path = option(Path("outputs/habitat"), "export: folder of the dataset")
    robot: bool = option(True, "export: write Fetch's URDF, too")
    episodes: bool = option(True, "export: write the shipped val episodes, too")
    path: Path | None = option(None, "check: folder with a .scene_dataset_config.json")
    data: Path | None = option(None, "check: episode file to play there")


CONFIG = ScenesConfig
VERBS = ("export", "check")


def run(overrides: list[str]) -> int:
    """Export or check a dataset."""
    if not overrides or overrides[0] not in VERBS:
        given = f"'{overrides[0]}'" if overrides else "nothing"
        raise UserError(f"tpsrl scenes got {given}{nearest((overrides or [''])[0], VERBS)}")
    config = load(ScenesConfig, overrides[1:])
    return _export(config) if overrides[0] == "export" else _check(config)


def _export(config: ScenesConfig) -> int:
    started = time.monotonic()
    chosen = {}
    if config.episodes:
        chosen = {f"{name}_val": load_shipped(name) for name in shipped_scenarios()}
    apartment, types = load_apartment(), object_types()
    files = export_dataset(config.out, apartment, types, chosen, config.robot)
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    print(
        f"{config.out}: {len(apartment.benchmark)} layouts, {len(apartment.furniture)} pieces of"
        f" furniture, {len(types)} objects, {sum(map(len, chosen.values()))} episodes;"
        f" {len(files)} files, {megabytes:.1f} MB in {time.monotonic() - started:.0f} s"
    )
    return 0


def _check(config: ScenesConfig) -> int:
    """Read everything, so that what would fail later is named now."""
    if config.path is None:
        raise UserError("tpsrl scenes check needs path=DIR, the folder of a scene dataset")
    episodes = [] if config.data is None else list(load_episodes(config.data))
    if episodes:
        dataset, episodes = load_for_episodes(config.path, episodes)
        for episode in episodes:
            validate(episode, dataset.apartment, dataset.types)
    else:
        dataset = load_dataset(config.path)
    apartment = dataset.apartment
    joints = sum(len(piece.links) - 1 for piece in apartment.furniture)
    places = sum(len(piece.receptacles) for piece in apartment.furniture)
    print(
        f"{dataset.source}: {len(apartment.layouts)} layouts, {len(apartment.furniture)} pieces of"
        f" furniture with {joints} joints and {places} receptacles, {len(dataset.types)} movable"
        f" objects" + (f", {len(episodes)} episodes" if episodes else "")
    )
    return 0
