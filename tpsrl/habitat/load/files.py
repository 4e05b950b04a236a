"""Finds and reads the configuration files of a Habitat scene dataset, naming what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.errors import UserError, nearest
from tpsrl.habitat.format import DATASET, MANIFEST, SUFFIX, VERSION
from tpsrl.habitat.sound import LARGEST
from ver_trainer.reading import MIB, read_json

MOST_ITEMS = 5000
"""Most objects of a scene."""

DOWNLOADS = {
    "replica_cad": "replica_cad_dataset",
    "ycb": "ycb",
    "episodes": "rearrange_dataset_v2",
    "robot": "hab_fetch",
}
"""Names that habitat-sim's downloader knows the benchmark's data by."""


def download_command(what: str, folder: str = "data") -> str:
    """Return the command that downloads a part of the benchmark's data."""
    module = "python -m habitat_sim.utils.datasets_download"
    return f"{module} --uids {DOWNLOADS[what]} --data-path {folder}"


@dataclass(frozen=True)
class Config:
    """One JSON file and checked access to it.

    Attributes:
        path: of the file.
        raw: its content.
        prefix: where in the file it stands, for messages, e.g. ``"user_defined."``.
    """

    path: Path
    raw: Mapping[str, Any]
    prefix: str = ""

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        return str(self._get(self.raw, key, str, "a string", default))

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        return bool(self._get(self.raw, key, bool, "true or false", default))

    def number(self, key: str, default: float) -> float:
        """Return a finite number."""
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(key, "is not a finite number")
        if not abs(value) <= LARGEST:
            self.fail(key, f"is not a finite number below {LARGEST:g}")
        return float(value)

    def positive(self, key: str, default: float) -> float:
        """Return a finite number above 0."""
        value = self.number(key, default)
        if value <= 0.0:
            self.fail(key, "must be positive")
        return value

    def vector(self, key: str, default: tuple[float, ...]) -> np.ndarray:
        """Return a finite float64 array of the default's length."""
        return vector(self, self.raw.get(key, list(default)), len(default), key)

    def section(self, key: str) -> dict[str, Any]:
        """Return an object; a missing one is empty."""
        return dict(self._get(self.raw, key, dict, "an object", {}))

    def inside(self, key: str) -> Config:
        """Return checked access to an object; a missing one is empty."""
        return Config(self.path, self.section(key), f"{self.prefix}{key}.")

    def each(self, key: str) -> list[tuple[str, Config]]:
        """Return the objects of an object, by name."""
        inner = self.inside(key)
        return [(name, inner.inside(name)) for name in inner.raw]

    def items(self, key: str) -> list[Config]:
        """Return the objects of a list; a missing one is empty."""
        found = self._get(self.raw, key, list, "a list", [])
        if len(found) > MOST_ITEMS:
            self.fail(key, f"holds {len(found)} objects, more than the {MOST_ITEMS} allowed")
        for index, item in enumerate(found):
            if not isinstance(item, dict):
                self.fail(f"{key}[{index}]", "is not an object")
        return [Config(self.path, item, f"{key}[{i}].") for i, item in enumerate(found)]

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; a missing one is empty."""
        found = self._get(self.raw, key, list, "a list", [])
        if not all(isinstance(item, str) for item in found):
            self.fail(key, "is not a list of texts")
        return list(found)

    def asset(self, key: str, default: Path | None = None) -> Path:
        """Return the path of a file that the config names, relative to the config.

        Raises:
            UserError: there is no such field or file.
        """
        if key not in self.raw and default is not None:
            return default
        found = beside(self.path, self.text(key))
        if found is None:
            raise UserError(
                f"{self.path}: field '{self.prefix}{key}' names {self.text(key)}, which is not"
                " there; download the dataset anew or correct the path"
            )
        return found

    def fail(self, key: str, problem: str) -> Any:
        """Raise the error for a field.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.path}: field '{self.prefix}{key}' {problem}; correct the file")

    def _get(self, raw: Mapping[str, Any], key: str, kind: type, what: str, default: Any) -> Any:
        value = raw.get(key, default)
        if value is None:
            self.fail(key, "is missing")
        if not isinstance(value, kind):
            self.fail(key, f"is not {what}")
        return value


def vector(config: Config, value: Any, size: int, key: str) -> np.ndarray:
    """Return a checked (size,) float64 array.

    Raises:
        UserError: it is something else.
    """
    numbers = isinstance(value, list) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in value
    )
    if not numbers or len(value) != size or not all(abs(v) <= LARGEST for v in value):
        config.fail(key, f"is not a list of {size} finite numbers below {LARGEST:g}")
    return np.asarray(value, dtype=np.float64)


