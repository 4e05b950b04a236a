"""Colour pictures show what they should, and need no more than an off-screen OpenGL library."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.tpsrl.sim import small
from tpsrl.errors import UserError


@pytest.fixture(scope="module")
def sim():
    with small.simulator(depth=64) as engine:
        yield engine


def test_colour_cameras(sim):
    sim.reset([small.episode()], [0])
    for camera in ("third_person", "head", "arm", "overview"):
        picture = sim.render(camera, width=160, height=120)
        assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
        assert picture.std() > 10, f"{camera} shows nothing"
    with pytest.raises(UserError, match="Unknown camera"):
        sim.render("tail")


def test_a_view_of_ones_own_and_a_draft(sim):
    sim.reset([small.episode()], [0])
    size = {"width": 160, "height": 120}
    smooth = sim.render("third_person", **size)
    draft = sim.render("third_person", **size, draft=True).astype(int)
    gap = np.abs(draft - smooth)
    assert 0.0 < gap.mean() < 5.0, "the same picture but for its edges"
    x, y = sim.state().base_pose[0, :2]
    above = (np.array([x + 0.01, y, 6.0]), np.array([x, y, 0.5]))
    down = sim.render("third_person", **size, view=above, draft=True)
    assert np.abs(down.astype(int) - draft).mean() > 10.0
    assert np.array_equal(sim.render("third_person", **size), smooth)


def test_shadows_are_left_out_where_nobody_wants_them(sim):
    sim.reset([small.episode()], [0])
    size = {"width": 160, "height": 120, "draft": True}
    lit = sim.render("third_person", **size).astype(int)
    flat = sim.render("third_person", **size, shadows=False).astype(int)
    assert (flat - lit).min() >= -1, "nothing is darker without shadows"
    assert (flat - lit).max() > 10, "the robot throws one"
    assert np.array_equal(sim.render("third_person", **size), lit)


def test_wireframes_are_drawn(sim):
    sim.reset([small.episode()], [0])
    plain = sim.render("head", width=160, height=120)
    box = ((1.2, 0.0, 0.9), (0.2, 0.2, 0.2), (1.0, 0.0, 0.0, 1.0))
    marked = sim.render("head", width=160, height=120, boxes=[box])
    changed = np.any(plain != marked, axis=2)
    assert changed.sum() > 50
    red = marked[changed].astype(int)
    assert np.mean(red[:, 0] > red[:, 1] + 40) > 0.5


def test_simulators_of_one_process_do_not_draw_into_each_other(sim):
    sim.reset([small.episode()], [0])
    before = sim.render("head", width=160, height=120)
    with small.simulator() as other:
        other.reset([small.episode(start=(0.0, 0.0, 2.0))], [0])
        elsewhere = other.render("head", width=160, height=120)
        assert np.array_equal(sim.render("head", width=160, height=120), before)
        assert np.array_equal(other.render("head", width=160, height=120), elsewhere)
    assert not np.array_equal(before, elsewhere)
    forgotten = small.simulator()
    forgotten.reset([small.episode()], [0])
    forgotten.render("arm", width=160, height=120)
    del forgotten  # never closed
    assert np.array_equal(sim.render("head", width=160, height=120), before)


def test_a_forked_process_draws_what_its_parent_draws(sim):
    sim.reset([small.episode()], [0])
    picture, depth = sim.render("head", width=160, height=120), sim.depth()
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()

    def child() -> None:
        sim.reset([small.episode()], [0])
        answers.put((sim.render("head", width=160, height=120), sim.depth()))
        sim.close()

    process = fork.Process(target=child)
    process.start()
    theirs = answers.get(timeout=60)
    process.join(30)
    assert process.exitcode == 0
    assert np.array_equal(theirs[0], picture) and np.array_equal(theirs[1], depth)
    assert np.array_equal(sim.render("head", width=160, height=120), picture)


_FORK = """
import multiprocessing
from tests.tpsrl.sim import small
sim = small.simulator()
sim.reset([small.episode()], [0])
sim.render("third_person", width=64, height=48)
fork = multiprocessing.get_context("fork")
def child():
    try:
        sim.render("third_person", width=64, height=48)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
process = fork.Process(target=child)
process.start()
process.join(20)
print(process.exitcode)
process.kill()
"""


def test_a_fork_that_lost_the_renderer_s_threads_says_so_instead_of_waiting_for_them():
    done = subprocess.run(
        [sys.executable, "-c", _FORK],
        capture_output=True, text=True, env={**os.environ, "LP_NUM_THREADS": "2"}, timeout=60,
    )  # fmt: skip
    assert "UserError this process was forked" in done.stdout and done.stdout.endswith("\n0\n")


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
