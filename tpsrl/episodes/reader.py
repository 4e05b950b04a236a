"""Checked access to the fields of an episode file; every error names file, episode and field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tpsrl.errors import UserError

_MISSING: Any = object()
FARTHEST = 1e4
"""Nothing of an episode lies farther from the origin, m."""


@dataclass(frozen=True)
class Reader:
    """Knows which episode is being read, for the error messages.

    Attributes:
        source: the file.
        episode_id: the episode.
    """

    source: str
    episode_id: str

    def fail(self, field: str, problem: str) -> NoReturn:
        """Raise the error for a field.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.source}: episode '{self.episode_id}': field '{field}' {problem}")

    def text(self, raw: dict[str, Any], key: str, path: str = "", default: Any = _MISSING) -> str:
        """Return a string field."""
        return str(self._get(raw, key, str, "a string", default, path))

    def mapping(
        self, raw: dict[str, Any], key: str, default: Any = _MISSING, path: str = ""
    ) -> dict[str, Any]:
        """Return an object field."""
        return self._get(raw, key, dict, "an object", default, path)

    def sequence(
        self, raw: dict[str, Any], key: str, default: Any = _MISSING, path: str = ""
    ) -> list[Any]:
        """Return a list field."""
        return self._get(raw, key, list, "a list", default, path)

    def pairs(self, raw: dict[str, Any], key: str) -> list[Any]:
        """Return an optional list of [furniture handle, link id or null]."""
        out = self.sequence(raw, key, default=[])
        for i, pair in enumerate(out):
            good = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
            if not good or not isinstance(pair[1], int | None):
                self.fail(f"{key}[{i}]", "is not a pair of furniture handle and link id")
        return out

    def number(self, value: Any, field: str) -> float:
        """Return a finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(field, "is not a number")
        if not np.isfinite(value):
            self.fail(field, "is NaN or infinite")
        return float(value)

    def vector(self, value: Any, size: int, field: str) -> np.ndarray:
        """Return a finite (size,) float64 array."""
        array = _float_array(value)
        if array is None or array.shape != (size,):
            self.fail(field, f"is not a list of {size} numbers")
        if not np.isfinite(array).all():
            self.fail(field, "contains NaN or infinity")
        if np.abs(array).max() > FARTHEST:
            self.fail(field, f"lies farther away than {FARTHEST:g} m")
        return array

    def transforms(self, values: list[Any], name: Callable[[int], str]) -> np.ndarray:
        """Return (n, 4, 4) rigid transforms; ``name(i)`` names the i-th in an error."""
        if not values:
            return np.zeros((0, 4, 4))
        array = _float_array(values)
        if array is None or array.shape[1:] != (4, 4):
            array = np.stack([self._matrix(v, name(i)) for i, v in enumerate(values)])
        self._reject(~np.isfinite(array).all(axis=(1, 2)), name, "contains NaN or infinity")
        rotation = np.clip(array[:, :3, :3], -2.0, 2.0)
        off = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
        bad = (off > 1e-2) | (np.linalg.det(rotation) < 0)
        bad |= np.abs(array[:, 3] - [0.0, 0.0, 0.0, 1.0]).max(axis=1) > 1e-6
        self._reject(bad, name, "is not a rigid transform (rotation, translation, 0 0 0 1)")
        far = np.abs(array[:, :3, 3]).max(axis=1) > FARTHEST
        self._reject(far, name, f"lies farther away than {FARTHEST:g} m")
        return array

    def _matrix(self, value: Any, field: str) -> np.ndarray:
        array = _float_array(value)
        if array is None or array.shape != (4, 4):
            self.fail(field, "is not a 4x4 matrix of numbers")
        return array

    def _reject(self, bad: np.ndarray, name: Callable[[int], str], problem: str) -> None:
        if bad.any():
            self.fail(name(int(np.argmax(bad))), problem)

    def _get(
        self, raw: dict[str, Any], key: str, kind: type, what: str, default: Any, path: str
    ) -> Any:
        value = raw.get(key, default)
        if value is _MISSING:
            self.fail(path or key, "is missing")
        if value is None and default is not _MISSING:
            return default
        if not isinstance(value, kind):
            self.fail(path or key, f"is not {what}")
        return value


def _float_array(value: Any) -> np.ndarray | None:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiu" else None
