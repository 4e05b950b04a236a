"""Where things of an apartment stand in the world: frames, boxes, outlines on the floor.

Pure NumPy. Frames: z up, metres, radians, quaternions ``wxyz``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpsrl.geometry.polygons import polygon_distance_grid
from tpsrl.geometry.rotations import frame, planar_frame, quat_to_matrix
from tpsrl.robot.fetch import NAVIGATION_HEIGHT
from tpsrl.scenes.description import (
    Apartment,
    Furniture,
    Layout,
    Link,
    Receptacle,
    Shape,
)

_GAP = 0.1
"""An outline around all parts is good enough if it adds nothing deeper than this, m."""
_CORNERS = np.array(
    [[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)], dtype=np.float64
)


@dataclass(frozen=True)
class OrientedBox:
    """A box in the world.

    Attributes:
        center: (3,) float64.
        half_size: (3,) float64, along the box's own axes.
        rotation: (3, 3) float64, columns are the box's axes in the world.
    """

    center: np.ndarray
    half_size: np.ndarray
    rotation: np.ndarray

    @property
    def support_height(self) -> float:
        """Height of the bottom face's centre, m: where objects lie."""
        return float(self.center[2] - self.rotation[2, 2] * self.half_size[2])

    def contains(self, points: np.ndarray, margin: float = 0.0) -> np.ndarray:
        """Return (...,) bool for (..., 3) ``points``: inside the box grown by ``margin``."""
        local = (np.asarray(points, dtype=np.float64) - self.center) @ self.rotation
        return np.all(np.abs(local) <= self.half_size + margin, axis=-1)


def find_furniture(apartment: Apartment, name: str) -> Furniture:
    """Return the piece called ``name``.

    Raises:
        ValueError: the apartment has no such piece.
    """
    for piece in apartment.furniture:
        if piece.name == name:
            return piece
    known = ", ".join(p.name for p in apartment.furniture)
    raise ValueError(f"apartment {apartment.name!r} has no furniture {name!r}; it has {known}")


def find_link(piece: Furniture, name: str) -> Link:
    """Return the link called ``name`` of a piece.

    Raises:
        ValueError: the piece has no such link.
    """
    for link in piece.links:
        if link.name == name:
            return link
    known = ", ".join(link.name for link in piece.links)
    raise ValueError(f"furniture {piece.name!r} has no link {name!r}; it has {known}")


def find_receptacle(apartment: Apartment, name: str) -> tuple[Furniture, Receptacle]:
    """Return the receptacle called ``name`` and the piece that has it.

    Raises:
        ValueError: the apartment has no such receptacle.
    """
    for piece in apartment.furniture:
        for receptacle in piece.receptacles:
            if receptacle.name == name:
                return piece, receptacle
    known = ", ".join(r.name for p in apartment.furniture for r in p.receptacles)
    raise ValueError(f"apartment {apartment.name!r} has no receptacle {name!r}; it has {known}")


def enclosing_joints(apartment: Apartment) -> dict[str, str]:
    """Return, for each receptacle in a container, the ``"furniture/link"`` whose joint opens it."""
    found = {}
    for piece in apartment.furniture:
        for place in piece.receptacles:
            center = np.array(place.center)
            around = [
                box.joint_link
                for box in piece.containers
                if not box.moves
                and (np.abs(center - np.array(box.center)) <= np.array(box.half_size)).all()
            ]
            rides = find_link(piece, place.link).joint is not None
            opener = place.link if rides else next(iter(around), None)
            if opener is not None:
                found[place.name] = f"{piece.name}/{opener}"
    return found


def joint_motion(link: Link, joint_pos: float) -> np.ndarray:
    """Return the (4, 4) transform that a joint at ``joint_pos`` (m or rad) applies to its link.

    Raises:
        ValueError: the link is a root and does not move.
    """
    if link.joint is None:
        if joint_pos == 0.0:
            return np.eye(4)
        raise ValueError(f"link {link.name!r} has no joint and cannot be moved to {joint_pos}")
    axis = np.asarray(link.joint.axis, dtype=np.float64)
    out = np.eye(4)
    if link.joint.kind == "slide":
        out[:3, 3] = axis * joint_pos
    else:
        quat = np.concatenate([[np.cos(joint_pos / 2)], axis * np.sin(joint_pos / 2)])
        out[:3, :3] = quat_to_matrix(quat)
    return out


def link_frame(link: Link, pose: tuple[float, float, float], joint_pos: float = 0.0) -> np.ndarray:
    """Return the (4, 4) world transform of a link when its piece stands at ``pose``."""
    return planar_frame(pose) @ frame(link.pos, link.quat) @ joint_motion(link, joint_pos)


def receptacle_box(
    apartment: Apartment, layout: Layout, name: str, joint_pos: float = 0.0
) -> OrientedBox:
    """Return a receptacle's box in the world, its drawer or door at ``joint_pos``."""
    piece, receptacle = find_receptacle(apartment, name)
    world = link_frame(find_link(piece, receptacle.link), layout.poses[piece.name], joint_pos)
    return OrientedBox(
        world[:3, :3] @ np.asarray(receptacle.center) + world[:3, 3],
        np.asarray(receptacle.half_size, dtype=np.float64),
        world[:3, :3],
    )


def marker_position(
    apartment: Apartment, layout: Layout, name: str, joint_pos: float = 0.0
) -> np.ndarray:
    """Return the (3,) world position of a handle, its link at ``joint_pos``.

    Raises:
        ValueError: the apartment has no such marker.
    """
    for piece in apartment.furniture:
        for marker in piece.markers:
            if marker.name == name:
                link = find_link(piece, marker.link)
                world = link_frame(link, layout.poses[piece.name], joint_pos)
                return world[:3, :3] @ np.asarray(marker.offset) + world[:3, 3]
    known = ", ".join(m.name for p in apartment.furniture for m in p.markers)
    raise ValueError(f"apartment {apartment.name!r} has no marker {name!r}; it has {known}")


