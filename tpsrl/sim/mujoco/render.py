"""Colour pictures of a world, by MuJoCo's own renderer."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import mujoco
import numpy as np

from tpsrl.errors import UserError
from tpsrl.robot.mjcf import GROUP_COLLISION
from tpsrl.sim.mujoco.model import GROUP_COLOUR
from tpsrl.sim.mujoco.objects import GROUP_BOTH
from tpsrl.sim.mujoco.opengl import open_context

CAMERAS = ("third_person", "head", "arm", "overview")
Box = tuple[Sequence[float], Sequence[float], Sequence[float]]

_MAX_GEOMS = 2000
_FOLLOW_DISTANCE = 2.2
_STEEP = -68.0
"""Elevation from which the camera sees over a wall behind the robot, degrees."""
_INHERITED: list[object] = []
"""Contexts of a parent process: a fork cannot free them, and Python must not try."""
_EDGES = [(a, a | bit) for a in range(8) for bit in (1, 2, 4) if not a & bit]


class Renderer:
    """One graphics context for all worlds of a simulator; they share their meshes.

    Args:
        model: any of the worlds' models.
        draft: edges are not smoothed, which takes half the time.

    Raises:
        UserError: no OpenGL library works.
    """

    def __init__(self, model: mujoco.MjModel, draft: bool = False) -> None:
        self._process = os.getpid()
        self._gl: Any = None
        self._context: mujoco.MjrContext | None = None
        self._gl = open_context(1280, 960)
        # A context that outlives the interpreter's OpenGL library makes noise at exit.
        self._at_exit = partial(_close, weakref.ref(self))
        atexit.register(self._at_exit)
        self._scene = mujoco.MjvScene(model, maxgeom=_MAX_GEOMS)
        self._camera = mujoco.MjvCamera()
        self._option = _option(GROUP_BOTH, GROUP_COLOUR)
        quality = model.vis.quality
        samples, quality.offsamples = quality.offsamples, 0 if draft else quality.offsamples
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        quality.offsamples = samples
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    def __del__(self) -> None:
        self.close()

    @property
    def inherited(self) -> bool:
        """Whether this process is a fork of the one that opened the context."""
        return self._process != os.getpid()

    def colour(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        camera: str,
        width: int,
        height: int,
        boxes: Sequence[Box],
        view: tuple[np.ndarray, np.ndarray] | None = None,
        shadows: bool = True,
    ) -> np.ndarray:
        """Return (height, width, 3) uint8 RGB.

        Args:
            model: of the world.
            data: of the world.
            camera: one of ``CAMERAS``.
            width: pixels, at most 1280.
            height: pixels, at most 960.
            boxes: wireframes as (centre (3,), half extents (3,), rgba (4,)).
            view: for ``third_person``: eye and the point it looks at, (3,) each, instead of its
                own.
            shadows: draw them: on a CPU most of a small picture's time.

        Raises:
            UserError: unknown camera or too large a picture.
        """
        if camera not in CAMERAS:
            raise UserError(f"Unknown camera '{camera}'; cameras are {', '.join(CAMERAS)}.")
        if width > 1280 or height > 960:
            raise UserError(f"A picture of {width}x{height} is too large; at most 1280x960.")
        self._gl.make_current()  # simulators of one process share the thread's context
        if camera == "overview":
            self._overview()
        elif camera == "third_person" and view is not None:
            self._from_to(*view)
        elif camera == "third_person":
            self._third_person(model, data)
        else:
            self._fixed_camera(model, camera)
        self._update(model, data, self._option)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(shadows)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 1
        for box in boxes:
            self._wireframe(*box)
        viewport = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_render(viewport, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, viewport, self._context)
        return np.ascontiguousarray(picture[::-1])

    def close(self) -> None:
        """Free the context; of an inherited one nothing can be freed, it is forgotten."""
        context, gl, self._context, self._gl = self._context, self._gl, None, None
        if self.inherited:
            _INHERITED.append((context, gl))
        elif context is not None:
            atexit.unregister(self._at_exit)
            gl.make_current()
            context.free()
            gl.free()

    def _update(self, model: mujoco.MjModel, data: mujoco.MjData, option: mujoco.MjvOption) -> None:
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(model, data, option, None, self._camera, everything, self._scene)

    def _fixed_camera(self, model: mujoco.MjModel, name: str) -> None:
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(name).id

    def _from_to(self, eye: np.ndarray, look: np.ndarray) -> None:
        gap = look - eye
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        self._camera.lookat[:] = look
        self._camera.distance = float(np.linalg.norm(gap))
        self._camera.azimuth = float(np.degrees(np.arctan2(gap[1], gap[0])))
        self._camera.elevation = float(np.degrees(np.arcsin(gap[2] / np.linalg.norm(gap))))

    def _overview(self) -> None:
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
