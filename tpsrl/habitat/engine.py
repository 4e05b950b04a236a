"""``sim=habitat``: finds scenes, interpreter and robot, and puts the door in front of them."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl import __version__
from tpsrl.episodes.handles import furniture_handle
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.habitat import format as fmt
from tpsrl.habitat.export.dataset import export_dataset
from tpsrl.habitat.link import BackendLink, InProcess, ServerProcess
from tpsrl.habitat.load.dataset import Dataset, load_dataset
from tpsrl.habitat.load.files import Catalog
from tpsrl.habitat.remote import RemoteSimulator
from tpsrl.habitat.scenes import Scenes
from tpsrl.habitat.server import habitat_setup
from tpsrl.robot import fetch
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.cache import cache_dir
from tpsrl.scenes.description import Furniture, Marker
from tpsrl.scenes.objects import object_types
from tpsrl.sim.scene_info import SceneLibrary

INSTALL = (
    "sim=habitat needs Habitat, which lives in a Python of its own: its packages exist for Python"
    " 3.9 (nightly ones for 3.10 and 3.11) in conda alone. Install it once with"
    f" '{habitat_setup.CONDA}', then give habitat.python=PATH, the path that 'which python' prints"
    " in that environment; nothing of tpsrl has to be installed there."
)
BACKEND = "habitat_backend:make"


def habitat_simulator(
    depth: int | None = None,
    scenes: Scenes | None = None,
    python: str | None = None,
    robot: str | None = None,
    gpu: int = -1,
) -> RemoteSimulator:
    """Return a simulator with Habitat behind it.

    Args:
        depth: pixels of the head depth picture, ``None`` for none.
        scenes: of a Habitat dataset; ``None`` exports tpsrl's own apartments into the cache.
        python: interpreter that habitat-lab is installed in, ``None`` for this one.
        robot: ``hab_suction.urdf``; ``None`` for the one that stands with the scenes.
        gpu: which one renders, -1 for software.

    Raises:
        UserError: Habitat, its data or the robot is missing; says how to get it.
    """
    if python is None and importlib.util.find_spec("habitat") is None:
        raise UserError(INSTALL)
    if python is not None and not Path(python).expanduser().is_file():
        raise UserError(f"habitat.python={python} is no file; {INSTALL}")
    if scenes is None:
        root = own_scenes()
        dataset = own_dataset(root)
    else:
        root = Path(scenes.path)
        dataset = scenes.read()[0]
    options = backend_options(dataset, root, robot, depth, gpu)

    def connect() -> BackendLink:
        if python is not None:
            return ServerProcess(Path(python).expanduser(), BACKEND, options)
        from tpsrl.habitat.server import habitat_backend

        return InProcess(habitat_backend.make(options))

    return RemoteSimulator(connect, SceneLibrary(dataset.apartment), dataset.types, depth)


def own_scenes() -> Path:
    """Return the folder of tpsrl's apartments as a Habitat dataset, exported once a version."""
    apartment, types = load_apartment(), object_types()
    text = f"{__version__} {fmt.VERSION} {apartment!r} {sorted(types.items())!r}"
    folder = cache_dir() / f"habitat-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    # The manifest is written last: with it the export is complete.
    if not (folder / fmt.MANIFEST).exists():
        export_dataset(folder, apartment, types, {})
    return folder


def own_dataset(root: Path) -> Dataset:
    """Return tpsrl's own apartment beside the link numbers of its export."""
    read = load_dataset(root, layouts=["sc0_staging_00"], objects=[])
    return Dataset(
        load_apartment(), dict(object_types()), read.source, read.floor, read.order, read.hosts,
        read.receptacles, {},
    )  # fmt: skip


def backend_options(
    dataset: Dataset, root: Path, robot: str | None, depth: int | None, gpu: int
) -> dict[str, Any]:
    """Return what the server has to know of scenes and robot: plain values.

    Raises:
        UserError: the robot is missing, or the scenes have movable objects of their own.
    """
    for layout, loose in dataset.loose.items():
        if loose:
            raise UserError(
                f"layout '{layout}' brings {len(loose)} movable objects of its own, which"
                " sim=habitat cannot track; take the v3_sc layouts of the benchmark"
            )
    catalog = Catalog(root)
    objects = {str(path.parent) for path in catalog.objects.values() if "ycb" in path.parts}
    return {
        "dataset": str(catalog.config.path.resolve()),
        "objects": sorted(objects),
        "scenes": {name: str(path.resolve()) for name, path in catalog.scenes.items()},
        "robot": str(find_robot(root, robot)),
        "physics": str(_physics_config()),
        "depth": depth,
        "gpu": gpu,
        "floor": dataset.floor,
        "joints": _joints(dataset),
        "markers": _markers(dataset),
    }


def find_robot(root: Path, robot: str | None) -> Path:
    """Return the URDF of Fetch with a suction cup.

    Raises:
        UserError: there is none.
    """
    base = root if root.is_dir() else root.parent
    places = [base, base.parent, base.parent.parent]
    tried = [p / "robots/hab_fetch/robots/hab_suction.urdf" for p in places]
    if robot is not None:
        tried = [Path(robot)]
    for path in tried:
        if path.is_file():
            return path.resolve()
    if robot is not None:
        raise UserError(f"habitat.robot={robot} is no file; give the path of hab_suction.urdf")
    return (own_scenes() / "robots/hab_fetch/robots/hab_suction.urdf").resolve()


def _physics_config() -> Path:
    """Write Habitat's physics settings: the contract's time step, not its own of 0.008 s."""
    settings: Mapping[str, Any] = {
        "physics_simulator": "bullet",
        "timestep": 1.0 / fetch.PHYSICS_HZ,
        "gravity": [0.0, -9.81, 0.0],
        "friction_coefficient": 0.4,
        "restitution_coefficient": 0.1,
    }
    text = json.dumps(settings)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = cache_dir() / f"habitat-{name}.physics_config.json"
    if not path.exists():
        write_atomically(path, text.encode())
    return path


def _joints(dataset: Dataset) -> dict[str, list[Any]]:
    return {
        f"{piece.name}/{link.name}": [
            furniture_handle(piece.name),
            link.name,
            _node(dataset, piece.name, link.name).tolist(),
        ]
        for piece in dataset.apartment.furniture
        for link in piece.links[1:]
    }


def _markers(dataset: Dataset) -> dict[str, list[Any]]:
    return {
        marker.name: [furniture_handle(piece.name), marker.link, _offset(dataset, piece, marker)]
        for piece in dataset.apartment.furniture
        for marker in piece.markers
    }


def _node(dataset: Dataset, piece: str, link: str) -> np.ndarray:
    """Return (4, 4) Habitat's frame of a moving link in the link's own."""
    return dataset.hosts[piece][link][1]


def _offset(dataset: Dataset, piece: Furniture, marker: Marker) -> list[float]:
    """Return (3,) a handle's place in Habitat's frame of its link."""
    inverse = np.linalg.inv(_node(dataset, piece.name, marker.link))
    return [float(v) for v in (inverse @ [*marker.offset, 1.0])[:3]]
