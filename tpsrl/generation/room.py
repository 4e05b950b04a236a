"""One layout of the apartment as the generator sees it: solids, receptacles and free space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpsrl.generation.prisms import Prism, Solids, prism
from tpsrl.geometry.rotations import frame, matrix_to_quat
from tpsrl.robot.fetch import NAVIGATION_HEIGHT
from tpsrl.scenes.description import Apartment, Furniture, Joint, Link
from tpsrl.scenes.geometry import (
    enclosing_joints,
    link_footprint,
    link_frame,
    receptacle_box,
    shape_points,
)
from tpsrl.sim.scene import Navigation, SceneInfo

OPEN = {"slide": 0.45, "hinge": 1.5}
"""How far a container is taken to be open when its contents are checked for reach, m or rad."""


@dataclass(frozen=True)
class Pose:
    """Position (3,) and ``wxyz`` orientation (4,)."""

    pos: np.ndarray
    quat: np.ndarray


class Room:
    """Furniture of one layout.

    Args:
        apartment: all furniture.
        scene: its layout, as the simulator door describes it.
    """

    def __init__(self, apartment: Apartment, scene: SceneInfo) -> None:
        self.apartment = apartment
        self.scene = scene
        self.layout = apartment.layouts[scene.layout]
        self._links: dict[str, tuple[Furniture, Link]] = {
            f"{f.name}/{link.name}": (f, link) for f in apartment.furniture for link in f.links
        }
        self._clouds = {
            key: [shape_points(s) for s in link.shapes if s.collide]
            for key, (_, link) in self._links.items()
        }
        pairs = [(f, r) for f in apartment.furniture for r in f.receptacles]
        self.capacity = {r.name: r.capacity for _, r in pairs if r.capacity is not None}
        self._link_of = {r.name: f"{f.name}/{r.link}" for f, r in pairs}
        self._container = enclosing_joints(apartment)
        self.boxes = {r.name: receptacle_box(apartment, self.layout, r.name) for _, r in pairs}
        self.closed = self.solids({})
        self._opened: dict[tuple[tuple[str, float], ...], tuple[Solids, Navigation]] = {}

    def link_of(self, receptacle: str) -> str:
        """``"furniture/link"`` that carries a receptacle."""
        return self._link_of[receptacle]

    def joint_of(self, receptacle: str) -> str | None:
        """Joint that moves a receptacle, ``None`` if it stands still."""
        key = self._link_of[receptacle]
        return key if self._links[key][1].joint is not None else None

    def container_of(self, receptacle: str) -> str | None:
        """Joint that opens the container around a receptacle, ``None`` if it lies open."""
        return self._container.get(receptacle)

    def open_position(self, joint: str) -> float:
        """Position at which a container's contents are checked for reach."""
        model = self._joint(joint)
        return min(OPEN[model.kind], model.upper)

    def moved(self, pose: Pose, receptacle: str, before: float, after: float) -> Pose:
        """Pose of a thing that rides on a receptacle's link when that link's joint moves."""
        joint = self.joint_of(receptacle)
        if joint is None or before == after:
            return pose
        step = self._frame(joint, after) @ np.linalg.inv(self._frame(joint, before))
        out = step @ frame(pose.pos, pose.quat)
        return Pose(out[:3, 3], np.array(matrix_to_quat(out[:3, :3])))

    def solids(self, joints: Mapping[str, float]) -> Solids:
        """All colliding furniture and walls with the given joints open, the others closed."""
        walls = [prism(shape_points(s), "wall") for s in self.apartment.walls if s.collide]
        links = [p for key in self._links for p in self._link_prisms(key, joints.get(key, 0.0))]
        return Solids(walls + links)

    def opened(self, joints: Mapping[str, float]) -> tuple[Solids, Navigation]:
        """Solids and free space with the given joints open; kept for the next call."""
        key = tuple(sorted((k, v) for k, v in joints.items() if v))
        if key not in self._opened:
            outlines = []
            for joint, q in key:
                piece, link = self._links[joint]
                pose = self.layout.poses[piece.name]
                outlines.append(link_footprint(link, pose, q, NAVIGATION_HEIGHT))
            shadows = [o for o in outlines if o is not None]
            navigation = self.scene.navigation
            if shadows:
                navigation = navigation.with_obstacles(shadows)
            self._opened[key] = (self.solids(dict(key)), navigation)
        return self._opened[key]

    def _link_prisms(self, key: str, q: float) -> list[Prism]:
        world = self._frame(key, q)
        return [prism(c @ world[:3, :3].T + world[:3, 3], key) for c in self._clouds[key]]

    def _frame(self, key: str, q: float) -> np.ndarray:
        piece, link = self._links[key]
        return link_frame(link, self.layout.poses[piece.name], q)

    def _joint(self, key: str) -> Joint:
        model = self._links[key][1].joint
        assert model is not None
        return model
