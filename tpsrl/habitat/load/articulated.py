"""Articulated furniture: a URDF and its ``ao_config`` as links on one root.

Links behind fixed joints are merged into the link that carries them. Joints must hang on the
root, as all of ReplicaCAD's do.
"""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.errors import UserError
from tpsrl.geometry.frames import points_from_habitat
from tpsrl.geometry.rotations import matrix_to_quat
from tpsrl.habitat import format as fmt
from tpsrl.habitat.load.files import Config, beside, read_config, vector
from tpsrl.habitat.load.meshes import convex_solids, mesh_parts, transformed, vec3
from tpsrl.habitat.load.objects import receptacles
from tpsrl.habitat.sound import check_links
from tpsrl.habitat.urdf_links import link_order
from tpsrl.scenes.description import Container, Joint, Link, Marker, Receptacle, Shape, Vec3
from ver_trainer.reading import MIB, read_bytes

_DEFAULTS = {"slide": (5.0, 1.0), "hinge": (1.0, 0.3)}
"""Damping and friction where a file has next to none:
with ReplicaCAD's 0.01 nothing would come to rest."""
_KINDS = {"prismatic": "slide", "revolute": "hinge", "continuous": "hinge"}


@dataclass(frozen=True)
class ArticulatedAsset:
    """Articulated furniture in the z-up frame of its root.

    Attributes:
        name: of the template.
        links: ``links[0]`` is the root with an identity frame.
        hosts: URDF link -> (link that it belongs to, (4, 4) Habitat's frame of it in that link's).
            Habitat takes the frame of mass, which is the link's own in ReplicaCAD.
        order: URDF links in the order of Habitat's link ids.
        receptacles, markers, containers: as in :class:`tpsrl.scenes.description.Furniture`.
        category: ``""`` if the file does not say.
    """

    name: str
    links: tuple[Link, ...]
    hosts: dict[str, tuple[str, np.ndarray]]
    order: tuple[str, ...]
    receptacles: tuple[Receptacle, ...]
    markers: tuple[Marker, ...]
    containers: tuple[Container, ...]
    category: str


def load_articulated(path: Path, scale: float = 1.0) -> ArticulatedAsset:
    """Read an ``.ao_config.json`` and its URDF, or a URDF alone.

    Args:
        path: of either.
        scale: uniform, of the instance.

    Raises:
        UserError: a file is missing or malformed, or uses what tpsrl cannot read.
    """
    config = _config(path)
    urdf = config.asset("urdf_filepath", path if path.suffix == ".urdf" else None)
    robot = _parse(urdf)
    user = config.inside("user_defined")
    piece = user.inside(fmt.PIECE)
    scale *= config.positive("uniform_scale", 1.0)
    tree = _Tree(urdf, robot, scale, dict(user.each(fmt.DYNAMICS)))
    tree.rename_root(piece.text("root", tree.root))
    links = tuple(tree.links())
    check_links(urdf, links)
    return ArticulatedAsset(
        name=path.name.removesuffix(".urdf").removesuffix(fmt.SUFFIX["articulated"]),
        links=links,
        hosts={name: tree.node(name) for name in tree.hosts},
        order=tuple(tree.order),
        receptacles=tuple(_carried(user, tree, scale)),
        markers=tuple(
            Marker(name, _moving(item, item.text("link"), links), _lengths(item, "offset", scale))
            for name, item in user.each(fmt.MARKERS)
        ),
        containers=tuple(
            Container(_moving(item, link, links), item.flag("moves", True),
                      _lengths(item, "position", scale), _lengths(item, "scale", scale))
            for link, item in user.each(fmt.CONTAINERS)
        ),
        category=piece.text("category", ""),
    )  # fmt: skip


def _config(path: Path) -> Config:
    if path.suffix != ".urdf":
        return read_config(path)
    beside = path.with_name(path.stem + fmt.SUFFIX["articulated"])
    return read_config(beside) if beside.exists() else Config(path, {})


def _parse(path: Path) -> Any:
    """Return the URDF's model; meshes are read later, with their own messages."""
    import yourdfpy
    from lxml import etree

    # The parser warns of every link without inertia; Habitat's files are full of them.
    logging.getLogger("yourdfpy").setLevel(logging.ERROR)
    data = read_bytes(path, 64 * MIB, "download the dataset again")
    try:
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise ValueError("it declares entities")
        # yourdfpy itself would read on behind what is malformed, and leave it out.
        etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
        model = yourdfpy.URDF.load(
            io.BytesIO(data), load_meshes=False, build_scene_graph=False,
            load_collision_meshes=False,
        )  # fmt: skip
    except Exception as error:  # parser and XML reader raise what they please
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: is no URDF that can be read ({reason})") from None
    return model.robot