def read_config(path: Path) -> Config:
    """Read a JSON object.

    Raises:
        UserError: the file is missing, unreadable or something else.
    """
    return Config(path, read_json(path, 64 * MIB, "download the dataset again"))


def beside(path: Path, name: str) -> Path | None:
    """Return the file that another one names relative to itself, ``None`` if there is none."""
    try:
        found = (path.parent / name).resolve()
        return found if found.is_file() else None
    except (OSError, ValueError, RuntimeError):  # a name too long or with a NUL, a loop of links
        return None


class Catalog:
    """What a scene dataset configuration lists: templates by the end of their file names.

    Args:
        path: the configuration, its folder, or a Habitat data folder with ``replica_cad`` in it.

    Raises:
        UserError: there is none, or it was exported by a newer tpsrl.
    """

    def __init__(self, path: Path) -> None:
        self.config = read_config(_find_dataset(path))
        self.root = self.config.path.parent
        self._check_version()
        self.stages = self._list("stages", "stage")
        self.objects = self._list("objects", "object")
        self.articulated = self._list("articulated_objects", "articulated")
        self.scenes = self._list("scene_instances", "scene")
        for folder in (self.root / "objects/ycb/configs", self.root.parent / "objects/ycb/configs"):
            for found in sorted(folder.glob(f"*{SUFFIX['object']}")):
                self.objects.setdefault(_stem(found, "object"), found)

    def find(self, what: str, template: str, where: Path) -> Path:
        """Return the file of a template named as scene instances name them.

        Raises:
            UserError: the dataset has none; with the closest name there is.
        """
        known = {"stage": self.stages, "object": self.objects, "articulated": self.articulated}
        name = _stem(Path(template), what)
        if name not in known[what]:
            raise UserError(
                f"{where}: names the {what} '{template}', which {self.config.path} does not"
                f" list{nearest(name, known[what])}"
            )
        return known[what][name]

    def _list(self, section: str, what: str) -> dict[str, Path]:
        raw = self.config.section(section)
        if raw.get("configs"):
            self.config.fail(
                f"{section}.configs", "changes templates in place, which tpsrl cannot read"
            )
        paths = self.config.inside(section).inside("paths")
        patterns = [p for key in (".json", ".urdf") for p in paths.texts(key)]
        found: dict[str, Path] = {}
        for pattern in patterns:
            for folder in self._matches(pattern, section):
                candidates = [folder] if folder.is_file() else sorted(folder.iterdir())
                for file in candidates:
                    if file.name.endswith(SUFFIX[what]):
                        found[_stem(file, what)] = file
                    elif what == "articulated" and file.suffix == ".urdf":
                        found.setdefault(_stem(file, what), file)
        return found

    def _matches(self, pattern: str, section: str) -> list[Path]:
        """Return what a path with wildcards names, sorted."""
        if "**" in pattern and ".." in pattern:
            self.config.fail(f"{section}.paths", f"searches all of the disk with '{pattern}'")
        try:
            return sorted(self.root.glob(pattern.rstrip("/")))
        except (ValueError, NotImplementedError, OSError, RecursionError) as error:
            return list(self.config.fail(f"{section}.paths", f"has '{pattern}' ({error})"))

    def _check_version(self) -> None:
        manifest = self.root / MANIFEST
        if self.config.path.name != DATASET or not manifest.exists():
            return
        version = read_config(manifest).raw.get("version")
        if version != VERSION:
            raise UserError(
                f"{manifest}: was written by another version of tpsrl (format {version}, this one"
                f" reads {VERSION}); export the apartments again"
            )


def _find_dataset(path: Path) -> Path:
    if path.is_file():
        return path
    for folder in (path, path / "replica_cad"):
        found = sorted(folder.glob(f"*{SUFFIX['dataset']}"))
        plain = [f for f in found if "baked" not in f.name]
        if len(plain) > 1:
            raise UserError(
                f"{folder}: holds several scene datasets ({', '.join(f.name for f in plain)});"
                " give the path of one of them"
            )
        if plain:
            return plain[0]
    raise UserError(
        f"{path}: holds no {SUFFIX['dataset'][1:]}; give the folder of a scene dataset, or"
        f" download ReplicaCAD with '{download_command('replica_cad')}'"
    )


def _stem(path: Path, what: str) -> str:
    name = path.name.removesuffix(".urdf")
    return name.removesuffix(SUFFIX[what]).removesuffix(SUFFIX[what].removesuffix(".json"))
