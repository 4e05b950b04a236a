"""What must hold of every layout, measured on polygons and on a 4 cm grid of free space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree
from shapely.geometry import Polygon
from shapely.ops import unary_union

from tpsrl.geometry import rotations
from tpsrl.robot.fetch import BASE_RADIUS
from tpsrl.scenes import geometry
from tpsrl.scenes.description import Apartment, Layout

CELL = 0.04
REACH = 0.85
"""How far from the base's centre the cup touches things on any receptacle, m (conservative)."""

FRONT_CLEARANCE = 1.2
CORRIDOR = 1.0 - CELL
"""Width of the way into every part of the apartment that is wider than that, m."""

MAIN_ISLAND = 0.985
"""Least share of the free space that the largest island must have."""
OPEN_ANGLES = (0.4, 0.8, 1.2, 1.5, 1.8, 2.1)


class LayoutCheck:
    """One layout as polygons and free space; each ``problems_*`` method returns sentences."""

    def __init__(self, apartment: Apartment, layout: Layout) -> None:
        self.apartment, self.layout = apartment, layout
        links = geometry.furniture_footprints(apartment, layout)
        self.pieces = {
            name: unary_union([Polygon(p) for p in group]) for name, group in links.items()
        }
        self.walls = unary_union([Polygon(p) for p in geometry.wall_footprints(apartment)])
        self.low, self.high = geometry.inner_bounds(apartment)
        counts = np.ceil((self.high - self.low) / CELL).astype(int)
        axes = [self.low[k] + (np.arange(counts[k]) + 0.5) * CELL for k in range(2)]
        self.points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        self.polygons = geometry.footprints(apartment, layout)
        self.blocked = self._raster(self.polygons)

    def _raster(self, polygons: list[np.ndarray]) -> np.ndarray:
        mask = np.zeros(self.points.shape[:2], dtype=bool)
        for polygon in polygons:
            low = np.floor((polygon.min(axis=0) - self.low) / CELL).astype(int) - 1
            high = np.ceil((polygon.max(axis=0) - self.low) / CELL).astype(int) + 1
            window = tuple(slice(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True))
            inside = np.ones(mask[window].shape, dtype=bool)
            for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
                edge, offset = b - a, self.points[window] - a
                inside &= edge[0] * offset[..., 1] - edge[1] * offset[..., 0] >= -1e-9
            mask[window] |= inside
        return mask

    def islands(
        self, extra: tuple[np.ndarray, ...] = (), radius: float = BASE_RADIUS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest island's mask and the areas of all islands, m2, largest first."""
        blocked = np.pad(self.blocked | self._raster(list(extra)), 1, constant_values=True)
        free = ndimage.distance_transform_edt(~blocked, sampling=CELL)[1:-1, 1:-1] > radius
        labels, count = ndimage.label(free)
        areas = np.bincount(labels.ravel(), minlength=count + 1)[1:] * CELL**2
        largest = labels == 1 + int(np.argmax(areas))
        return largest, np.sort(areas)[::-1]

    def link_polygon(self, piece_name: str, link_name: str, joint_pos: float) -> np.ndarray:
        """Return the (v, 2) outline of a link, its joint at ``joint_pos``."""
        piece = geometry.find_furniture(self.apartment, piece_name)
        link = geometry.find_link(piece, link_name)
        out = geometry.link_footprint(link, self.layout.poses[piece_name], joint_pos)
        assert out is not None
        return out

    def problems_overlap(self) -> list[str]:
        """Pieces that overlap, or stand in a wall or outside."""
        names, out = list(self.pieces), []
        for i, name in enumerate(names):
            if self.pieces[name].intersection(self.walls).area > 1e-6:
                out.append(f"{name} stands in a wall")
            low, high = np.array(self.pieces[name].bounds).reshape(2, 2)
            if np.any(low < self.low) or np.any(high > self.high):
                out.append(f"{name} stands outside")
            for other in names[i + 1 :]:
                gap = self.pieces[name].distance(self.pieces[other])
                if gap < 0.02:
                    out.append(f"{name} and {other} are {gap:.3f} m apart")
        return out

    def problems_free_space(self) -> list[str]:
        """Free space that does not hang together."""
        out = []
        for radius in (BASE_RADIUS, CORRIDOR / 2):
            _, areas = self.islands(radius=radius)
            if areas[0] < MAIN_ISLAND * areas.sum():
                out.append(f"islands of {np.round(areas, 2)} m2 for a disc of {radius} m")
        return out

    def problems_receptacles(self) -> list[str]:
        """Open receptacles that are out of reach."""
        out = []
        free = cKDTree(self.points[self.islands()[0]])
        for name in (r.name for p in self.apartment.furniture for r in p.receptacles):
            if name.startswith(("drawer", "fridge")):
                continue
            box = geometry.receptacle_box(self.apartment, self.layout, name)
            out += self._unreached(name, box, free)
        return out

    def _unreached(self, name: str, box: geometry.OrientedBox, free: cKDTree) -> list[str]:
        grid = np.array([[x, y, -1.0] for x in (-1, 0, 1) for y in (-1, -0.5, 0, 0.5, 1)])
        targets = (box.center + (grid * box.half_size) @ box.rotation.T)[:, :2]
        worst = float(np.max(free.query(targets)[0]))
        return [f"{name}: {worst:.2f} m from free space"] if worst > REACH else []

    def _in_front(self, piece: str, low: float, high: float, depth: float) -> Polygon:
        """Return the rectangle before a piece's front between two of its own y."""
        pose = self.layout.poses[piece]
        link = geometry.find_furniture(self.apartment, piece).links[0]
        half = max(geometry.shape_points(s)[:, 0].max() for s in link.shapes)
        corners = np.array([[half, low], [half + depth, low], [half + depth, high], [half, high]])
        world = rotations.planar_frame(pose)
        return Polygon(corners @ world[:2, :2].T + world[:2, 3])

    def _others(self, piece: str) -> dict[str, Polygon]:
        others = {n: p for n, p in self.pieces.items() if n != piece}
        return {**others, "a wall": self.walls}

    def problems_drawers(self) -> list[str]:
        """Drawers that cannot be opened or reached into."""
        out = []
        piece = geometry.find_furniture(self.apartment, "kitchen_counter")
        for link in piece.links[1:]:
            y, half = link.pos[1], 0.30
            area = self._in_front(piece.name, y - half, y + half, FRONT_CLEARANCE)
            for name, other in self._others(piece.name).items():
                if area.intersects(other):
                    out.append(f"{name} stands before {link.name}")
        # All drawers at once: whatever the robot does, it has more room than this.
        opened = [self.link_polygon(piece.name, link.name, 0.5) for link in piece.links[1:]]
        island, areas = self.islands(tuple(opened))
        if areas[0] < MAIN_ISLAND * areas.sum():
            out.append(f"drawers open: islands of {np.round(areas, 2)} m2")
        free = cKDTree(self.points[island])
        for receptacle in piece.receptacles:
            if receptacle.link != piece.links[0].name:
                box = geometry.receptacle_box(self.apartment, self.layout, receptacle.name, 0.45)
                out += self._unreached(receptacle.name, box, free)
        return out

    def problems_fridge(self) -> list[str]:
        """A fridge that cannot be opened or reached into."""
        out = []
        area = self._in_front("fridge", -0.375, 0.375, FRONT_CLEARANCE)
        sweep = [Polygon(self.link_polygon("fridge", "top_door", q)) for q in OPEN_ANGLES]
        swept = unary_union(sweep)
        for name, other in self._others("fridge").items():
            if area.intersects(other):
                out.append(f"{name} stands before the fridge")
            if swept.distance(other) < 0.05:
                out.append(f"{name} is in the way of the fridge's door")
        for angle in (1.5, 2.1):
            opened = self.link_polygon("fridge", "top_door", angle)
            island, areas = self.islands((opened,))
            if areas[0] < MAIN_ISLAND * areas.sum():
                out.append(f"fridge at {angle}: islands of {np.round(areas, 2)} m2")
            free = cKDTree(self.points[island])
            box = geometry.receptacle_box(self.apartment, self.layout, "fridge_middle")
            out += [f"fridge at {angle}: {p}" for p in self._unreached("shelf", box, free)]
        return out

    def steps(self) -> Iterator[str]:
        """Yield all that is wrong with the layout, one sentence each, as it is found."""
        for check in (
            self.problems_overlap,
            self.problems_free_space,
            self.problems_receptacles,
            self.problems_drawers,
            self.problems_fridge,
        ):
            yield from check()

    def problems(self) -> list[str]:
        """Return all that is wrong with the layout, one sentence each."""
        return list(self.steps())