class _Tree:
    """Links of a URDF, those behind fixed joints merged.

    Args:
        path: of the URDF.
        robot: yourdfpy's model.
        scale: of all lengths.
        dynamics: link -> damping and friction of its joint, where the file says more than a URDF.
    """

    def __init__(self, path: Path, robot: Any, scale: float, dynamics: dict[str, Config]) -> None:
        self.path, self.scale, self.dynamics = path, scale, dynamics
        self.elements = {link.name: link for link in robot.links}
        self.joints = {joint.child: joint for joint in robot.joints}
        for joint in robot.joints:
            for end in (joint.parent, joint.child):
                if end not in self.elements:
                    self._fail(f"joint '{joint.name}' names the link '{end}', which is missing")
        try:
            self.order = link_order((j.name, j.parent, j.child) for j in robot.joints)
        except ValueError as error:
            self._fail(str(error))
        roots = [name for name in self.elements if name not in self.joints]
        if len(roots) != 1 or len(self.order) != len(robot.joints):
            self._fail(f"its joints do not make a tree from one root ({len(roots)} links have no"
                       " joint above them)")  # fmt: skip
        self.root = roots[0]
        up = np.eye(4)
        up[:3, :3] = points_from_habitat(np.eye(3)).T
        self.hosts: dict[str, tuple[str, np.ndarray]] = {self.root: (self.root, up)}
        self.frames: dict[str, np.ndarray] = {}
        for name in self.order:
            self._place(name)

    def rename_root(self, name: str) -> None:
        """Give the root link another name."""
        self.hosts = {
            link: (name if host == self.root else host, pose)
            for link, (host, pose) in self.hosts.items()
        }
        self.root = name

    def links(self) -> list[Link]:
        """Return the root and the links that move."""
        out = [Link(self.root, self._shapes(self.root), mass=self._mass(self.root))]
        for name, frame in self.frames.items():
            shapes = self._shapes(name)
            if not any(s.collide for s in shapes):
                self._fail(f"link '{name}' moves and has no geometry")
            quat = matrix_to_quat(frame[:3, :3])
            joint = self._joint(self.joints[name])
            out.append(Link(name, shapes, vec3(frame[:3, 3]), quat, joint, self._mass(name)))
        return out

    def node(self, name: str) -> tuple[str, np.ndarray]:
        """Return the host of a link and (4, 4) Habitat's frame of the link in the host's."""
        host, pose = self.hosts[name]
        body = None if name == self.root else self.elements[name].inertial
        if body is None or body.origin is None:
            return host, pose
        origin = np.array(body.origin, dtype=float)
        origin[:3, 3] *= self.scale
        return host, pose @ origin

    def _place(self, name: str) -> None:
        joint = self.joints[name]
        host, pose = self.hosts[joint.parent]
        origin = np.eye(4) if joint.origin is None else np.array(joint.origin, dtype=float)
        origin[:3, 3] *= self.scale
        pose = pose @ origin
        if joint.type == "fixed":
            self.hosts[name] = (host, pose)
        elif joint.type not in _KINDS:
            self._fail(f"joint '{joint.name}' is {joint.type}; fixed and one-axis joints are read")
        elif host != self.root:
            self._fail(f"joint '{joint.name}' hangs on '{host}', which moves itself")
        else:
            self.frames[name] = pose
            self.hosts[name] = (name, np.eye(4))

    def _joint(self, joint: Any) -> Joint:
        kind = _KINDS[joint.type]
        factor = self.scale if kind == "slide" else 1.0
        lower, upper = -np.pi, np.pi
        if joint.type != "continuous":
            if joint.limit is None or joint.limit.lower is None or joint.limit.upper is None:
                self._fail(f"joint '{joint.name}' has no limits")
            lower, upper = joint.limit.lower * factor, joint.limit.upper * factor
        if not lower < upper:
            self._fail(f"joint '{joint.name}' has the empty range {lower:g} to {upper:g}")
        damping, friction = _DEFAULTS[kind]
        damping = _dynamics(joint, "damping", damping)
        friction = _dynamics(joint, "friction", friction)
        if joint.child in self.dynamics:
            told = self.dynamics[joint.child]
            damping, friction = told.number("damping", damping), told.number("friction", friction)
        axis = np.array([1.0, 0.0, 0.0] if joint.axis is None else joint.axis, dtype=float)
        axis /= np.linalg.norm(axis)
        return Joint(kind, vec3(axis), float(upper), damping, friction, float(lower))  # type: ignore[arg-type]

    def _members(self, host: str) -> list[tuple[Any, np.ndarray]]:
        return [(self.elements[n], pose) for n, (h, pose) in self.hosts.items() if h == host]

    def _mass(self, host: str) -> float:
        bodies = [m.inertial for m, _ in self._members(host) if m.inertial is not None]
        return float(sum(b.mass or 0.0 for b in bodies)) or 1.0

    def _shapes(self, host: str) -> tuple[Shape, ...]:
        visible: list[Shape] = []
        solids: list[Shape] = []
        for element, pose in self._members(host):
            for visual in element.visuals:
                visible += self._seen(visual, pose)
            for collision in element.collisions:
                solids += self._solid(collision, pose)
        if not solids and visible:
            solids = list(convex_solids([v for v in visible if v.kind == "mesh"], join=True))
        return (*visible, *solids)

    def _seen(self, visual: Any, pose: np.ndarray) -> list[Shape]:
        at = self._at(visual, pose)
        colour = getattr(getattr(visual, "material", None), "color", None)
        if visual.geometry.mesh is None:
            shape = replace(self._primitive(visual.geometry, at), collide=False, visible=True)
            rgba = (0.7, 0.7, 0.7, 1.0) if colour is None else tuple(map(float, colour.rgba))
            return [replace(shape, rgba=rgba)]  # type: ignore[arg-type]
        return [transformed(p, at @ self._size(visual)) for p in self._mesh(visual)]

    def _solid(self, collision: Any, pose: np.ndarray) -> list[Shape]:
        at = self._at(collision, pose)
        if collision.geometry.mesh is None:
            return [self._primitive(collision.geometry, at)]
        parts = [transformed(p, at @ self._size(collision)) for p in self._mesh(collision)]
        return list(convex_solids(parts, join=False))

    def _at(self, element: Any, pose: np.ndarray) -> np.ndarray:
        origin = np.eye(4) if element.origin is None else np.array(element.origin, dtype=float)
        origin[:3, 3] *= self.scale
        return pose @ origin

    def _size(self, element: Any) -> np.ndarray:
        size = element.geometry.mesh.scale
        factors = np.ones(3) if size is None else np.broadcast_to(np.asarray(size, float), 3)
        return np.diag([*(factors * self.scale), 1.0])

    def _mesh(self, element: Any) -> tuple[Shape, ...]:
        name = str(element.geometry.mesh.filename)
        file = beside(self.path, name)
        return mesh_parts(file) if file else self._fail(f"names the mesh {name}, which is missing")

    def _primitive(self, geometry: Any, at: np.ndarray) -> Shape:
        pos, quat = vec3(at[:3, 3]), matrix_to_quat(at[:3, :3])
        if geometry.box is not None:
            size = vec3(np.asarray(geometry.box.size) / 2 * self.scale)
            return Shape("box", size, pos, quat, visible=False)
        if geometry.cylinder is not None:
            radius, length = geometry.cylinder.radius, geometry.cylinder.length
            size = (float(radius * self.scale), float(length / 2 * self.scale), 0.0)
            return Shape("cylinder", size, pos, quat, visible=False)
        if geometry.sphere is not None:
            size = (float(geometry.sphere.radius * self.scale), 0.0, 0.0)
            return Shape("sphere", size, pos, quat, visible=False)
        return self._fail("holds a geometry that is no box, cylinder, sphere or mesh")

    def _fail(self, problem: str) -> Any:
        raise UserError(f"{self.path}: {problem}")