def shape_points(shape: Shape) -> np.ndarray:
    """Return (k, 3) points whose convex hull encloses a shape, in its link's frame.

    A round shape is enclosed in an octagonal prism.
    """
    if shape.kind == "mesh":
        points = np.asarray(shape.vertices, dtype=np.float64)
    elif shape.kind == "box":
        points = _CORNERS * np.asarray(shape.size)
    else:
        radius = shape.size[0] / np.cos(np.pi / 8)
        half_height = shape.size[1] if shape.kind == "cylinder" else shape.size[0]
        angle = np.pi / 8 + np.arange(8) * np.pi / 4
        ring = np.stack([np.cos(angle) * radius, np.sin(angle) * radius], axis=-1)
        points = np.concatenate(
            [np.column_stack([ring, np.full(8, z)]) for z in (-half_height, half_height)]
        )
    return points @ quat_to_matrix(shape.quat).T + np.asarray(shape.pos)


def convex_outline(points: np.ndarray) -> np.ndarray:
    """Return the (v, 2) convex hull, counter-clockwise, of (k, 2) points (monotone chain)."""
    # Plain numbers: NumPy takes a hundred times as long for a handful of them.
    unique = sorted({(x, y) for x, y in np.round(points, 9).tolist()})

    def half(ordered: list[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for x, y in ordered:
            while len(chain) >= 2:
                (ax, ay), (bx, by) = chain[-2:]
                if (bx - ax) * (y - by) - (by - ay) * (x - bx) > 1e-12:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return np.array(half(unique) + half(unique[::-1]))


def link_footprint(
    link: Link,
    pose: tuple[float, float, float],
    joint_pos: float = 0.0,
    height: float = NAVIGATION_HEIGHT,
) -> np.ndarray | None:
    """Return the (v, 2) convex outline on the floor of a link's colliding parts below ``height``.

    Returns:
        The polygon, counter-clockwise, or ``None`` if nothing of the link is below ``height``.
    """
    low = _low_parts(link, pose, joint_pos, height)
    return convex_outline(np.concatenate(low)) if low else None


def link_footprints(
    link: Link,
    pose: tuple[float, float, float],
    height: float = NAVIGATION_HEIGHT,
) -> list[np.ndarray]:
    """Return (v, 2) convex outlines of a closed link: one, or one a part where one fills corners.

    One outline is enough where no place inside it is farther than 0.1 m from the parts; an L-shaped
    piece gets one for each part, so that its inner corner stays free.
    """
    low = _low_parts(link, pose, 0.0, height)
    if not low:
        return []
    whole = convex_outline(np.concatenate(low))
    parts = [convex_outline(part) for part in low]
    if len(parts) == 1 or _deepest_gap(whole, parts) < _GAP or any(len(p) < 3 for p in parts):
        return [whole]
    return parts


def _low_parts(
    link: Link,
    pose: tuple[float, float, float],
    joint_pos: float,
    height: float,
) -> list[np.ndarray]:
    """Return (k, 2) points of each colliding part that begins below ``height``, in the world."""
    clouds = [shape_points(s) for s in link.shapes if s.collide]
    world = link_frame(link, pose, joint_pos)
    placed = [cloud @ world[:3, :3].T + world[:3, 3] for cloud in clouds]
    return [cloud[:, :2] for cloud in placed if cloud[:, 2].min() < height]


def _deepest_gap(whole: np.ndarray, parts: list[np.ndarray]) -> float:
    """Return how far a place inside a convex outline can be from all of its parts, m."""
    low, high = whole.min(axis=0), whole.max(axis=0)
    xs, ys = np.arange(low[0], high[0], _GAP / 2), np.arange(low[1], high[1], _GAP / 2)
    inside = polygon_distance_grid(xs, ys, whole) <= 0.0
    gaps = np.min([polygon_distance_grid(xs, ys, part) for part in parts], axis=0)
    return float(gaps[inside].max(initial=0.0))


def wall_footprints(apartment: Apartment, height: float = NAVIGATION_HEIGHT) -> list[np.ndarray]:
    """Return one (v, 2) convex outline for each colliding wall that starts below ``height``."""
    clouds = [shape_points(s) for s in apartment.walls if s.collide]
    return [convex_outline(c[:, :2]) for c in clouds if c[:, 2].min() < height]


def furniture_footprints(
    apartment: Apartment, layout: Layout, height: float = NAVIGATION_HEIGHT
) -> dict[str, list[np.ndarray]]:
    """Return for each piece the (v, 2) convex outlines of its links, drawers and doors closed."""
    return {
        piece.name: [
            outline
            for link in piece.links
            for outline in link_footprints(link, layout.poses[piece.name], height)
        ]
        for piece in apartment.furniture
    }


def footprints(
    apartment: Apartment, layout: Layout, height: float = NAVIGATION_HEIGHT
) -> list[np.ndarray]:
    """Return convex (v, 2) float64 polygons of all that blocks the base: walls and furniture."""
    pieces = furniture_footprints(apartment, layout, height)
    return wall_footprints(apartment, height) + [o for group in pieces.values() for o in group]


def inner_bounds(apartment: Apartment) -> np.ndarray:
    """Return the (2, 2) xy corners of the outer walls' inside, lower corner first."""
    return np.asarray(apartment.bounds, dtype=np.float64).copy()
