"""Solids as upright prisms: a convex polygon on the floor plan and a range of heights.

Furniture and the objects that the generator places turn about the vertical only, so a prism is
exact for boxes and cylinders and a little larger than the shape for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import shapely

from tpsrl.geometry.rotations import quat_to_matrix
from tpsrl.scenes.description import ObjectType
from tpsrl.scenes.geometry import shape_points


@dataclass(frozen=True)
class Prism:
    """A solid.

    Attributes:
        polygon: its floor plan, convex.
        bottom, top: heights, m.
        owner: furniture (``"fridge/top_door"``) or object that it belongs to.
    """

    polygon: shapely.Polygon
    bottom: float
    top: float
    owner: str


def prism(vertices: np.ndarray, owner: str) -> Prism:
    """Smallest prism around (v, 3) points."""
    polygon = shapely.MultiPoint(vertices[:, :2]).convex_hull
    return Prism(polygon, float(vertices[:, 2].min()), float(vertices[:, 2].max()), owner)


def object_vertices(kind: ObjectType) -> np.ndarray:
    """(v, 3) points around all colliding shapes of an object, in its own frame."""
    return np.concatenate([shape_points(s) for s in kind.shapes if s.collide])


def object_prism(vertices: np.ndarray, pos: np.ndarray, quat: np.ndarray, owner: str) -> Prism:
    """Prism of an object at a pose; ``vertices`` come from `object_vertices`."""
    return prism(vertices @ quat_to_matrix(quat).T + pos, owner)


class Solids:
    """Prisms with a quick test which of them a new one meets."""

    def __init__(self, prisms: Iterable[Prism] = ()) -> None:
        self.prisms: list[Prism] = []
        self._bounds = np.zeros((0, 6))
        self.add(*prisms)

    def add(self, *prisms: Prism) -> None:
        """Append prisms."""
        if prisms:
            self.prisms.extend(prisms)
            new = [(*p.polygon.bounds, p.bottom, p.top) for p in prisms]
            self._bounds = np.concatenate([self._bounds, np.array(new)])

    def near(
        self, polygon: shapely.Polygon, bottom: float, top: float, gap: float = 0.0
    ) -> list[Prism]:
        """Prisms that overlap the given one, or come nearer to it sideways than ``gap``."""
        x0, y0, x1, y1 = polygon.bounds
        b = self._bounds
        hit = (b[:, 0] < x1 + gap) & (b[:, 2] > x0 - gap)
        hit &= (b[:, 1] < y1 + gap) & (b[:, 3] > y0 - gap)
        hit &= (b[:, 4] < top) & (b[:, 5] > bottom)
        found = [self.prisms[i] for i in np.flatnonzero(hit)]
        if gap > 0.0:
            return [p for p in found if p.polygon.distance(polygon) < gap]
        return [p for p in found if p.polygon.intersects(polygon)]


def corridor(start: np.ndarray, end: np.ndarray, width: float) -> shapely.Polygon:
    """Strip of the floor plan from one (2,) point to another, with square ends."""
    return shapely.LineString([start, end]).buffer(width / 2, cap_style="flat")


def union(prisms: Sequence[Prism]) -> shapely.Geometry:
    """Floor plan covered by any of the prisms."""
    return shapely.union_all([p.polygon for p in prisms])
