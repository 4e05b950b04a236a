"""Plays a source: what the buttons ask for, steps that are due, and the picture of the present."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from eval.overlay import running_target, target_boxes
from eval.view.scene import Scene
from eval.view.sources import Source, scenes_in
from planner.chain.interface import AgentReport
from tpsrl.engines import make_stage
from tpsrl.errors import UserError
from tpsrl.robot.fetch import CONTROL_HZ
from tpsrl.sim.mujoco.engine import MujocoSimulator

DEPTH = 128
_PICTURES = 30.0
"""Most pictures a second."""
_BUSY = 0.1
"""Longest time between two pictures spent on steps, s; slower worlds lag behind real time."""


class Display(Protocol):
    """What of the page is told what to show; see :class:`eval.view.page.Page`."""

    camera: str
    walls: str

    def refresh(self, player: Player) -> None:
        """Show words and plots of the present; called often, it decides how often to act."""

    def opened(self, player: Player) -> None:
        """Show what another episode brings."""

    def say(self, text: str) -> None:
        """Tell the person something that went wrong."""


class Player:
    """Holds the time of the page; everything but the browser's events happens in its thread.

    Args:
        source: shown first.
        scene: 3D part of the page.
        display: the rest of it.

    Attributes:
        cursor: step that is shown.
        playing: whether time passes, while a browser is there to see it.
        speed: control steps for each one of real time; ``inf`` as fast as can be.
    """

    def __init__(self, source: Source, scene: Scene, display: Display) -> None:
        self.source, self.scene, self._display = source, scene, display
        self.cursor, self.playing, self.speed = 0, True, 1.0
        self._asked: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._stage: MujocoSimulator | None = None
        self._scenes: Any = ()
        self._shown: tuple[int, int] | None = None
        self._due, self._then = 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="player", daemon=True)

    def start(self, index: int) -> None:
        """Begin the episode ``index`` and play.

        Raises:
            UserError: there is no such episode, or it cannot be shown.
        """
        opened: Future[None] = Future()

        def begin() -> None:
            try:
                self.open(index)
                opened.set_result(None)
            except BaseException as error:
                opened.set_exception(error)

        self.ask(begin)
        self._thread.start()
        opened.result()

    def close(self) -> None:
        """End the thread and free what it runs."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)
        self.source.close()

    def ask(self, what: Callable[[], Any]) -> None:
        """Do something in the player's thread, soon; its mistakes are told to the person."""
        self._asked.put(what)

    @property
    def stage(self) -> MujocoSimulator:
        """The world that stands as the shown step has it."""
        assert self._stage is not None
        return self._stage

    @property
    def steps(self) -> int:
        """Number of the last step there is."""
        return len(self.source.recording) - 1

    def open(self, index: int) -> None:
        """Begin an episode of the source."""
        self.source.begin(index)
        self.cursor, self._due, self._shown = 0, 0.0, None
        scenes = scenes_in(self.source.recording)
        if self._stage is None or scenes != self._scenes:
            old, self._stage = self._stage, make_stage(DEPTH, scenes)
            self._scenes = scenes
            if old is not None:
                old.close()
            self.scene.clear()
        self._stage.reset([self.source.recording.episode], [0])
        self.scene.build(self._stage.solids(), self._display.walls)
        self._display.opened(self)

    def change(self, source: Source, index: int) -> None:
        """Show another source from now on."""
        old, self.source = self.source, source
        try:
            self.open(index)
        except UserError:
            self.source = old
            source.close()
            raise
        old.close()

    def seek(self, step: int) -> None:
        """Show a step; going on from there shows again what was, up to the present."""
        self.cursor = int(np.clip(step, 0, self.steps))

    def advance(self) -> bool:
        """Go on by one step, from the recording or live; return whether there was one."""
        if self.cursor >= self.steps and not self.source.step():
            return False
        self.cursor += 1
        return True

    def redraw(self) -> None:
        """Show the present step anew although the time stands still."""
        self._shown = None

    def _run(self) -> None:
        while not self._closing.is_set():
            start = time.monotonic()
            try:
                self._obey()
                self._play(start)
                self._show()
            except UserError as error:
                self.playing = False
                self._display.say(str(error))
            except Exception:
                self.playing = False
                self._display.say(traceback.format_exc(limit=-1).strip().splitlines()[-1])
                traceback.print_exc()
            rest = 1.0 / _PICTURES - (time.monotonic() - start)
            if rest > 0:
                self._closing.wait(rest)

    def _obey(self) -> None:
        while not self._asked.empty():
            self._asked.get()()

    def _play(self, now: float) -> None:
        passed, self._then = now - self._then, now
        if not self.playing or self._stage is None or not self.scene.watched:
            self._due = 0.0
            return
        self._due += min(passed, _BUSY) * CONTROL_HZ * self.speed
        while self._due >= 1.0 and time.monotonic() < now + _BUSY:
            self._due -= 1.0
            if not self.advance():
                self.playing = False
                return
        self._due = min(self._due, 1.0 + CONTROL_HZ * _BUSY)

    def _show(self) -> None:
        if self._stage is None:
            return
        recording = self.source.recording
        now = (id(recording), self.cursor)
        if now != self._shown:
            self._shown = now
            self._stage.place(recording.poses(self.cursor))
            self.scene.show(self._stage.solid_poses())
            positions = np.asarray(self._stage.state().object_pos[0])
            running = running_target(recording.episode, self.report())
            self.scene.mark(target_boxes(recording.episode, running, positions))
        self.scene.film(self._display.camera, recording.poses(self.cursor).base)
        self._display.refresh(self)

    def report(self) -> AgentReport:
        """Return what the agent had reported at the shown step."""
        recording = self.source.recording
        marks = recording.marks(self.cursor)
        none: dict[str, Any] = {"actions": [], "why": ""}
        plan = recording.plans[marks.plan] if marks.plan >= 0 else none
        return AgentReport(
            plan=plan["actions"],
            cursor=marks.cursor,
            skills=recording.runs[: marks.run + 1],
            replans=max(marks.plan, 0),
            why=plan["why"],
        )

    def run_start(self) -> int:
        """Return the step in which the running skill began."""
        recording, step = self.source.recording, self.cursor
        run = recording.marks(step).run
        while step > 0 and recording.marks(step - 1).run == run:
            step -= 1
        return step
