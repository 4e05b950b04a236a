"""Videos: processor time of a second of video: ``python -m benchmarks.videos json=FILE``.

The frames that ``tpsrl record`` writes (1280x720: picture without smoothed edges, panel, map,
encoder), beside plain pictures of 640x480 with smoothed edges through the same encoder, which is
less than the videos of earlier versions took. Both of the same steps, in turn; ours and the
encoder's processor time, the steps of physics left out.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.names import run_main
from eval.again import DEPTH
from eval.spec import evaluation_spec
from eval.video import FPS, EpisodeCamera, VideoWriter
from tpsrl.files import write_json
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import option, parse_or_help

SMALL = (640, 480)


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write")
    scenario: str = option("set_table", "whose first episode is shown")
    frames: int = option(300, "of each video, in real time", min=2)


def measure(scenario: str, frames: int) -> dict[str, float]:
    """Return milliseconds of processor time a frame: ``drawn`` and ``encoded``, of both."""
    episode = load_scenario_episodes(scenario, count=1)[0]
    spec = evaluation_spec(scenario=scenario, agent="scripted", executor="replan", depth=DEPTH)
    camera, agent = EpisodeCamera(episode), spec.agent.build()
    drawn = {"whole": 0.0, "small": 0.0}
    kept: dict[str, list[np.ndarray]] = {"whole": [], "small": []}
    # Each kind of picture needs a context of its own, which a simulator changes slowly.
    with spec.simulator.build() as sim, spec.simulator.build() as other:
        sim.reset([episode], [0])
        other.reset([episode], [0])
        agent.reset(sim, 0, episode, 0)
        for step in range(frames):
            action = agent.act(sim, 0)
            if action is None:
                break
            for world in (sim, other):
                world.step(np.asarray(action, dtype=np.float64)[None])
            start = time.process_time()
            kept["whole"].append(camera.shoot(sim, agent.report(), step))
            middle = time.process_time()
            kept["small"].append(other.render("third_person", width=SMALL[0], height=SMALL[1]))
            if step:  # the first one opens the context
                drawn["whole"] += middle - start
                drawn["small"] += time.process_time() - middle
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, pictures in kept.items():
            found[f"{name}_drawn_ms"] = 1e3 * drawn[name] / (len(pictures) - 1)
            found[f"{name}_encoded_ms"] = 1e3 * _encode(pictures, Path(folder) / f"{name}.mp4")
    return found


def _encode(pictures: list[np.ndarray], path: Path) -> float:
    """Return seconds of processor time a frame, this process's and the encoder's."""
    height, width = pictures[0].shape[:2]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    with VideoWriter(path, width, height) as writer:
        for picture in pictures:
            writer.write(picture)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (spent + time.process_time() - start) / len(pictures)


def main(overrides: list[str]) -> int:
    """Measure, print the table and write the file."""
    config = parse_or_help(Config, overrides, __doc__)
    os.environ.setdefault("LP_NUM_THREADS", "0")
    found = measure(config.scenario, config.frames)
    table = Table("video", "drawn, ms a frame", "encoded, ms a frame", "s of a second of video")
    for name, words in (("whole", "1280x720 with panel"), ("small", "640x480, smoothed, alone")):
        draw, encode = found[f"{name}_drawn_ms"], found[f"{name}_encoded_ms"]
        seconds = FPS * (draw + encode) / 1e3
        found[f"{name}_s"] = seconds
        table.add_row(words, f"{draw:.1f}", f"{encode:.1f}", f"{seconds:.2f}")
    Console().print(table)
    if config.json is not None:
        write_json(config.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
