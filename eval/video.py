"""Records episodes as H.264 videos that ordinary players read."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from eval.camera import Follower
from eval.episode import EpisodeRecord, EpisodeRun, run_episode
from eval.overlay import HALF, WHOLE, Arrangement, Caption, Panel, running_target, target_boxes
from eval.plan_view import SmallMap
from eval.spec import EvaluationSpec
from eval.trials import SkillStudy, Trial
from planner.chain.interface import Agent, AgentReport
from skills.envs.single import SkillEnv
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.jobs.progress import Tally
from tpsrl.jobs.threads import one_thread
from tpsrl.sim.door import Simulator
from ver_trainer.files import temporary_beside

FPS = 30
SMALL = ("-crf", "23", "-preset", "superfast", "-threads", "2")
"""Good to look at."""
WIDTH, HEIGHT = 1280, 720
_END_SECONDS = 2.0
_SHOWN_STEPS = 10
_DEPTH = 128


class VideoWriter:
    """Writes frames to an mp4 file (H.264, yuv420p, 30 frames/s) under a temporary name.

    The file appears under its own name only when it is complete.

    Args:
        path: file to write, ``.mp4``.
        width: pixels, even.
        height: pixels, even.
        encoding: words for the encoder.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        width: int = WIDTH,
        height: int = HEIGHT,
        encoding: Sequence[str] = SMALL,
    ) -> None:
        import imageio_ffmpeg

        if path.suffix != ".mp4":
            raise UserError(f"out={path} must end in .mp4")
        self.path = path
        self.frames = 0
        self._temporary = temporary_beside(path)
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
            output_params=[*encoding, "-movflags", "+faststart"],
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
    """Draws frames of a running episode; an observer of :func:`eval.episode.run_episode`.

    Args:
        episode: what is shown.
        speed: one frame every so many control steps; 1 is real time.
        depth: show the head depth picture (the simulator must render it).
        title: first line of the panel.
        layout: of the frames.
    """

    def __init__(
        self,
        episode: Episode,
        speed: int = 1,
        depth: bool = True,
        title: str = "",
        layout: Arrangement = WHOLE,
    ) -> None:
        self._episode, self._speed, self._depth = episode, speed, depth
        name = episode.scenario.replace("_", " ").capitalize()
        self._title = title or f"{name}, episode {episode.episode_id}"
        self._panel, self._follower = Panel(layout, episode), Follower()
        self._map: SmallMap | None = None
        self._last: tuple[Any, Caption] | None = None

    def shoot(
        self, sim: Simulator, report: AgentReport, step: int, notes: tuple[str, ...] = ()
    ) -> np.ndarray:
        """Return a frame of the world as it is now, (H, W, 3) uint8."""
        layout = self._panel.layout
        if self._map is None:
            self._map = SmallMap(sim, self._episode, *layout.chart_size)
        state = sim.state()
        running = running_target(self._episode, report)
        positions, target, goal = np.asarray(state.object_pos[0]), None, None
        if running is not None:
            target = positions[self._episode.targets[running].object_index]
            held = int(state.held_object[0]) == self._episode.targets[running].object_index
            goal = self._episode.targets[running].goal_pos if held else target
        seconds = step / sim.info.control_hz
        width, height = layout.picture
        picture = sim.render(
            "third_person",
            0,
            width=width,
            height=height,
            boxes=target_boxes(self._episode, running, positions),
            view=self._follower.look(sim, target, seconds),
            draft=True,
        )
        depth = np.asarray(sim.depth()[0]) if self._depth and layout.side else None
        chart = self._map.draw(sim, step, running, goal)
        caption = Caption(self._title, step, seconds, self._speed, report, notes=notes)
        self._last = ((picture, depth, chart), caption)
        return self._panel.frame(picture, caption, depth, chart)

    def last(self, success: bool, message: str) -> np.ndarray | None:
        """Return the last frame with the result on it, ``None`` if there was no frame."""
        if self._last is None:
            return None
        (picture, depth, chart), caption = self._last
        ended = dataclasses.replace(caption, result=success, message=message)
        return self._panel.frame(picture, ended, depth, chart)


def hold(writer: VideoWriter, frame: np.ndarray | None) -> None:
    """Show a frame for two seconds."""
    for _ in range(round(_END_SECONDS * FPS) if frame is not None else 0):
        assert frame is not None
        writer.write(frame)


def ending(record: EpisodeRecord) -> str:
    """Return who is to blame for a failure, ``""`` for a success."""
    return f"{record.failure['skill']}: {record.failure['cause']}" if record.failure else ""


