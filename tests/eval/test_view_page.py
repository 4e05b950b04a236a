"""The page of ``tpsrl view`` in a real browser, drawn without a GPU."""

from __future__ import annotations

import io
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest
from PIL import Image

from eval.runner import evaluate
from eval.view.desk import Desk, ViewConfig
from tests.eval.real import spec
from tpsrl.episodes.shipped import load_shipped

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
INLINE = ("data:", "blob:")
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]

pytest.importorskip("viser", reason="the extra 'view' is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here; install it: apt-get install chromium"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two failed episodes of an agent that drives about."""
    out = tmp_path_factory.mktemp("view") / "run"
    episodes = load_shipped("tidy_house", "val").episodes[:2]
    evaluate(spec(steps=60), episodes, out, record="failures")
    assert len(list((out / "states").iterdir())) == 2
    return out


@pytest.fixture
def server(results: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["view", f"results={results}", f"port={port}", "paused=true", "camera=free"]
    command = [sys.executable, "-m", "tpsrl", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found, line
    yield found.group(), process
    if process.poll() is None:
        process.kill()
    process.wait()


def step_of(page: Any) -> int:
    return int(page.locator("[data-step]").inner_text().split()[1])


def until(page: Any, holds: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "timed out"
        page.wait_for_timeout(200)


def picture(page: Any) -> np.ndarray:
    """The apartment, without what lies over it; coarse, for a slow page draws blurred edges."""
    shot = page.screenshot(clip={"x": 0, "y": 170, "width": 560, "height": 350}, timeout=60000)
    grey = Image.open(io.BytesIO(shot)).convert("L")
    return np.asarray(grey.resize((93, 58), Image.Resampling.BOX), dtype=float)


def change(page: Any, before: np.ndarray) -> float:
    """Part of the picture that is another than before."""
    return float(np.mean(np.abs(picture(page) - before) > 24))


def drawn(page: Any) -> np.ndarray:
    """The picture once it has been the same for a while."""
    last = picture(page)
    for _ in range(40):
        page.wait_for_timeout(1000)
        if picture(page).std() > 10 and change(page, last) == 0.0:
            return last
        last = picture(page)
    raise AssertionError("the page does not come to rest")


def test_the_page_shows_a_failure_moves_seeks_and_opens_another(server: Any) -> None:
    url, process = server
    asked: set[str] = set()
    faults: list[str] = []
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 960, "height": 540})
        page.on("request", lambda request: asked.add(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        page.wait_for_selector("[data-step]", timeout=90000)
        assert "wanderer" in page.inner_text("body") and "navigate, lost" in page.inner_text("body")
        before = drawn(page)

        page.get_by_role("button", name="Play").click()
        until(page, lambda: step_of(page) == 60)
        until(page, lambda: change(page, before) > 0.002)

        seek = page.get_by_label("Seek").or_(page.locator("input[type=text]")).first
        seek.fill("0")
        seek.press("Enter")
        until(page, lambda: step_of(page) == 0)
        until(page, lambda: change(page, before) < 0.0005)

        page.get_by_role("tab", name="Failed").click()
        page.get_by_role("button", name="1: failed: navigate, lost").click()
        page.get_by_role("tab", name="Watch").click()
        until(page, lambda: "episode 1, recorded" in page.inner_text("body"))
        until(page, lambda: step_of(page) > 0)
        browser.close()
    hosts = {urlparse(address).hostname for address in asked if not address.startswith(INLINE)}
    assert hosts == {"127.0.0.1"}, "nothing is downloaded from elsewhere"
    assert not faults
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


def test_an_object_is_dragged_with_the_mouse() -> None:
    desk = Desk(ViewConfig(agent="scripted", port=18280, paused=True, camera="free"))
    player = desk.player

    def where() -> np.ndarray:
        return player.source.recording.poses(player.steps).objects[0, :3]

    try:
        desk.start_showing()
        with sync_api.sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 960, "height": 540})
            page.goto(desk.url)
            page.wait_for_selector("[data-step]", timeout=90000)
            page.get_by_role("tab", name="Change").click()
            page.get_by_label("Grab it").first.check(force=True)
            start = where()
            camera = next(iter(desk.clients.values())).camera
            camera.position, camera.look_at = start + [0.0, -1.2, 0.9], start
            until(page, lambda: np.allclose(camera.look_at, start, atol=1e-3))
            page.wait_for_timeout(3000)
            pixels = 270 / np.tan(camera.fov / 2) / 1.5  # a metre along x, 1.5 m before the eye
            page.mouse.move(480 + 0.3 * pixels, 270)
            page.mouse.down()
            page.mouse.move(480 + 0.5 * pixels, 270, steps=8)
            page.mouse.up()
            until(page, lambda: player.steps == 1)
            moved = where() - start
            browser.close()
    finally:
        desk.close()
    assert 0.1 < moved[0] < 0.3 and np.abs(moved[1:]).max() < 0.06
