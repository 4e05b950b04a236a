"""Pictures: depth agrees with ray casting, is one step stale, and colour shows what it should."""

from __future__ import annotations

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from tests.tpsrl.sim import small
from tpsrl.errors import UserError
from tpsrl.sim.mujoco import render

IDLE = np.array([[0.0] * 7 + [-1.0, 0.0, 0.0]])


@pytest.fixture(scope="module")
def sim():
    with small.simulator(depth=64) as engine:
        yield engine


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


def test_colour_cameras(sim):
    sim.reset([small.episode()], [0])
    for camera in ("third_person", "head", "arm", "overview"):
        picture = sim.render(camera, width=160, height=120)
        assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
        assert picture.std() > 10, f"{camera} shows nothing"
    with pytest.raises(UserError, match="Unknown camera"):
        sim.render("tail")


def test_wireframes_are_drawn(sim):
    sim.reset([small.episode()], [0])
    plain = sim.render("head", width=160, height=120)
    box = ((1.2, 0.0, 0.9), (0.2, 0.2, 0.2), (1.0, 0.0, 0.0, 1.0))
    marked = sim.render("head", width=160, height=120, boxes=[box])
    changed = np.any(plain != marked, axis=2)
    assert changed.sum() > 50
    red = marked[changed].astype(int)
    assert np.mean(red[:, 0] > red[:, 1] + 40) > 0.5


def test_depth_does_not_change_after_colour(sim):
    sim.reset([small.episode()], [0])
    before = sim.depth()
    sim.render("third_person")
    sim.reset([small.episode()], [0])
    assert np.array_equal(sim.depth(), before)


def test_leaving_out_what_is_out_of_sight_changes_no_pixel(sim, monkeypatch):
    sim.reset([small.episode()], [0])
    hidden, depth = [], []
    everything = render.out_of_sight

    def count(*about):
        found = everything(*about)
        hidden.append(int(found.sum()))
        return found

    def none(model, data, camera):
        return np.zeros(model.ngeom, dtype=bool)

    for cull in (count, none):
        monkeypatch.setattr(render, "out_of_sight", cull)
        sim.reset([small.episode()], [0])
        action = np.zeros((1, 10))
        action[:, 9] = 1.0  # turning brings other furniture into view
        depth.append([])
        for _ in range(20):
            sim.step(action)
            depth[-1].append(np.array(sim.depth()))
    assert np.array_equal(*depth)
    assert min(hidden) > 0


_PROBE = """
import os, sys
from tpsrl.sim.mujoco import opengl
broken = sys.argv[1].split(",")
real = opengl._backend
def backend(name):
    if name in broken:
        raise ImportError(f"no lib{name}")
    return real(name)
opengl._backend = backend
try:
    opengl.open_context(64, 64)
    print(os.environ["MUJOCO_GL"])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("broken", "words"), [("egl,osmesa", "UserError No OpenGL"), ("egl", "osmesa")]
)
def test_without_egl_it_falls_back_or_says_what_to_install(broken, words):
    environment = {
        k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, broken],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert words in done.stdout, done.stdout + done.stderr
    if "UserError" in words:
        assert "apt-get install" in done.stdout
