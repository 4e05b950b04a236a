"""Where an object can lie: sampled on a receptacle, dropped to its support, clear of the rest.

Placing happens with every container closed, so that what lies in a drawer also fits when the
drawer is shut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpsrl.generation.prisms import Prism, Solids, object_prism, object_vertices, union
from tpsrl.generation.room import Pose, Room
from tpsrl.geometry.rotations import yaw_quat
from tpsrl.scenes.description import ObjectType

PLACEMENT_TRIES = 50
DROP_HEIGHT = 0.08
"""Objects start this far above a receptacle's bottom before they are lowered, m."""
MAX_HEIGHT = 1.3
"""Highest position of an object that the robot is taken to reach, m."""
OBJECT_GAP = 0.01
FURNITURE_GAP = 0.005
FLOAT_GAP = 0.001
_LEVEL = 0.003
_EDGE = 0.005


@dataclass(frozen=True)
class Placement:
    """An object on a receptacle, all containers closed.

    Attributes:
        type: object type.
        receptacle: where it lies.
        pose: its pose.
        prism: its outline there.
    """

    type: str
    receptacle: str
    pose: Pose
    prism: Prism


class Placer:
    """Finds places in one layout.

    Args:
        room: the layout.
        kinds: object types by name.
    """

    def __init__(self, room: Room, kinds: dict[str, ObjectType]) -> None:
        self.room = room
        self._clouds = {name: object_vertices(kind) for name, kind in kinds.items()}

    def outline(self, kind: str, pose: Pose, owner: str = "") -> Prism:
        """Prism of an object at a pose."""
        return object_prism(self._clouds[kind], pose.pos, pose.quat, owner)

    def sample(
        self,
        rng: np.random.Generator,
        kind: str,
        receptacle: str,
        others: Solids,
        ratio: float = 1.0,
    ) -> Placement | None:
        """Draw a place for an object, ``None`` after 50 tries.

        Args:
            rng: source of randomness.
            kind: object type.
            receptacle: where to put it.
            others: what is there already, containers closed.
            ratio: fraction of the receptacle's length and width in which to draw.
        """
        box = self.room.boxes[receptacle]
        for _ in range(PLACEMENT_TRIES):
            xy = rng.uniform(-ratio, ratio, 2) * box.half_size[:2]
            local = np.array([xy[0], xy[1], -box.half_size[2]])
            quat = yaw_quat(rng.uniform(0.0, 2.0 * np.pi))
            point = box.center + box.rotation @ local
            found = self._drop(kind, receptacle, point, quat, others)
            if found is not None:
                return found
        return None

    def _drop(
        self, kind: str, receptacle: str, point: np.ndarray, quat: np.ndarray, others: Solids
    ) -> Placement | None:
        flat = self.outline(kind, Pose(np.array([point[0], point[1], 0.0]), quat))
        height = self._support(receptacle, flat, float(point[2]))
        if height is None:
            return None
        pos = np.array([point[0], point[1], height - flat.bottom + FLOAT_GAP])
        if pos[2] > MAX_HEIGHT:
            return None
        placed = self.outline(kind, Pose(pos, quat), kind)
        reach = (placed.polygon, placed.bottom, placed.top)
        if self.room.closed.near(*reach, gap=FURNITURE_GAP) or others.near(*reach, gap=OBJECT_GAP):
            return None
        return Placement(kind, receptacle, Pose(pos, quat), placed)

    def _support(self, receptacle: str, flat: Prism, bottom: float) -> float | None:
        """Height of the surface of the receptacle's own link that carries the whole outline."""
        below = self.room.closed.near(flat.polygon, bottom - DROP_HEIGHT, bottom + DROP_HEIGHT)
        below = [p for p in below if p.top <= bottom + DROP_HEIGHT]
        if not below:
            return None
        height = max(p.top for p in below)
        level = [
            p for p in below if height - p.top < _LEVEL and p.owner == self.room.link_of(receptacle)
        ]
        if not level or not union(level).buffer(_EDGE).covers(flat.polygon):
            return None
        return height