def record_episode(
    spec: EvaluationSpec, episode: Episode, index: int, out: Path, speed: int = 1
) -> EpisodeRecord:
    """Run one episode as an evaluation would and write its video.

    Args:
        spec: as for an evaluation; its simulator must render depth.
        episode: what to run.
        index: its position in its set; decides the seed.
        out: ``.mp4`` file.
        speed: one frame every so many control steps; 1 is real time, 4 four times as fast.

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
            title = record.extra.get("goal") or _title(episode, index)
            camera = EpisodeCamera(episode, speed, title=title)
            agent, task = spec.agent.build(), spec.task.build(episode)
            with Tally(out.name, spec.max_steps, unit="steps") as tally:

                def observe(sim: Simulator, agent: Agent, step: int) -> None:
                    if step % speed == 0:
                        writer.write(camera.shoot(sim, agent.report(), step))
                    if step and step % _SHOWN_STEPS == 0:
                        tally.add(_SHOWN_STEPS, *_estimate(agent.report(), step, spec.max_steps))

                run_episode(sim, agent, task, record, episode, spec.max_steps, observe)
            hold(writer, camera.last(record.success, ending(record)))
        finally:
            sim.close()
    return record


def record_trial(study: SkillStudy, seed: int, out: Path, speed: int = 1) -> dict[str, Any]:
    """Play the episode of a seed in a skill's environment and write its video.

    Args:
        study: as of an evaluation of the skill.
        seed: of the episode.
        out: ``.mp4`` file.
        speed: as in :func:`record_episode`.

    Returns:
        The record, as an evaluation would have stored it, but for index and fingerprint.

    Raises:
        UserError: no OpenGL, or the file cannot be written.
    """
    env_args = {**study.env_args, "depth": study.env_args.get("depth") or _DEPTH}
    world = contextlib.closing(SkillEnv(study.skill, **env_args))
    with one_thread(), VideoWriter(out) as writer, world as env:
        trial = Trial(env, study.acting(env), seed)
        episode, run = env.sim.episode(0), trial.report.skills[0]
        title = f"{study.skill.replace('_', ' ').capitalize()}, seed {seed}"
        camera = EpisodeCamera(episode, speed, title=title)
        total = 0.0
        writer.write(camera.shoot(env.sim, trial.report, 0))
        while not trial.over:
            trial.step()
            total += float(trial.reward)
            notes = (f"reward {float(trial.reward):+.3f}", f"return {total:.2f}")
            if run.steps % speed == 0 and not trial.over:
                writer.write(camera.shoot(env.sim, trial.report, run.steps, notes))
        camera.shoot(env.sim, trial.report, run.steps, notes)
        record = trial.record()
        hold(writer, camera.last(record["success"], record["cause"]))
    return record


def _title(episode: Episode, index: int) -> str:
    return f"{episode.scenario.replace('_', ' ').capitalize()}, episode {index}"


def _estimate(report: AgentReport, step: int, max_steps: int) -> tuple[str, int]:
    """Return the running skill, and the steps that the whole plan may take."""
    skill = report.skills[-1].skill if report.skills else "-"
    # A plan that was made again starts over, so the step limit bounds the estimate.
    steps = step * len(report.plan) // report.cursor if report.cursor else max_steps
    return skill, min(steps, max_steps)


@dataclasses.dataclass(frozen=True)
class Side:
    """One of two runs of an episode that are shown side by side.

    Attributes:
        spec: of the run.
        title: what tells it from the other.
    """

    spec: EvaluationSpec
    title: str


def compare_episode(
    sides: tuple[Side, Side], episode: Episode, index: int, out: Path, speed: int = 1
) -> tuple[EpisodeRecord, EpisodeRecord]:
    """Run one episode twice and write one video of both; the shorter run waits for the longer.

    Args:
        sides: left and right.
        episode: what to run.
        index: its position in its set; decides the seeds.
        out: ``.mp4`` file.
        speed: as in :func:`record_episode`.

    Raises:
        UserError: as :func:`record_episode`.
    """
    records = tuple(side.spec.job(index, episode).empty_record() for side in sides)
    runs = [
        _frames(side, episode, record, speed) for side, record in zip(sides, records, strict=True)
    ]
    last: list[np.ndarray | None] = [None, None]
    with one_thread(), VideoWriter(out) as writer, Tally(out.name, 1, unit="videos") as tally:
        try:
            while True:
                new = [next(run, None) for run in runs]
                if all(frame is None for frame in new):
                    break
                last = [
                    old if fresh is None else fresh for old, fresh in zip(last, new, strict=True)
                ]
                writer.write(np.concatenate([f for f in last if f is not None], axis=1))
        finally:
            for run in runs:
                run.close()
        hold(writer, np.concatenate([f for f in last if f is not None], axis=1))
        tally.add(1)
    return records[0], records[1]


def _frames(
    side: Side, episode: Episode, record: EpisodeRecord, speed: int
) -> Generator[np.ndarray, None, None]:
    """Yield the frames of one run as it goes on; its record is filled at the end."""
    spec = side.spec
    episode = spec.begin(record, episode)
    sim = spec.simulator.build()
    camera = EpisodeCamera(episode, speed, depth=False, title=side.title, layout=HALF)
    try:
        agent, task = spec.agent.build(), spec.task.build(episode)
        run = EpisodeRun(sim, agent, task, record, episode, spec.max_steps)
        moved = True
        while moved:
            if run.steps % speed == 0:
                yield camera.shoot(sim, agent.report(), run.steps)
            moved = run.step()
        run.finish()
        frame = camera.last(record.success, ending(record))
        if frame is not None:
            yield frame
    finally:
        sim.close()
