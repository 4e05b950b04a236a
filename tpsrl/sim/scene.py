"""What of a world does not change during an episode: the scene behind the simulator door.

Frames and units are those of :mod:`tpsrl.sim.door`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tpsrl.geometry.rotations import rotate_inverse, rotation_matrix


class Navigation(ABC):
    """Free space of one world for the robot's disc. Positions are (..., 2) float64, metres.

    Attributes:
        bounds: (2, 2) lower and upper corner of what it is known of; all free space lies inside.
    """

    bounds: np.ndarray

    @abstractmethod
    def is_navigable(self, xy: np.ndarray) -> np.ndarray:
        """Return (...,) bool: the disc centred there touches nothing and lies in the apartment."""

    @abstractmethod
    def clamp_motion(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the farthest navigable (2,) point on the segment from ``start`` to ``end``."""

    @abstractmethod
    def snap(self, xy: np.ndarray) -> np.ndarray:
        """Return the navigable (2,) point on the largest island nearest to ``xy``."""

    @abstractmethod
    def distance_field(self, goals: np.ndarray) -> DistanceField:
        """Geodesic distance to the nearest of ``goals`` (g, 2) from everywhere."""

    @abstractmethod
    def path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """Return the shortest path as (k, 2) waypoints from start to goal, ``None`` if cut off."""

    @abstractmethod
    def sample(
        self,
        rng: np.random.Generator,
        *,
        near: np.ndarray | None = None,
        radius: float | None = None,
        min_distance: float = 0.0,
    ) -> np.ndarray | None:
        """Draw a uniform navigable (2,) point of the largest island.

        Args:
            rng: source of randomness.
            near: optional (2,) centre that the point must be near to.
            radius: largest distance from ``near``, m.
            min_distance: smallest distance from ``near``, m.

        Returns:
            The point, or ``None`` when no free point fulfils the limits.
        """

    @abstractmethod
    def scan(self, xy: np.ndarray, angles: np.ndarray, reach: float) -> np.ndarray:
        """Return the (k,) distance from (2,) ``xy`` to the nearest outline in (k,) directions, m.

        What a planar range finder would measure if furniture reached the floor as it stands in
        ``SceneInfo.navigation``; ``reach`` where nothing is nearer.
        """

    @abstractmethod
    def with_obstacles(self, polygons: Sequence[np.ndarray]) -> Navigation:
        """Return the same free space less convex ``polygons`` ((v, 2) each), e.g. open doors."""


class DistanceField(ABC):
    """Geodesic distances to a set of goals."""

    @abstractmethod
    def distance(self, xy: np.ndarray) -> np.ndarray:
        """Return (...,) float64 geodesic distance, m; ``inf`` where no goal can be reached."""

    @abstractmethod
    def from_within(self, xy: np.ndarray) -> float:
        """Return the distance of a (2,) point where the robot stands, so that it is free."""

    @abstractmethod
    def descend(self, xy: np.ndarray, step: float) -> np.ndarray:
        """Return the (2,) point about ``step`` metres farther along the shortest path."""


@dataclass(frozen=True)
class ReceptacleInfo:
    """A place where objects can lie, in the frame of the link that carries it.

    Attributes:
        name: unique in the apartment, e.g. ``"counter_left"``.
        furniture: e.g. ``"kitchen_counter"``.
        joint: index of the joint that moves it, -1 if fixed to the furniture.
        pos: (3,) world position of the link frame when the joint is 0.
        quat: (4,) world orientation of that frame.
        center: (3,) centre of the box in the link frame; its bottom is the support surface.
        half_size: (3,) half extents.
    """

    name: str
    furniture: str
    joint: int
    pos: np.ndarray
    quat: np.ndarray
    center: np.ndarray
    half_size: np.ndarray

    @cached_property
    def rotation(self) -> np.ndarray:
        """(3, 3) rotation of the link frame when the joint is 0."""
        return rotation_matrix(np.asarray(self.quat))


@dataclass(frozen=True)
class SceneInfo:
    """What does not change during an episode: layout, receptacles, containers, free space.

    Attributes:
        layout: e.g. ``"sc3_staging_07"``.
        furniture_pose: name -> (3,) x, y, yaw of each piece.
        receptacles: name -> where objects can lie.
        containers: joint name -> (2, 3) corners, in that link's frame, of the box in which an
            object counts as *in* the container (drawer: the drawer's box; fridge: the whole
            cabinet's box expressed in the door link's frame at q = 0, see ``container_static``).
        container_static: joint names whose container box does not move with the joint.
        link_rest: joint name -> ((3,) pos, (4,) quat) of the link frame at joint position 0.
        navigation: free space for the robot's disc, furniture closed, movable objects ignored.
    """

    layout: str
    furniture_pose: Mapping[str, np.ndarray]
    receptacles: Mapping[str, ReceptacleInfo]
    containers: Mapping[str, np.ndarray]
    container_static: frozenset[str]
    link_rest: Mapping[str, tuple[np.ndarray, np.ndarray]]
    navigation: Navigation

    def in_container(
        self, joint: str, point: np.ndarray, pos: np.ndarray, quat: np.ndarray
    ) -> bool:
        """Return whether a point counts as in a container.

        Args:
            joint: its name; nothing is in a joint that has no container.
            point: (3,) in the world, m.
            pos: (3,) where the joint's link is now, m.
            quat: (4,) how it is turned.
        """
        box = self.containers.get(joint)
        if box is None:
            return False
        if joint in self.container_static:
            pos, quat = self.link_rest[joint]
        local = rotate_inverse(quat, point - pos)
        return bool(np.all((local >= box[0]) & (local <= box[1])))
