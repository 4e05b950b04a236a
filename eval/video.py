"""Records episodes as H.264 videos that ordinary players read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from eval.episode import EpisodeRecord, run_episode
from eval.overlay import Caption, compose, target_boxes
from eval.spec import EvaluationSpec
from planner.chain.interface import Agent, AgentReport
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.jobs.progress import Tally
from tpsrl.jobs.threads import one_thread
from tpsrl.sim.door import Simulator

FPS = 30
WIDTH, HEIGHT = 640, 480
_END_SECONDS = 2.0
_SHOWN_STEPS = 10


class VideoWriter:
    """Writes frames to an mp4 file (H.264, yuv420p, 30 frames/s) under a temporary name.

    The file appears under its own name only when it is complete.

    Args:
        path: file to write, ``.mp4``.
        width: pixels, even.
        height: pixels, even.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(self, path: Path, width: int = WIDTH, height: int = HEIGHT) -> None:
        import imageio_ffmpeg

        if path.suffix != ".mp4":
            raise UserError(f"out={path} must end in .mp4")
        self.path = path
        self.frames = 0
        self._temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.mp4")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary.touch()
        except OSError as error:
            raise UserError(f"cannot write the video {path}: {error.strerror}") from error
        self._stream: Generator[None, Any, None] | None = imageio_ffmpeg.write_frames(
            str(self._temporary),
            (width, height),
            fps=FPS,
            codec="libx264",
            pix_fmt_in="rgb24",
            pix_fmt_out="yuv420p",
            quality=None,
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-crf", "24", "-preset", "veryfast", "-movflags", "+faststart"],
        )
        self._stream.send(None)

    def write(self, frame: np.ndarray) -> None:
        """Add an (H, W, 3) uint8 frame.

        Raises:
            UserError: the encoder stopped, for example because the disk is full.
        """
        assert self._stream is not None
        try:
            self._stream.send(np.ascontiguousarray(frame))
        except (OSError, StopIteration) as error:
            raise UserError(
                f"cannot write the video {self.path}: the encoder stopped; is the disk full?"
            ) from error
        self.frames += 1

    def finish(self) -> Path:
        """Close the file and give it its name."""
        self._close()
        if not self._temporary.exists() or self._temporary.stat().st_size == 0:
            self.abort()
            raise UserError(f"cannot write the video {self.path}: the encoder wrote nothing")
        os.replace(self._temporary, self.path)
        return self.path

    def abort(self) -> None:
        """Remove what was written."""
        with contextlib.suppress(OSError, UserError):
            self._close()
        self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif self._stream is not None:
            self.finish()


class EpisodeCamera:
    """Renders frames of a running episode; an observer of :func:`eval.episode.run_episode`.

    Args:
        writer: takes the frames.
        episode: what is shown.
        every: one frame every so many control steps; 1 is real time.
        depth: show the head depth picture (the simulator must render it).
        title: first line of the picture.
    """

    def __init__(
        self,
        writer: VideoWriter,
        episode: Episode,
        every: int = 1,
        depth: bool = True,
        title: str = "",
    ) -> None:
        self._writer, self._episode = writer, episode
        self._every, self._depth = every, depth
        self._title = title or f"{episode.scenario}  episode {episode.episode_id}"
        self._last: tuple[np.ndarray, np.ndarray | None, Caption] | None = None

    def __call__(self, sim: Simulator, agent: Agent, step: int) -> None:
        """Add a frame if this step is due."""
        if step % self._every == 0:
            self.shoot(sim, agent.report(), step)

    def shoot(self, sim: Simulator, report: AgentReport, step: int) -> np.ndarray:
        """Render a frame now, add it, and return it."""
        positions = np.asarray(sim.state().object_pos[0])
        boxes = target_boxes(self._episode, report, positions)
        picture = sim.render("third_person", 0, width=WIDTH, height=HEIGHT, boxes=boxes)
        depth = np.asarray(sim.depth()[0]) if self._depth else None
        caption = Caption(self._title, step, step / sim.info.control_hz, self._every, report)
        frame = compose(picture, depth, caption)
        self._last = (picture, depth, caption)
        self._writer.write(frame)
        return frame

    def end(self, record: EpisodeRecord) -> None:
        """Hold the last frame with the result written over it."""
        if self._last is None:
            return
        picture, depth, caption = self._last
        message = f"{record.failure['skill']}: {record.failure['cause']}" if record.failure else ""
        last = Caption(
            caption.title,
            record.steps,
            caption.seconds,
            caption.speed,
            caption.report,
            record.success,
            message,
        )
        frame = compose(picture, depth, last)
        for _ in range(round(_END_SECONDS * FPS)):
            self._writer.write(frame)


def record_episode(
    spec: EvaluationSpec, episode: Episode, index: int, out: Path, every: int = 1
) -> EpisodeRecord:
    """Run one episode as an evaluation would and write its video.

    Args:
        spec: as for an evaluation; its simulator must render depth.
        episode: what to run.
        index: its position in its set; decides the seed.
        out: ``.mp4`` file.
        every: one frame every so many control steps; 1 is real time, 4 four times as fast.

    Returns:
        The record, as an evaluation would have stored it.

    Raises:
        UserError: no OpenGL, the file cannot be written, or the episode cannot be loaded.
    """
    record = spec.job(index, episode).empty_record()
    episode = spec.begin(record, episode)
    with one_thread(), VideoWriter(out) as writer:
        sim = spec.simulator.build()
        try:
            camera = EpisodeCamera(writer, episode, every, title=record.extra.get("goal", "")[:60])
            agent, task = spec.agent.build(), spec.task.build(episode)
            with Tally(out.name, spec.max_steps, unit="steps") as tally:

                def observe(sim: Simulator, agent: Agent, step: int) -> None:
                    camera(sim, agent, step)
                    if step and step % _SHOWN_STEPS == 0:
                        tally.add(_SHOWN_STEPS, *_estimate(agent.report(), step, spec.max_steps))

                run_episode(sim, agent, task, record, episode, spec.max_steps, observe)
            camera.end(record)
        finally:
            sim.close()
    return record


def _estimate(report: AgentReport, step: int, max_steps: int) -> tuple[str, int]:
    """Return the running skill, and the steps that the whole plan may take."""
    skill = report.skills[-1].skill if report.skills else "-"
    # A plan that was made again starts over, so the step limit bounds the estimate.
    steps = step * len(report.plan) // report.cursor if report.cursor else max_steps
    return skill, min(steps, max_steps)