def _dynamics(joint: Any, name: str, default: float) -> float:
    """Return damping or friction of a joint; next to none counts as not given."""
    value = float(getattr(joint.dynamics, name, None) or 0.0)
    return value if value >= 0.05 else default


def _carried(user: Config, tree: _Tree, scale: float) -> list[Receptacle]:
    out = []
    for item in receptacles(user, y_up=False):
        if item.link not in tree.hosts:
            problem = f"stands on the link '{item.link}', which the URDF does not have"
            user.fail(f"{fmt.RECEPTACLE}{item.name}", problem)
        host, pose = tree.node(item.link)
        center = pose[:3, :3] @ (np.asarray(item.center) * scale) + pose[:3, 3]
        half = np.abs(pose[:3, :3]) @ (np.asarray(item.half_size) * scale)
        out.append(replace(item, link=host, center=vec3(center), half_size=vec3(half)))
    return out


def _moving(item: Config, link: str, links: tuple[Link, ...]) -> str:
    """Return the name of a link that moves."""
    if link not in {other.name for other in links[1:]}:
        item.fail("link", f"names '{link}', which is no moving link of the URDF")
    return link


def _lengths(item: Config, key: str, scale: float) -> Vec3:
    return vec3(vector(item, item.raw.get(key), 3, key) * scale)
