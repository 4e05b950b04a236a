"""Finds and reads the configuration files of a Habitat scene dataset, naming what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.errors import UserError, nearest
from tpsrl.habitat.format import DATASET, MANIFEST, SUFFIX, VERSION

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
    """

    path: Path
    raw: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        return str(self._get(self.raw, key, str, "a string", default))

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        return bool(self._get(self.raw, key, bool, "true or false", default))

    def number(self, key: str, default: float) -> float:
        """Return a finite number."""
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            self.fail(key, "is not a finite number")
        return float(value)

    def vector(self, key: str, default: tuple[float, ...]) -> np.ndarray:
        """Return a finite float64 array of the default's length."""
        return vector(self, self.raw.get(key, list(default)), len(default), key)

    def section(self, key: str) -> dict[str, Any]:
        """Return an object; a missing one is empty."""
        return dict(self._get(self.raw, key, dict, "an object", {}))

    def items(self, key: str) -> list[Config]:
        """Return the objects of a list; a missing one is empty."""
        found = self._get(self.raw, key, list, "a list", [])
        for index, item in enumerate(found):
            if not isinstance(item, dict):
                self.fail(f"{key}[{index}]", "is not an object")
        return [Config(self.path, item) for item in found]

    def asset(self, key: str, default: Path | None = None) -> Path:
        """Return the path of a file that the config names, relative to the config.

        Raises:
            UserError: there is no such field or file.
        """
        if key not in self.raw and default is not None:
            return default
        found = (self.path.parent / self.text(key)).resolve()
        if not found.is_file():
            raise UserError(
                f"{self.path}: field '{key}' names {found}, which is not there; download the"
                " dataset anew or correct the path"
            )
        return found

    def fail(self, key: str, problem: str) -> Any:
        """Raise the error for a field.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.path}: field '{key}' {problem}")

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
    if not numbers or len(value) != size or not np.isfinite(value).all():
        config.fail(key, f"is not a list of {size} finite numbers")
    return np.asarray(value, dtype=np.float64)


def read_config(path: Path) -> Config:
    """Read a JSON object.

    Raises:
        UserError: the file is missing, unreadable or something else.
    """
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; is the dataset complete?") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no JSON text; download it again") from None
    except json.JSONDecodeError as error:
        hint = ""
        if path.read_bytes()[:12] == b"version http":
            hint = " it is a Git LFS pointer: run 'git lfs pull' in the dataset;"
        raise UserError(
            f"{path}: is not valid JSON at line {error.lineno}, column {error.colno};{hint}"
            " download it again"
        ) from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: holds no JSON object; it is no Habitat configuration")
    return Config(path, raw)


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
        paths = raw.get("paths", {})
        patterns = [p for key in (".json", ".urdf") for p in paths.get(key, [])]
        found: dict[str, Path] = {}
        for pattern in patterns:
            for folder in sorted(self.root.glob(pattern.rstrip("/"))) or []:
                candidates = [folder] if folder.is_file() else sorted(folder.iterdir())
                for file in candidates:
                    if file.name.endswith(SUFFIX[what]):
                        found[_stem(file, what)] = file
                    elif what == "articulated" and file.suffix == ".urdf":
                        found.setdefault(_stem(file, what), file)
        return found

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
