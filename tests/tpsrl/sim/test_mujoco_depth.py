"""Head depth: MuJoCo's own picture, one step stale, and no OpenGL needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest
from numba.core import caching

from benchmarks.pictures import MujocoDepth
from tests.tpsrl.sim import small
from tpsrl import compiled
from tpsrl.episodes.shipped import load_shipped
from tpsrl.robot import fetch
from tpsrl.sim.mujoco.engine import MujocoSimulator

IDLE = np.array([[0.0] * 7 + [-1.0, 0.0, 0.0]])


@pytest.fixture(scope="module")
def sim():
    with small.simulator(depth=64) as engine:
        yield engine


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


def apart(sim: MujocoSimulator, reference: MujocoDepth) -> float:
    """Return the share of pixels whose depths differ by more than a millimetre."""
    world = sim._worlds[0]
    difference = sim.depth()[0, :, :, 0] - reference.look(world.model, world.data)
    return float(np.mean(np.abs(difference) * fetch.DEPTH_RANGE[1] > 1e-3))


@pytest.mark.parametrize("size", [64, 128])
def test_depth_is_that_of_mujoco(size):
    with MujocoSimulator(depth=size) as sim:
        world = sim._worlds[0]
        reference = MujocoDepth(world.model, size)
        wrong = []
        for _ in situations(sim):
            # Here, unlike after a step, the picture shows the state as it is.
            assert world is sim._worlds[0]
            wrong.append(apart(sim, reference))
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
    world, reference = sim._worlds[0], MujocoDepth(sim._worlds[0].model, 64)
    eye = world.data.cam_xpos[world.model.camera("head").id].copy()
    for ahead in (0.0, 0.05, 0.1):
        sim.set_object(3, eye + (ahead, 0.0, 0.0), small.UPRIGHT)
        assert apart(sim, reference) < 1e-3, f"a bowl {ahead} m ahead"
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


def test_code_is_compiled_where_it_cannot_be_kept(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled.compiled(lambda x: x + 1)(1) == 2
