"""Head depth of worlds that share their meshes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from tpsrl.robot import fetch
from tpsrl.scenes.description import Shape
from tpsrl.sim.mujoco import meshes, raster
from tpsrl.sim.mujoco.forms import Forms
from tpsrl.sim.mujoco.model import GROUP_DEPTH
from tpsrl.sim.mujoco.objects import GROUP_BOTH, PRIMITIVE

_KINDS: dict[int, Any] = {int(kind): name for name, kind in PRIMITIVE.items()}


class HeadDepth:
    """What the head cameras of a model and its copies see.

    Args:
        model: any of the worlds' models; of what later changes only objects change shape.
        forms: of the objects' types.
    """

    def __init__(self, model: mujoco.MjModel, forms: Forms) -> None:
        self._camera = model.camera("head").id
        geoms = _seen(model)
        free = model.body_dofnum[model.geom_bodyid[geoms]] == 6
        still = geoms[~free]
        known = [(forms.model, int(geom)) for geom in _seen(forms.model)]
        drawn = [(model, int(geom)) for geom in still] + known
        self._parts = _parts(model, geoms, drawn)
        self._fixed = np.full(len(geoms), -1)
        self._fixed[~free] = np.arange(len(still))
        owned = model.geom_bodyid[geoms[free]].tolist()
        self._part_of = dict(zip(owned, np.flatnonzero(free), strict=True))
        owners = [int(forms.model.geom_bodyid[geom]) for _, geom in known]
        self._shape_of = {
            name: len(still) + owners.index(body) for name, body in forms.bodies.items()
        }

    def shapes(self, bodies: np.ndarray, types: list[str]) -> np.ndarray:
        """Return which shapes a world shows, for :meth:`look`.

        Args:
            bodies: (k,) its objects; no others are seen.
            types: (k,) names of their types.
        """
        shapes = self._fixed.copy()
        for body, name in zip(bodies.tolist(), types, strict=True):
            shapes[self._part_of[body]] = self._shape_of[name]
        return shapes

    def look(self, data: mujoco.MjData, shapes: np.ndarray, picture: np.ndarray) -> None:
        """Take a picture.

        Args:
            data: of the world, its geoms and cameras in place.
            shapes: of the world, from :meth:`shapes`.
            picture: (size, size) float32, overwritten by depth in [0, 1], 1 = 10 m.
        """
        camera = self._camera
        raster.draw(
            self._parts, shapes, data.geom_xpos, data.geom_xmat,
            data.cam_xpos[camera], data.cam_xmat[camera], picture,
        )  # fmt: skip


def _seen(model: mujoco.MjModel) -> np.ndarray:
    seen = np.isin(model.geom_group, (GROUP_BOTH, GROUP_DEPTH)) & (model.geom_rgba[:, 3] > 0)
    return np.flatnonzero(seen)


def _parts(
    model: mujoco.MjModel, geoms: np.ndarray, shapes: Sequence[tuple[mujoco.MjModel, int]]
) -> raster.DepthParts:
    """Return the parts of a picture.

    Args:
        model: whose head camera takes it.
        geoms: (p,) of it: where parts are.
        shapes: models and geoms of them: what parts may look like.
    """
    drawn = [_triangles(owner, geom) for owner, geom in shapes]
    field_of_view = float(model.cam_fovy[model.camera("head").id])
    corners = np.cumsum([0] + [len(vertices) for vertices, _ in drawn])
    sides = np.cumsum([0] + [len(faces) for _, faces in drawn])
    return raster.DepthParts(
        geoms=geoms,
        radii=np.array([owner.geom_rbound[geom] for owner, geom in shapes]),
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
