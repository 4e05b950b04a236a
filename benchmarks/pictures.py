"""Head depth beside MuJoCo's own: ``python -m benchmarks.pictures json=FILE``.

Processor time of one picture, both drawn in turn of the same states, the robot moving at random
through episodes with 30 objects; and how many pixels differ by more than a millimetre.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.names import run_main
from tpsrl.episodes.shipped import load_shipped
from tpsrl.files import write_json
from tpsrl.robot import fetch
from tpsrl.sim.mujoco.engine import MujocoSimulator
from tpsrl.sim.mujoco.model import GROUP_DEPTH
from tpsrl.sim.mujoco.objects import GROUP_BOTH
from tpsrl.sim.mujoco.opengl import open_context
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write")
    pictures: int = option(640, "of each row", min=1)
    worlds: list[int] = option([1, 8, 32], "in one process", min=1)
    sizes: list[int] = option([64, 128], "pixels of a side", min=1)


class MujocoDepth:
    """Head depth by MuJoCo's renderer: what ours has to equal.

    Args:
        model: of the world or of another with the same shapes.
        size: pixels of a side.
    """

    def __init__(self, model: mujoco.MjModel, size: int) -> None:
        self._gl = open_context(size, size)
        samples, model.vis.quality.offsamples = model.vis.quality.offsamples, 0
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        model.vis.quality.offsamples = samples
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._option, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
        self._option.geomgroup[:] = np.isin(np.arange(6), (GROUP_BOTH, GROUP_DEPTH))
        self._option.sitegroup[:] = 0
        self._option.flags[mujoco.mjtVisFlag.mjVIS_CONVEXHULL] = 1
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera("head").id
        self._buffer = np.empty((size, size), dtype=np.float32)

    def look(self, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
        """Return (size, size) float32 depth in [0, 1], 1 = 10 m."""
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(
            model, data, self._option, None, self._camera, everything, self._scene
        )
        for flag in range(mujoco.mjtRndFlag.mjNRNDFLAG):
            self._scene.flags[flag] = flag == mujoco.mjtRndFlag.mjRND_CULL_FACE
        self._scene.nlight = 0
        view = mujoco.MjrRect(0, 0, *self._buffer.shape)
        mujoco.mjr_render(view, self._scene, self._context)
        mujoco.mjr_readPixels(None, self._buffer, view, self._context)
        near, far = (model.stat.extent * z for z in (model.vis.map.znear, model.vis.map.zfar))
        metres = near * far / (self._buffer[::-1] * (far - near) + near)
        return np.asarray(np.minimum(metres / fetch.DEPTH_RANGE[1], 1.0))

    def close(self) -> None:
        """Free the context."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()


def measure(worlds: int, size: int, pictures: int) -> dict[str, float]:
    """Return microseconds of processor time a picture of both, and the share of wrong pixels."""
    episodes = load_shipped("tidy_house", "val").episodes
    rng = np.random.default_rng(0)
    spent, wrong, rounds = {"ours": 0.0, "mujoco": 0.0}, 0.0, max(1, pictures // worlds)

    def timed(who: str, draw: Callable[[], list[np.ndarray]]) -> np.ndarray:
        start = time.process_time()
        drawn = draw()
        spent[who] += time.process_time() - start
        return np.stack(drawn)

    sim = MujocoSimulator(worlds, depth=size)
    with sim:
        theirs = MujocoDepth(sim._worlds[0].model, size)

        def ours() -> list[np.ndarray]:
            for world in range(worlds):
                sim._look(world)
            return list(sim._depth[..., 0])

        for step in range(-2, rounds):
            if step == 0:
                spent.update(ours=0.0, mujoco=0.0)
            if step % 20 == 0 or step == -2:
                some = rng.integers(len(episodes), size=worlds)
                sim.reset([episodes[i] for i in some], [0] * worlds)
            sim.step(rng.uniform(-1.0, 1.0, (worlds, 10)))
            a = timed("ours", ours)
            b = timed("mujoco", lambda: [theirs.look(w.model, w.data) for w in sim._worlds])
            wrong += float(np.mean(np.abs(a - b) * fetch.DEPTH_RANGE[1] > 1e-3))
        theirs.close()
    each = {f"{who}_us": 1e6 * time_ / rounds / worlds for who, time_ in spent.items()}
    return {**each, "wrong": wrong / (rounds + 2)}


def main(overrides: list[str]) -> int:
    """Measure every row, print the table and write the file."""
    config = parse_or_help(Config, overrides, __doc__)
    table = Table("pixels", "worlds", "ours, us", "MuJoCo's renderer, us", "pixels that differ")
    results = {}
    for size in config.sizes:
        for worlds in config.worlds:
            row = measure(worlds, size, config.pictures)
            results[f"depth{size}_worlds{worlds}"] = row
            ours, theirs = f"{row['ours_us']:.0f}", f"{row['mujoco_us']:.0f}"
            table.add_row(str(size), str(worlds), ours, theirs, f"{row['wrong']:.4%}")
    Console().print(table)
    if config.json is not None:
        write_json(config.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
