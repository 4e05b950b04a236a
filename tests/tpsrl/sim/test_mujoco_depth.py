"""Head depth: MuJoCo's own picture, one step stale, and no OpenGL needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest

from tests.tpsrl.sim import small
from tpsrl.episodes.shipped import load_shipped
from tpsrl.robot import fetch
from tpsrl.sim.mujoco.engine import MujocoSimulator
from tpsrl.sim.mujoco.opengl import open_context

IDLE = np.array([[0.0] * 7 + [-1.0, 0.0, 0.0]])


@pytest.fixture(scope="module")
def sim():
    with small.simulator(depth=64) as engine:
        yield engine


class Reference:
    """Head depth in metres by MuJoCo's renderer."""

    def __init__(self, model: mujoco.MjModel, size: int) -> None:
        self._gl = open_context(size, size)
        samples, model.vis.quality.offsamples = model.vis.quality.offsamples, 0
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        model.vis.quality.offsamples = samples
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._model, self._scene = model, mujoco.MjvScene(model, maxgeom=1000)
        self._option, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
        self._option.geomgroup[:] = [0, 0, 1, 0, 1, 0]
        self._option.sitegroup[:] = 0
        self._option.flags[mujoco.mjtVisFlag.mjVIS_CONVEXHULL] = 1
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera("head").id
        self._buffer = np.empty((size, size), dtype=np.float32)

    def picture(self, data: mujoco.MjData) -> np.ndarray:
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera, everything, self._scene
        )
        view = mujoco.MjrRect(0, 0, *self._buffer.shape)
        mujoco.mjr_render(view, self._scene, self._context)
        mujoco.mjr_readPixels(None, self._buffer, view, self._context)
        near, far = (self._model.stat.extent * z for z in self._planes())
        metres = near * far / (self._buffer[::-1] * (far - near) + near)
        return np.minimum(metres, fetch.DEPTH_RANGE[1])

    def close(self) -> None:
        self._context.free()
        self._gl.free()

    def _planes(self) -> tuple[float, float]:
        return self._model.vis.map.znear, self._model.vis.map.zfar


