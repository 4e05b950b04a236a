"""Engine-neutral description of furniture, apartments and objects.

Frames: z up. A piece of furniture stands on the floor at its own origin, its front facing +x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]
IDENTITY: Quat = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Shape:
    """One solid.

    Attributes:
        kind: primitive, or a triangle mesh (its convex hull collides).
        size: half extents (box), (radius, half height, 0) (cylinder), (radius, 0, 0) (sphere);
            ignored for a mesh.
        pos, quat: in the frame of the link or object.
        rgba: colour.
        collide: takes part in contacts.
        visible: is rendered.
        vertices, faces: (v, 3) float64 and (f, 3) int32 of a mesh.
    """

    kind: Literal["box", "cylinder", "sphere", "mesh"]
    size: Vec3 = (0.0, 0.0, 0.0)
    pos: Vec3 = (0.0, 0.0, 0.0)
    quat: Quat = IDENTITY
    rgba: tuple[float, float, float, float] = (0.7, 0.7, 0.7, 1.0)
    collide: bool = True
    visible: bool = True
    vertices: np.ndarray | None = field(default=None, repr=False, compare=False)
    faces: np.ndarray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Joint:
    """How a link moves against the furniture's root.

    Attributes:
        kind: ``"slide"`` (m) or ``"hinge"`` (rad). Position 0 is closed, opening is positive.
        axis: in the link frame.
        upper: largest position.
        damping, friction: N s/m and N (slide), N m s/rad and N m (hinge).
        lower: smallest position, below 0 only for doors that swing both ways.
    """

    kind: Literal["slide", "hinge"]
    axis: Vec3
    upper: float
    damping: float = 5.0
    friction: float = 0.5
    lower: float = 0.0


@dataclass(frozen=True)
class Link:
    """A rigid part: the root of a piece (``joint is None``) or a drawer or door on it.

    The link's frame at joint position 0 is given in the furniture's frame; a hinge turns about
    the link frame's origin.
    """

    name: str
    shapes: tuple[Shape, ...]
    pos: Vec3 = (0.0, 0.0, 0.0)
    quat: Quat = IDENTITY
    joint: Joint | None = None
    mass: float = 1.0


@dataclass(frozen=True)
class Receptacle:
    """A box in which objects are placed; its bottom face is the support surface.

    Attributes:
        name: unique in the apartment.
        link: name of the link that carries it (the root's name for a fixed surface).
        center, half_size: in that link's frame.
        capacity: most objects the generator puts there, ``None`` for no limit.
    """

    name: str
    link: str
    center: Vec3
    half_size: Vec3
    capacity: int | None = None


@dataclass(frozen=True)
class Marker:
    """A handle that the suction cup can hold on to: a point of a moving link."""

    name: str
    link: str
    offset: Vec3


@dataclass(frozen=True)
class Container:
    """The box in which an object counts as inside (PDDL ``in``).

    Attributes:
        joint_link: the link whose joint opens the container.
        moves: True: the box moves with that link (drawer); False: it is fixed to the root (fridge).
        center, half_size: in the frame of that link (moves) or of the furniture (fixed).
    """

    joint_link: str
    moves: bool
    center: Vec3
    half_size: Vec3


@dataclass(frozen=True)
class Furniture:
    """One piece. ``links[0]`` is the root."""

    name: str
    category: str
    links: tuple[Link, ...]
    receptacles: tuple[Receptacle, ...] = ()
    markers: tuple[Marker, ...] = ()
    containers: tuple[Container, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Where each piece stands: name -> (x, y, yaw).

    The splits ``wide`` and ``widedev`` are no part of the benchmark: :mod:`tpsrl.scenes.wide`.
    """

    name: str
    split: Literal["train", "val", "test", "wide", "widedev"]
    poses: Mapping[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Apartment:
    """Fixed walls and a fixed set of furniture; layouts move the furniture.

    Attributes:
        name: e.g. ``"apartment_v1"``.
        bounds: (2, 2) xy corners of the outer walls' inside.
        walls: fixed solids (floor excluded), in the world.
        furniture: all pieces.
        layouts: name -> layout.
    """

    name: str
    bounds: np.ndarray
    walls: tuple[Shape, ...]
    furniture: tuple[Furniture, ...]
    layouts: Mapping[str, Layout]

    @property
    def benchmark(self) -> dict[str, Layout]:
        """The layouts of the benchmark's own splits, by name."""
        own = ("train", "val", "test")
        return {name: layout for name, layout in self.layouts.items() if layout.split in own}


@dataclass(frozen=True)
class ObjectType:
    """A movable object.

    Attributes:
        name: YCB name, e.g. ``"003_cracker_box"``.
        shapes: in the object's frame: origin at the centre of its bounding box, z up when it
            stands as Habitat's ``up`` sampler places it.
        mass: kg.
        half_size: half extents of the bounding box.
    """

    name: str
    shapes: tuple[Shape, ...]
    mass: float
    half_size: Vec3
