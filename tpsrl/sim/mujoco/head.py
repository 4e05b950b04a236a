"""Head depth of worlds that share their meshes."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from tpsrl.robot import fetch
from tpsrl.scenes.description import Shape
from tpsrl.sim.mujoco import meshes, raster
from tpsrl.sim.mujoco.model import GROUP_BOTH, GROUP_DEPTH, PRIMITIVE

_KINDS: dict[int, Any] = {int(kind): name for name, kind in PRIMITIVE.items()}


class HeadDepth:
    """What the head cameras of a model and its copies see.

    Args:
        model: any of the worlds' models; poses and collision bits may change later, shapes not.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self._camera = model.camera("head").id
        self._parts = _parts(model, float(model.cam_fovy[self._camera]))

    def look(self, data: mujoco.MjData, picture: np.ndarray) -> None:
        """Take a picture.

        Args:
            data: of the world, its geoms and cameras in place.
            picture: (size, size) float32, overwritten by depth in [0, 1], 1 = 10 m.
        """
        camera = self._camera
        raster.draw(
            self._parts, data.geom_xpos, data.geom_xmat,
            data.cam_xpos[camera], data.cam_xmat[camera], picture,
        )  # fmt: skip


def _parts(model: mujoco.MjModel, field_of_view: float) -> raster.DepthParts:
    seen = np.isin(model.geom_group, (GROUP_BOTH, GROUP_DEPTH)) & (model.geom_rgba[:, 3] > 0)
    geoms = np.flatnonzero(seen)
    drawn = [_triangles(model, int(geom)) for geom in geoms]
    corners = np.cumsum([0] + [len(vertices) for vertices, _ in drawn])
    sides = np.cumsum([0] + [len(faces) for _, faces in drawn])
    return raster.DepthParts(
        geoms=geoms,
        radii=model.geom_rbound[geoms],
        corners=np.stack([corners[:-1], corners[1:]], axis=1),
        sides=np.stack([sides[:-1], sides[1:]], axis=1),
        vertices=np.concatenate([vertices for vertices, _ in drawn]).astype(np.float64),
        faces=np.concatenate([faces for _, faces in drawn]).astype(np.int64),
        most=int(np.diff(corners).max()),
        tangent=float(np.tan(np.radians(field_of_view) / 2)),
        near=float(model.vis.map.znear * model.stat.extent),
        far=fetch.DEPTH_RANGE[1],
    )


def _triangles(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a geom's (v, 3) vertices, each position once, and (f, 3) faces."""
    kind = int(model.geom_type[geom])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        vertices, faces = _mesh(model, int(model.geom_dataid[geom]), bool(model.geom_contype[geom]))
    else:
        vertices, faces = meshes.merge([Shape(_KINDS[kind], tuple(model.geom_size[geom]))])
    once, which = np.unique(vertices[faces].reshape(-1, 3), axis=0, return_inverse=True)
    return once, which.reshape(-1, 3)


def _mesh(model: mujoco.MjModel, mesh: int, collides: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a mesh; of one that collides the hull, with a tenth of the triangles of a link."""
    first = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
    if collides:
        # MuJoCo's layout: two counts, three arrays about vertices and edges, then the faces.
        graph = model.mesh_graph[model.mesh_graphadr[mesh] :]
        count, sides = int(graph[0]), int(graph[1])
        start = 2 + 3 * count + 3 * sides
        return vertices, graph[start : start + 3 * sides].reshape(-1, 3)
    first = model.mesh_faceadr[mesh]
    return vertices, model.mesh_face[first : first + model.mesh_facenum[mesh]]
