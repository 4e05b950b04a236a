"""Pictures of a world: head depth for policies, colour for people."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence

import mujoco
import numpy as np

from tpsrl.errors import UserError
from tpsrl.robot import fetch
from tpsrl.robot.mjcf import GROUP_COLLISION
from tpsrl.sim.mujoco.model import GROUP_BOTH, GROUP_COLOUR, GROUP_DEPTH
from tpsrl.sim.mujoco.opengl import open_context

CAMERAS = ("third_person", "head", "arm", "overview")
Box = tuple[Sequence[float], Sequence[float], Sequence[float]]

_MAX_GEOMS = 2000
_GROUP_HIDDEN = 5
_FOLLOW_DISTANCE = 2.2
_STEEP = -68.0
"""Elevation from which the camera sees over a wall behind the robot, degrees."""
_current: weakref.ref[Renderer] | None = None
"""The renderer whose context OpenGL draws into; simulators of one process share the thread's."""
_EDGES = [(a, a | bit) for a in range(8) for bit in (1, 2, 4) if not a & bit]


class Renderer:
    """One graphics context for all worlds of a simulator; they share their meshes.

    Args:
        model: any of the worlds' models.
        depth_size: pixels of the square depth picture.

    Raises:
        UserError: no OpenGL library works.
    """

    def __init__(self, model: mujoco.MjModel, depth_size: int) -> None:
        self._gl = open_context(1280, 960)
        self._take()
        # A context that outlives the interpreter's OpenGL library makes noise at exit.
        atexit.register(_close, weakref.ref(self))
        self._size = depth_size
        self._scene = mujoco.MjvScene(model, maxgeom=_MAX_GEOMS)
        self._camera = mujoco.MjvCamera()
        self._depth_context: mujoco.MjrContext | None = None
        self._colour_context: mujoco.MjrContext | None = None
        self._near = float(model.vis.map.znear * model.stat.extent)
        self._far = float(model.vis.map.zfar * model.stat.extent)
        self._buffer = np.empty((depth_size, depth_size), dtype=np.float32)
        self._depth_option = _option(GROUP_BOTH, GROUP_DEPTH)
        # Convex hulls of the robot's links have a tenth of the triangles and look the same here.
        self._depth_option.flags[mujoco.mjtVisFlag.mjVIS_CONVEXHULL] = 1
        self._colour_option = _option(GROUP_BOTH, GROUP_COLOUR)

    def depth(self, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
        """Return (size, size, 1) float32 head depth in [0, 1], 1 = 10 m."""
        context = self._use_depth(model)
        self._fixed_camera(model, "head")
        groups = model.geom_group.copy()
        model.geom_group[out_of_sight(model, data, "head")] = _GROUP_HIDDEN
        try:
            self._update(model, data, self._depth_option)
        finally:
            model.geom_group[:] = groups
        for flag in range(mujoco.mjtRndFlag.mjNRNDFLAG):
            self._scene.flags[flag] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_CULL_FACE] = 1
        self._scene.nlight = 0
        viewport = mujoco.MjrRect(0, 0, self._size, self._size)
        mujoco.mjr_render(viewport, self._scene, context)
        mujoco.mjr_readPixels(None, self._buffer, viewport, context)
        # Depth buffer with 1 at the near and 0 at the far plane.
        metres = self._near * self._far / (self._buffer * (self._far - self._near) + self._near)
        lower, upper = fetch.DEPTH_RANGE
        depth = (np.clip(metres, lower, upper) - lower) / (upper - lower)
        return np.ascontiguousarray(depth[::-1, :, None], dtype=np.float32)

    def colour(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        camera: str,
        width: int,
        height: int,
        boxes: Sequence[Box],
    ) -> np.ndarray:
        """Return (height, width, 3) uint8 RGB.

        Args:
            model: of the world.
            data: of the world.
            camera: one of ``CAMERAS``.
            width: pixels, at most 1280.
            height: pixels, at most 960.
            boxes: wireframes as (centre (3,), half extents (3,), rgba (4,)).

        Raises:
            UserError: unknown camera or too large a picture.
        """
        if camera not in CAMERAS:
            raise UserError(f"Unknown camera '{camera}'; cameras are {', '.join(CAMERAS)}.")
        if width > 1280 or height > 960:
            raise UserError(f"A picture of {width}x{height} is too large; at most 1280x960.")
        context = self._use_colour(model)
        if camera == "overview":
            self._overview(model)
        elif camera == "third_person":
            self._third_person(model, data)
        else:
            self._fixed_camera(model, camera)
        self._update(model, data, self._colour_option)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 1
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 1
        for box in boxes:
            self._wireframe(*box)
        viewport = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_render(viewport, self._scene, context)
        mujoco.mjr_readPixels(picture, None, viewport, context)
        return np.ascontiguousarray(picture[::-1])

    def close(self) -> None:
        """Free the contexts."""
        global _current
        self._take()
        for context in (self._depth_context, self._colour_context):
            if context is not None:
                context.free()
        self._depth_context = self._colour_context = None
        if self._gl is not None:
            self._gl.free()
            self._gl = None
            _current = None

    def _take(self) -> None:
        """Make this renderer's context the current one, where another's was."""
        global _current
        if self._gl is not None and (_current is None or _current() is not self):
            self._gl.make_current()
            _current = weakref.ref(self)

    def _use_depth(self, model: mujoco.MjModel) -> mujoco.MjrContext:
        self._take()
        if self._depth_context is None:
            self._depth_context = _context(model, self._size, self._size, samples=0)
        elif self._colour_context is not None:
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._depth_context)
        return self._depth_context

    def _use_colour(self, model: mujoco.MjModel) -> mujoco.MjrContext:
        self._take()
        if self._colour_context is None:
            self._colour_context = _context(model, 1280, 960, samples=4)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._colour_context)
        return self._colour_context

    def _update(self, model: mujoco.MjModel, data: mujoco.MjData, option: mujoco.MjvOption) -> None:
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(model, data, option, None, self._camera, everything, self._scene)

    def _fixed_camera(self, model: mujoco.MjModel, name: str) -> None:
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(name).id

    def _overview(self, model: mujoco.MjModel) -> None:
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        self._camera.lookat[:] = (0.0, 0.0, 0.0)
        self._camera.distance, self._camera.azimuth, self._camera.elevation = 12.5, 90.0, -75.0

    def _third_person(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Follow the robot over its shoulder; rise above it where a wall is in the way."""
        camera = model.camera("third_person").id
        eye = data.cam_xpos[camera]
        forward = -data.cam_xmat[camera].reshape(3, 3)[:, 2]
        focus = eye + _FOLLOW_DISTANCE * forward
        groups = np.zeros(6, dtype=np.uint8)
        groups[GROUP_COLLISION] = 1
        hit = np.zeros(1, dtype=np.int32)
        free = mujoco.mj_ray(model, data, focus, -forward, groups, 1, -1, hit)
        reach = _FOLLOW_DISTANCE if free < 0 else min(free - 0.15, _FOLLOW_DISTANCE)
        # Blending with the free distance keeps the picture steady while the robot drives.
        rise = float(np.clip(1.5 * (1.0 - reach / _FOLLOW_DISTANCE), 0.0, 1.0))
        level = float(np.degrees(np.arcsin(np.clip(forward[2], -1, 1))))
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        self._camera.lookat[:] = focus
        self._camera.distance = _FOLLOW_DISTANCE + 0.5 * rise
        self._camera.azimuth = float(np.degrees(np.arctan2(forward[1], forward[0])))
        self._camera.elevation = (1.0 - rise) * level + rise * _STEEP

    def _wireframe(
        self, centre: Sequence[float], half: Sequence[float], rgba: Sequence[float]
    ) -> None:
        signs = np.array([[(i >> k & 1) * 2 - 1 for k in range(3)] for i in range(8)])
        corners = np.asarray(centre) + signs * np.asarray(half)
        for a, b in _EDGES:
            if self._scene.ngeom >= self._scene.maxgeom:
                return
            geom = self._scene.geoms[self._scene.ngeom]
            mujoco.mjv_initGeom(
                geom,
                mujoco.mjtGeom.mjGEOM_CAPSULE,
                np.zeros(3),
                np.zeros(3),
                np.eye(3).ravel(),
                np.asarray(rgba, dtype=np.float32),
            )
            mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_CAPSULE, 0.004, corners[a], corners[b])
            geom.emission = 0.6
            self._scene.ngeom += 1


def out_of_sight(model: mujoco.MjModel, data: mujoco.MjData, camera: str) -> np.ndarray:
    """Tell which geoms a square depth picture cannot show; OpenGL would draw them all.

    Args:
        model: of the world.
        data: of the world.
        camera: a camera of the model with equal fields of view in both directions.

    Returns:
        (ngeom,) bool: the bounding sphere lies outside the view or beyond the depth's range.
    """
    index = model.camera(camera).id
    right, up, back = (
        (data.geom_xpos - data.cam_xpos[index]) @ data.cam_xmat[index].reshape(3, 3)
    ).T
    ahead, radius = -back, model.geom_rbound
    half = np.radians(model.cam_fovy[index]) / 2
    # Distance of the sphere's centre from the sides of the view.
    aside = np.maximum(np.abs(right), np.abs(up)) * np.cos(half) - ahead * np.sin(half)
    hidden = (ahead < -radius) | (ahead - radius > fetch.DEPTH_RANGE[1]) | (aside > radius)
    return np.asarray(hidden & (radius > 0))  # a plane has no bounding sphere


def _close(renderer: weakref.ref[Renderer]) -> None:
    alive = renderer()
    if alive is not None:
        alive.close()


def _option(*groups: int) -> mujoco.MjvOption:
    option = mujoco.MjvOption()
    option.geomgroup[:] = 0
    option.sitegroup[:] = 0
    for group in groups:
        option.geomgroup[group] = 1
    return option


def _context(model: mujoco.MjModel, width: int, height: int, samples: int) -> mujoco.MjrContext:
    quality, size = model.vis.quality, model.vis.global_
    before = (quality.offsamples, size.offwidth, size.offheight, quality.shadowsize)
    quality.offsamples, size.offwidth, size.offheight = samples, width, height
    if samples == 0:
        quality.shadowsize = 0
    context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
    quality.offsamples, size.offwidth, size.offheight, quality.shadowsize = before
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
    context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
    return context