def situations(sim: MujocoSimulator) -> Iterator[None]:
    """Layouts, places, postures, open furniture and held objects, one after the other."""
    episodes = [e for s in ("tidy_house", "set_table") for e in load_shipped(s, "val").episodes]
    rng = np.random.default_rng(0)
    for number, episode in enumerate(episodes[:: len(episodes) // 8]):
        sim.reset([episode], [number])
        yield
        for name in sim.joint_names:
            sim.set_joint(name, rng.uniform(*sim.joint_ranges[sim.joint_names.index(name)]))
        for turn in range(12):
            place = sim.scene().navigation.sample(rng)
            sim.set_base([*place, rng.uniform(-np.pi, np.pi)])
            yield
            sim.set_arm(np.clip(rng.normal(fetch.ARM_INIT, 0.7), -3.0, 3.0))
            yield
            if turn % 3 == 0:
                sim.release()
                sim.snap_object(turn % len(episode.objects))
                yield


@pytest.mark.parametrize("size", [64, 128])
def test_depth_is_that_of_mujoco(size):
    with MujocoSimulator(depth=size) as sim:
        world = sim._worlds[0]
        reference = Reference(world.model, size)
        wrong = []
        for _ in situations(sim):
            # Here, unlike after a step, the picture shows the state as it is.
            assert world is sim._worlds[0]
            difference = np.abs(10 * sim.depth()[0, :, :, 0] - reference.picture(world.data))
            wrong.append(np.mean(difference > 1e-3))
        reference.close()
    assert len(wrong) > 200
    assert np.mean(wrong) < 1e-4
    # An edge that runs through the centres of pixels may fall to either side.
    assert np.quantile(wrong, 0.98) < 1e-3 and np.max(wrong) < 5e-3


def test_depth_agrees_with_ray_casting(sim):
    sim.reset([small.episode()], [0])
    depth = sim.depth()
    assert depth.shape == (1, 64, 64, 1) and depth.dtype == np.float32
    assert depth.min() >= 0.0 and depth.max() <= 1.0
    world = sim._worlds[0]
    camera = world.model.camera("head").id
    rotation = world.data.cam_xmat[camera].reshape(3, 3)
    groups = np.array([0, 0, 1, 0, 1, 0], dtype=np.uint8)
    errors = []
    for i in range(2, 64, 5):
        for j in range(2, 64, 5):
            ray = np.array([(j + 0.5) / 32 - 1, 1 - (i + 0.5) / 32, -1.0])
            length = np.linalg.norm(ray)
            hit = np.zeros(1, dtype=np.int32)
            distance = mujoco.mj_ray(
                world.model, world.data, world.data.cam_xpos[camera], rotation @ ray / length,
                groups, 1, -1, hit,
            )  # fmt: skip
            wanted = min(distance / length, 10.0) if distance > 0 else 10.0
            errors.append(abs(depth[0, i, j, 0] * 10 - wanted))
    assert np.median(errors) < 0.002
    assert np.quantile(errors, 0.9) < 0.03, "silhouettes may differ by a pixel, surfaces may not"


def test_depth_is_one_step_stale(sim):
    sim.reset([small.episode()], [0])
    before = sim.depth()
    arm = IDLE.copy()
    arm[0, 0] = 1.0
    sim.step(arm)
    assert np.array_equal(sim.depth(), before), "physics of this step must not show yet"
    for _ in range(10):
        sim.step(arm)
    assert not np.array_equal(sim.depth(), before)
    sim.reset([small.episode()], [0])
    drive = IDLE.copy()
    drive[0, 8] = 1.0
    sim.step(drive)
    assert not np.array_equal(sim.depth(), before), "the kinematic base move shows at once"


def test_what_the_camera_is_inside_of_is_cut_off(sim):
    sim.reset([small.episode()], [0])
    world, reference = sim._worlds[0], Reference(sim._worlds[0].model, 64)
    eye = world.data.cam_xpos[world.model.camera("head").id].copy()
    for ahead in (0.0, 0.05, 0.1):
        sim.set_object(3, eye + (ahead, 0.0, 0.0), small.UPRIGHT)
        difference = np.abs(10 * sim.depth()[0, :, :, 0] - reference.picture(world.data))
        assert np.mean(difference > 1e-3) < 1e-3, f"a bowl {ahead} m ahead"
    reference.close()


def test_a_world_that_grew_sees_the_same(sim):
    sim.reset([small.episode()], [0])
    with MujocoSimulator(
        2, depth=64, pool={}, apartment=small.apartment(), types=small.types()
    ) as grown:
        grown.reset([small.episode(), small.episode(start=(0.0, 0.5, 1.0))], [0, 1])
        first, second = grown.depth()
        assert np.array_equal(first, sim.depth()[0])
        sim.reset([small.episode(start=(0.0, 0.5, 1.0))], [1])
        assert np.array_equal(second, sim.depth()[0])


def test_depth_needs_no_opengl():
    program = (
        "from tests.tpsrl.sim import small\n"
        "sim = small.simulator(depth=32)\n"
        "sim.reset([small.episode()], [0])\n"
        "print(sim.depth().std() > 0.01)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, env={**os.environ, "MUJOCO_GL": "off"}, timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == ["True"], done.stderr


def test_depth_is_drawn_where_compiled_code_cannot_be_kept(tmp_path):
    program = (
        "import numpy as np, numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from tests.tpsrl.sim import small\n"
        "sim = small.simulator(depth=32)\n"
        "sim.reset([small.episode()], [0])\n"
        "np.save(r'%s', sim.depth())" % (tmp_path / "depth.npy")
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200)
    with small.simulator(depth=32) as kept:
        kept.reset([small.episode()], [0])
        assert np.array_equal(np.load(tmp_path / "depth.npy"), kept.depth())
