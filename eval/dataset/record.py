"""Runs episodes and keeps the frames of each in a folder, until a data set is made of them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval.dataset.frames import NotingAgent
from eval.dataset.statistics import of_pictures
from eval.dataset.words import task_words
from eval.episode import EpisodeJob, run_episode
from eval.recording import Keeper
from eval.runner import ChainStudy, Record, measure
from eval.spec import EvaluationSpec
from eval.video import VideoWriter
from tpsrl.episodes.types import Episode
from tpsrl.launch.config import LaunchConfig
from ver_trainer.files import replacing

CAMERAS = ("third_person", "head", "head_depth")
_SAMPLE = 10
"""Of so many frames one counts for the statistics of pictures."""
_KEYS = ("-preset", "veryfast", "-bf", "0", "-g", "10")
"""A key frame every ten, since training looks at single frames; none that needs a later one, so
that files can be joined without a gap."""
_COLOUR = ("-crf", "23", *_KEYS)
_RANGE = ("-vf", "scale=out_range=full:flags=accurate_rnd", "-color_range", "pc")
_DEPTH = ("-crf", "4", *_RANGE, *_KEYS)
_FRAMES = "frames.npz"


def part_of(folder: Path, index: int) -> Path:
    """Return the folder of an episode."""
    return folder / f"episode_{index:06d}"


class EpisodeFiles:
    """Takes the frames of an episode and writes them; a context manager.

    Args:
        folder: of the episode; what is in it is replaced.
        pixels: of the colour pictures.
        depth: of the depth picture.
    """

    def __init__(self, folder: Path, pixels: int, depth: int) -> None:
        self.folder = folder
        self._rows: list[dict[str, Any]] = []
        self._samples: dict[str, list[np.ndarray]] = {camera: [] for camera in CAMERAS}
        self._sizes = {"third_person": pixels, "head": pixels, "head_depth": depth}

    def __enter__(self) -> EpisodeFiles:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with ExitStack() as stack:
            self._videos = {
                camera: stack.enter_context(
                    VideoWriter(
                        self.folder / f"{camera}.mp4",
                        size,
                        size,
                        _DEPTH if camera == "head_depth" else _COLOUR,
                    )
                )
                for camera, size in self._sizes.items()
            }
            self._stack = stack.pop_all()
        return self

    def add(self, frame: dict[str, Any]) -> None:
        """See :class:`eval.dataset.frames.Sink`."""
        depth = frame["head_depth"]
        pictures = {**frame, "head_depth": np.repeat(depth[..., None], 3, axis=2)}
        for camera, video in self._videos.items():
            video.write(pictures[camera])
            if len(self._rows) % _SAMPLE == 0:
                self._samples[camera].append(pictures[camera])
        self._rows.append({k: v for k, v in frame.items() if k not in CAMERAS})

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # An encoder that was given nothing has no file to finish.
        self._stack.__exit__(kind if self._rows else kind or EOFError, error, trace)
        if kind is None and self._rows:
            arrays: dict[str, Any] = {
                key: np.array([row[key] for row in self._rows]) for key in self._rows[0]
            }
            for camera, samples in self._samples.items():
                for name, values in of_pictures(samples).items():
                    arrays[f"stats/{camera}/{name}"] = values
            with replacing(self.folder / _FRAMES) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_frames(folder: Path) -> dict[str, np.ndarray]:
    """Return what :class:`EpisodeFiles` kept beside the videos."""
    with np.load(folder / _FRAMES) as arrays:
        return dict(arrays)


@dataclass(frozen=True)
class RecordStudy(ChainStudy):
    """An agent over whole episodes whose frames are kept, see :class:`eval.runner.Study`.

    Attributes:
        folder: of the episodes' folders.
        pixels: of the colour pictures.
        depth: of the depth picture.
        failures: keep episodes that failed, too.
    """

    folder: Path
    pixels: int
    depth: int
    failures: bool

    @contextlib.contextmanager
    def player(self) -> Iterator[tuple[Callable[[EpisodeJob], Record], dict[str, Any]]]:
        """See :class:`eval.runner.Study`."""
        with contextlib.closing(self.spec.simulator.build()) as sim:
            agent = NotingAgent(self.spec.agent.build(), self.pixels)

            def play(job: EpisodeJob) -> Record:
                task, record = self.spec.task.build(job.episode), job.empty_record()
                folder = part_of(self.folder, job.index)
                with EpisodeFiles(folder, self.pixels, self.depth) as agent.sink:
                    run_episode(sim, agent, task, record, job.episode, self.spec.max_steps)
                record.extra["task"] = task_words(job.episode)
                if not (record.success or self.failures) or not record.steps:
                    shutil.rmtree(folder)
                return record.to_json()

            yield play, asdict(sim.info)


def record(
    spec: EvaluationSpec,
    episodes: Sequence[Episode],
    folder: Path,
    pixels: int,
    depth: int,
    failures: bool,
    workers: int,
    attempts: int,
    timeout: float,
    launch: LaunchConfig | None = None,
) -> dict[str, Any]:
    """Run the episodes that ``folder`` lacks; see :func:`eval.runner.measure`.

    Every worker writes its episodes' frames there: machines of a cluster must share it.

    Raises:
        UserError: see there.
    """
    study = RecordStudy(spec, Keeper(folder, "none"), folder, pixels, depth, failures)
    jobs = [spec.job(index, episode) for index, episode in enumerate(episodes)]
    return measure(study, jobs, folder, workers, attempts, timeout, "dataset", launch)
