"""The apartment in the page's 3D scene: meshes once, then only the poses that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpsrl.geometry.rotations import planar_frame, wrap
from tpsrl.robot import fetch
from tpsrl.sim.mujoco.stage import Solid

if TYPE_CHECKING:
    from viser import ViserServer

CAMERAS = ("third_person", "head", "free")
WALLS = ("low", "glass", "solid", "none")
_LOW, _GLASS = 0.3, 0.25
"""Part of their height that low walls have, and how much glass ones hide."""
_EYE, _FOCUS = np.array([-1.5, -1.7, 2.1]), np.array([0.5, 0.0, 0.65])
"""Where the following camera is in the frame of the base, and what it looks at, m."""
_VIEW = 1.15
"""Its field of view, rad."""
_SMOOTH = 0.15
"""Part of the robot's turn that the following camera takes over in a picture."""
_MOST_BOXES = 16
_CORNERS = np.array([[(k >> axis & 1) * 2 - 1 for axis in range(3)] for k in range(8)], float)
_EDGES = np.array(
    [(_CORNERS[a], _CORNERS[a | bit]) for a in range(8) for bit in (1, 2, 4) if not a & bit]
)
"""(12, 2, 3) edges of a box whose half size is 1."""


class Scene:
    """What a server shows.

    Args:
        server: of the page.
    """

    def __init__(self, server: ViserServer) -> None:
        self._server, self._scene = server, server.scene
        self._bodies: dict[str, Any] = {}
        self._meshes: dict[tuple[str, str, tuple[float, ...]], Any] = {}
        self._last: dict[str, np.ndarray] = {}
        self._boxes: list[Any] = []
        self._yaw: float | None = None
        self._filmed: dict[int, tuple[float, ...]] = {}
        # No shadows and no reflections: a machine without a GPU has to draw this, too.
        self._scene.configure_environment_map(None)
        self._scene.configure_default_lights(cast_shadow=False)
        self._scene.add_light_ambient("/light", intensity=1.2)
        server.initial_camera.position = (0.0, -6.5, 9.0)
        server.initial_camera.look_at = (0.0, 0.0, 0.0)

    @property
    def watched(self) -> bool:
        """Whether a browser shows the scene."""
        return bool(self._server.get_clients())

    def build(self, solids: Sequence[Solid], walls: str) -> None:
        """Show these solids, what is known already stays; bodies that are gone disappear."""
        wanted = {_key(solid) for solid in solids}
        for key in [key for key in self._meshes if key not in wanted]:
            self._meshes.pop(key).remove()
        for body in [b for b in self._bodies if b not in {key[0] for key in wanted}]:
            self._bodies.pop(body).remove()
            self._last.pop(body, None)
        for solid in solids:
            if _key(solid) not in self._meshes:
                self._meshes[_key(solid)] = self._add(solid)
        self.wall(walls)

    def _add(self, solid: Solid) -> Any:
        root = f"/world/{solid.body.replace('/', '.')}"
        if solid.body not in self._bodies:
            self._bodies[solid.body] = self._scene.add_frame(root, show_axes=False)
        red, green, blue = (round(255 * value) for value in solid.rgba[:3])
        return self._scene.add_mesh_simple(
            f"{root}/{solid.part.replace('/', '.').replace(':', '.')}.{red}-{green}-{blue}",
            solid.vertices,
            solid.faces,
            color=(red, green, blue),
            flat_shading=True,
        )

    def clear(self) -> None:
        """Forget everything that was built."""
        for mesh in (*self._meshes.values(), *self._bodies.values()):
            mesh.remove()
        self._meshes, self._bodies, self._last = {}, {}, {}

    def wall(self, kind: str) -> None:
        """Draw the walls as one of ``WALLS``."""
        for mesh in (mesh for key, mesh in self._meshes.items() if key[1] == "walls"):
            mesh.visible, mesh.opacity = kind != "none", _GLASS if kind == "glass" else None
            mesh.scale = (1.0, 1.0, _LOW) if kind == "low" else 1.0

    def show(self, poses: Mapping[str, np.ndarray]) -> None:
        """Move the bodies whose (7,) pose is another one than before."""
        with self._server.atomic():
            for body, frame in self._bodies.items():
                pose = poses[body]
                last = self._last.get(body)
                if last is None or not np.array_equal(pose, last):
                    frame.position, frame.wxyz = pose[:3], pose[3:]
                    self._last[body] = pose

    def mark(self, boxes: Sequence[tuple[np.ndarray, np.ndarray, Sequence[float]]]) -> None:
        """Draw wireframes: centre (3,), half size (3,), rgba."""
        while len(self._boxes) < min(len(boxes), _MOST_BOXES):
            name = f"/marks/{len(self._boxes)}"
            black = np.zeros(3, dtype=np.uint8)
            self._boxes.append(self._scene.add_line_segments(name, _EDGES, black, thickness=0.008))
        for k, handle in enumerate(self._boxes):
            handle.visible = k < len(boxes)
            if k < len(boxes):
                centre, half, rgba = boxes[k]
                handle.position, handle.scale = centre, tuple(np.asarray(half, float).tolist())
                colour = np.round(255 * np.asarray(rgba[:3])).astype(np.uint8)
                handle.colors = np.broadcast_to(colour, _EDGES.shape)

    def film(self, camera: str, base: np.ndarray) -> None:
        """Let all browsers look through a camera at the robot, whose base is at (3,) x, y, yaw."""
        clients = self._server.get_clients()
        if camera == "free":
            self._filmed.clear()
            return
        eye, look = self._head(base) if camera == "head" else self._behind(base)
        wanted = tuple(np.round([*eye, *look], 3).tolist())
        for number, client in clients.items():
            if self._filmed.get(number) == wanted:
                continue
            self._filmed[number] = wanted
            with client.atomic():
                client.camera.up_direction = (0.0, 0.0, 1.0)
                client.camera.position, client.camera.look_at = eye, look
                client.camera.fov = float(fetch.HEAD_CAMERA_HFOV) if camera == "head" else _VIEW

    def _head(self, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eye, look = fetch.HEAD_CAMERA_POSITION, fetch.HEAD_CAMERA_TARGET
        return _of_base(base, eye), _of_base(base, look)

    def _behind(self, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turn = 0.0 if self._yaw is None else wrap(float(base[2]) - self._yaw)
        self._yaw = float(base[2] if self._yaw is None else self._yaw + _SMOOTH * turn)
        seen = np.array([base[0], base[1], self._yaw])
        return _of_base(seen, _EYE), _of_base(seen, _FOCUS)


def _key(solid: Solid) -> tuple[str, str, tuple[float, ...]]:
    return solid.body, solid.part, solid.rgba


def _of_base(base: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return a (3,) point of the base's frame in the world."""
    return (planar_frame(base) @ np.append(point, 1.0))[:3]
